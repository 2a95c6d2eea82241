"""When ranks do what: predicted by following their programs, measured in a step, drawn."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import sleep
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from executors import needs_native
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule import float64
from chainrule.devices import overlap, running
from chainrule.devices.reports import times
from chainrule.devices.reports.measuring import refuse_several_machines
from chainrule.devices.reports.spans import ADDING, DOING, WAITING, ParallelTimeline
from chainrule.devices.reports.times import Times
from chainrule.errors import InputError, SizeError
from chainrule.plan import pipeline
from chainrule.plan.pipelines.stages import stages_of
from chainrule.plan.pipelines.timeline import timeline
from chainrule.plan.speeds import SPEEDS, Level
from chainrule.train.step.job import Alone

n = cr.size("n")


def assert_is_possible(found: ParallelTimeline) -> None:
    """A rank does one thing at a time, and nothing with a value before it is there."""
    for spans in found.ranks:
        assert all(one.start <= one.end for one in spans)
        assert all(one.end <= two.start + 1e-12 for one, two in pairwise(spans))
        assert {one.doing for one in spans} <= set(DOING)
        assert [one.instruction for one in spans] == sorted(one.instruction for one in spans)
    assert all(one.start <= one.end for one in found.messages)
    for busy, waiting in zip(found.busy, found.waiting, strict=True):
        assert busy + waiting == pytest.approx(found.seconds)
    assert 0 <= found.bubble < 1


def constant_times(patched: pytest.MonkeyPatch, of: dict[str, float], message: float) -> None:
    """Pieces take so long, by what they are for; so do messages."""
    patched.setattr(
        Times, "piece", lambda times, rank, number: of[times.split.pieces[number].purpose]
    )
    patched.setattr(Times, "message", lambda times, sender, to, nbytes: message)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
def test_a_step_takes_as_long_as_its_pipeline_on_paper(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chainrule.plan.pipeline` is the referee, for times that are the same on all stages."""
    constant_times(
        monkeypatch, {"forward": 1.0, "backward": 0.9, "gradients": 0.7, "update": 0.0}, 0.05
    )
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=8, stages=("h1", "h2"), schedule=schedule)
    pieces = [piece.name for piece in split.split_at(n=ROWS).pieces]
    forward, backward, weights = (
        [of * (f"{name} {stage}" in pieces) for stage in range(3)]
        for name, of in (("forward", 1.0), ("backward", 0.9), ("gradients", 0.7))
    )
    found = split.timeline(n=ROWS)
    assert_is_possible(found)
    paper = pipeline(3, 8, forward, backward, weights, 0.05, schedule)
    assert found.lower_bound == pytest.approx(paper.lower_bound)
    assert paper.lower_bound <= found.seconds + 1e-9
    # the orders are those for equal stages: the first of these has no gradients to send on
    paper_seconds = timeline(
        stages_of(3, 8, forward, backward, weights, 0.05, 1, 1.0), split.orders
    ).duration
    if schedule in ("zb-h1", "zb-h2"):
        assert found.seconds == pytest.approx(paper_seconds)
    else:  # gradients of inputs are sent on before those of parameters are computed
        assert found.seconds < paper_seconds


@pytest.mark.slow
@pytest.mark.sweep(8)
@pytest.mark.parametrize("model", MODELS)
def test_no_step_is_quicker_than_its_bound(model: str) -> None:
    step, *_ = case(model, "adamw", "reference")
    for stages, replicas in ((1, 1), (2, 3), (4, 2)):
        for schedule in ("1f1b", "zb-h2", "interleaved"):
            split = cr.parallel(
                step, micro_batches=6, stages=stages, replicas=replicas, schedule=schedule
            )
            found = split.timeline(n=ROWS)
            assert_is_possible(found)
            assert found.lower_bound is not None
            assert max(found.busy) <= found.seconds
            assert found.lower_bound <= found.seconds * (1 + 1e-9)
            sent = [span for span in found.ranks[-1] if span.doing == ADDING]
            assert len(sent) <= (replicas > 1)


def test_times_are_those_of_the_machine_that_is_asked_for() -> None:
    known = SPEEDS[64]
    numpy = replace(known.numpy, **{k: 10 * v for k, v in vars(known.numpy).items()})
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=6, stages=1)
    slow = split.timeline(n=ROWS, speeds=replace(known, numpy=numpy))
    assert slow.seconds == pytest.approx(10 * split.timeline(n=ROWS).seconds, rel=1e-3)
    with pytest.raises(SizeError, match="depends on n"):
        split.timeline()


def test_ranks_of_one_machine_are_in_each_others_way() -> None:
    step, *_ = case("network", "sgd", "reference")
    crowded = replace(SPEEDS[64], crowding=1.5)
    for replicas, longer in ((1, 1.0), (2, 1.5)):
        split = cr.parallel(step, micro_batches=6, replicas=replicas)
        alone, together = (split.timeline(n=ROWS, speeds=one) for one in (SPEEDS[64], crowded))
        for one, other in zip(alone.ranks[0], together.ranks[0], strict=True):
            if one.doing not in (WAITING, ADDING):
                assert other.end - other.start == pytest.approx(longer * (one.end - one.start))


@needs_native
def test_ranks_of_one_machine_share_a_cache() -> None:
    step, *_ = case("network", "sgd", "native")

    def update(replicas: int, nbytes: float) -> float:
        """Seconds in which a rank updates the weights, where a fast cache has so many bytes."""
        levels = Level(nbytes, 100.0), Level(1 << 62, 0.1)
        speeds = replace(SPEEDS[64], memory=levels, crowding=1.0)
        split = cr.parallel(step, micro_batches=2, replicas=replicas)
        spans = split.timeline(n=ROWS, speeds=speeds).ranks[0]
        return sum(one.seconds for one in spans if one.doing == "update")

    assert update(2, 1e6) == pytest.approx(update(1, 1e6), rel=0.1)
    assert update(2, 2000) > 5 * update(1, 2000)  # what one of two touches has room there


def test_a_traced_step_is_the_step_and_tells_when_ranks_did_what() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=2, replicas=2)
    one, other = split.init(weights), split.init(weights)
    assert split.trace(one, batch).objective == split(other, batch)
    trace = split.trace(one, batch)
    assert trace.objective == split(other, batch)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert trace.measured.is_measured and not trace.predicted.is_measured
    assert_is_possible(trace.measured)
    kinds: list[list[Any]] = []
    for found in (trace.measured, trace.predicted):
        kinds.append(
            [
                [(a.doing, a.micro_batch, a.nbytes) for a in spans if a.doing != WAITING]
                for spans in found.ranks
            ]
        )
    assert kinds[0] == kinds[1]
    sent = [
        sorted((m.name, m.micro_batch, m.sender, m.to, m.nbytes) for m in found.messages)
        for found in (trace.measured, trace.predicted)
    ]
    assert sent[0] == sent[1]


def test_a_trace_for_perfetto_is_well_formed(tmp_path: Path) -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=2, replicas=2)
    trace = split.trace(split.init(weights), batch)
    trace.save(tmp_path / "step.json")
    data = json.loads((tmp_path / "step.json").read_text())
    events = data["traceEvents"]
    named = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    title = "network, n = 24, 1f1b"
    assert named == {f"measured: {title}", f"predicted: {title}"}
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert len(threads) == 2 * 4
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert slices.keys() == threads
    flows = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
            spans = slices[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= end for start, end in spans)
    assert len(flows) == len(trace.measured.messages) + len(trace.predicted.messages)
    assert all(one["s"]["ts"] <= one["f"]["ts"] for one in flows.values())


def test_a_picture_has_a_lane_for_each_rank_and_an_arrow_for_each_message(tmp_path: Path) -> None:
    step, *_ = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=2, replicas=2)
    found = split.timeline(n=ROWS)
    for width in (320, 390, 960):
        svg = found.svg(width=width)
        assert svg == split.timeline(n=ROWS).svg(width=width)
        root = ElementTree.fromstring(svg)
        texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert [one for one in texts if re.fullmatch(r"rank \d", str(one))] == [
            f"rank {rank}" for rank in range(4)
        ]
        arrows = re.findall(r'marker-end="url\(#t[0-9a-f]{8}-(?:there|back)\)"><title>', svg)
        assert len(arrows) == len(found.messages)
        for x, wide in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg):
            assert float(x) + float(wide) <= width
    found.save(tmp_path / "step.svg")
    assert (tmp_path / "step.svg").read_text() == found.svg()


def test_what_is_in_names_is_only_text() -> None:
    found = ParallelTimeline('a"><script>&', 1, False, ((),), ())
    svg = found.svg()
    ElementTree.fromstring(svg)
    assert "<script" not in svg and "µs</text>" not in svg
    assert json.loads(json.dumps(found.trace_json()))
    html = found._repr_mimebundle_()["text/html"]
    assert html.startswith('<img alt="a&quot;&gt;&lt;script&gt;&amp;" src="data:image/svg+xml;')


def test_what_cannot_be_drawn_or_written_is_refused(tmp_path: Path) -> None:
    step, *_ = case("network", "sgd", "reference")
    found = cr.parallel(step, micro_batches=6, stages=2).timeline(n=ROWS)
    with pytest.raises(InputError, match="width is 200") as caught:
        found.svg(width=200)
    assert "320 or more" in str(caught.value.hint)
    with pytest.raises(InputError, match=r"cannot be written to .*step\.png") as caught:
        found.save(tmp_path / "step.png")
    assert "step.svg" in str(caught.value.hint)
    with pytest.raises(InputError, match="cannot write to"):
        found.save(tmp_path / "missing" / "step.json")


def test_a_printed_timeline_has_a_line_for_each_rank() -> None:
    step, *_ = case("network", "adamw", "reference")
    found = cr.parallel(step, micro_batches=6, stages=2, replicas=2).timeline(n=ROWS)
    lines = str(found).splitlines()
    assert re.fullmatch(
        r"network, n = 24, 1f1b: .* predicted \(in no order of the pieces less than .*\), "
        r"[\d.]+ % bubble",
        lines[0],
    )
    lanes = [re.fullmatch(r" +(\d) ([FBWUA.]{78})", line) for line in lines[1:5]]
    assert [one and one[1] for one in lanes] == ["0", "1", "2", "3"]
    data = json.loads(json.dumps(found.json()))
    assert data["seconds"] == found.seconds and len(data["ranks"]) == 4


def bare(x: float64[n, 4], W1: float64[4, 4], W2: float64[4, 4]):
    """Its second stage has no parameters."""
    h1 = np.tanh(x @ W1)
    h2 = np.exp(np.tanh(h1))
    J = np.mean((h2 @ W2) ** 2)
    return J


@needs_native
def test_a_stage_that_updates_nothing_waits_at_its_end() -> None:
    step = cr.training_step(bare, ("W1", "W2"), cr.sgd(0.1), executor="native")
    split = cr.parallel(step, micro_batches=2, stages=("h1", "h2"))
    found = split.split_at(n=4)
    assert found.commits.at[1] == len(found.programs[1].instructions)
    batch = {"x": np.eye(4)}
    trace = split.trace(split.init({"W1": np.eye(4), "W2": np.eye(4)}), batch)
    for one in (trace.measured, trace.predicted):
        assert_is_possible(one)
        assert one.step_seconds > one.seconds == one.json()["seconds"]


@needs_native
def test_a_rank_that_has_nothing_to_do_waits() -> None:
    step = cr.training_step(bare, ("W1", "W2"), cr.sgd(0.1), executor="native")
    split = cr.parallel(step, micro_batches=2, stages=4)
    found = split.split_at(n=4)
    assert any(not one.instructions for one in found.programs)
    state = split.init({"W1": np.eye(4), "W2": np.eye(4)})
    trace = split.trace(state, {"x": np.eye(4)})
    for one in (trace.measured, trace.predicted):
        assert_is_possible(one)


def test_the_end_of_a_step_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    step, weights, batch = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=2)
    run = running._by_messages

    def slow_to_end(*arguments: Any) -> Any:
        found = run(*arguments)
        sleep(0.03)
        return found

    monkeypatch.setattr(running, "_by_messages", slow_to_end)
    assert split.trace(split.init(weights), batch).measured.starting > 0.03


def test_a_helper_takes_its_time_from_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors, which it shares with it: three sums beside seven pieces."""
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)
    monkeypatch.setattr(times, "starting_seconds", lambda arrays: 0.25 if arrays == 4 else 0.0)
    monkeypatch.setattr(Times, "piece", lambda self, rank, number: 1.0)
    monkeypatch.setattr(Times, "adding", lambda self, ranks, nbytes: 0.5)
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=2, replicas=2)
    shared = split.timeline(n=ROWS)
    assert_is_possible(shared)
    assert len(shared.exchanges) == 6 and shared.hidden == 1
    assert shared.seconds == pytest.approx(7 + 3 * 0.5)
    assert shared.step_seconds == pytest.approx(0.25 + 7 + 3 * 0.5)
    monkeypatch.setattr(Times, "shares_cores", lambda self, rank: False)
    assert split.timeline(n=ROWS).step_seconds == pytest.approx(7)


def test_a_trace_needs_one_clock() -> None:
    class TwoMachines(Alone):
        def exchange(self, what: str, told: Any, seconds: float = 0.0) -> list[Any]:
            return ["north", "south"]

    with pytest.raises(InputError, match="those on north, south have clocks of their own"):
        refuse_several_machines(TwoMachines())
    refuse_several_machines(Alone())
