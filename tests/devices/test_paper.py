"""Plans on paper have the bytes of formulas for their kind, and of steps that are split."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest
from paper_models import CLUSTER, LARGE, SMALL, cluster, decoder

import chainrule as cr
from chainrule.devices.planning.paper.plans import (
    StagePlan,
    Totals,
    Way,
    seconds_of,
    simulated,
    stages_of,
    units,
)
from chainrule.devices.planning.paper.pricing import Price
from chainrule.errors import InputError, MemoryLimitError
from chainrule.plan import pipeline


def parameters_of(shape: tuple[int, ...], layers: int, ends: tuple[bool, bool], ways: int) -> float:
    """Parameters of a device, by hand: 12 h² of products a layer are split; norms, biases and
    positions are whole; both tables of words are split."""
    _, h, _, s, V = shape
    first, last = ends
    return (
        layers * (12 * h * h / ways + 9 * h) + first * (V * h / ways + s * h) + last * V * h / ways
    )


def activations_of(shape: tuple[int, ...], layers: int, last: bool, ways: int, rows: int) -> float:
    """Bytes that a micro-batch keeps, by hand, after Korthikanti et al., Reducing activation
    recomputation in large transformer models (2022), section 4; they have 34 sbh + 5 as²b for half
    precision and dropout.

    In float32 without dropout, from the derivatives of each operation.  A layer norm: what is
    centred, the deviation (once, and spread), the quotient, the gain spread, what comes out: 5 sbh
    + sb.  Attention: q scaled, k, v, what the heads give: 4 sbh; of the softmax exp, its sum
    spread, the quotient: 3 as²b, and whether the sum is 0, a byte for each row.  GELU: 4 arrays of
    4 sbh.
    """
    _, h, a, s, V = shape
    b = rows
    whole = 2 * 4 * (5 * s * b * h + s * b)
    split = 4 * (4 + 16) * s * b * h + 12 * a * s * s * b + a * s * b
    head = 4 * s * b * h + 4 * s * b * V / ways
    return layers * (whole + split / ways) + last * head


def assert_formulas(shape: tuple[int, ...], plan: cr.ParallelPlan, rel: float) -> None:
    way, layers = plan.best.way, plan.chain.layers
    for number, stage in enumerate(plan.best.stages):
        own = [at for first, last in stage.chunks for at in range(first, last + 1)]
        count = sum(one in layers for one in own)
        ends = 0 in own, len(plan.chain.elements) - 1 in own
        held = parameters_of(shape, count, ends, way.ways)
        wanted = {
            "parameters": 4 * held,
            "gradients": 4 * held,
            "optimizer": 8 * held / (way.replicas if way.sharded else 1),
        }
        kept = activations_of(shape, count, ends[1], way.ways, way.rows)
        if way.recomputed:
            kept = (count + ends[1]) * 4 * way.rows * shape[3] * shape[1]
        wanted["activations"] = kept * min(way.each, way.stages - number)
        for name, nbytes in wanted.items():
            assert stage.parts[name] == pytest.approx(nbytes, rel=rel), (number, name)
        assert sum(stage.parts[name] for name in wanted) == pytest.approx(
            sum(wanted.values()), rel=rel
        )
        assert stage.nbytes == sum(stage.parts.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stages", "ways", "sharded", "recomputed"),
    [
        pytest.param(8, 8, False, False, marks=pytest.mark.exhaustive),
        pytest.param(4, 2, True, False, marks=pytest.mark.exhaustive),
        (2, 4, True, True),
    ],
)
def test_seven_billion_parameters_have_the_bytes_of_formulas(
    stages: int, ways: int, sharded: bool, recomputed: bool
) -> None:
    """Parameters, gradients, optimizer (whole or sharded: ZeRO-1) and activations, each within 2 %
    on each device."""
    step = decoder(*LARGE)
    plan = cr.plan_parallel(
        step,
        cluster(64),
        batch=512,
        stages=stages,
        ways=ways,
        replicas=64 // stages // ways,
        micro_batches=512,
        schedule="1f1b",
        sharded=sharded,
        recomputed=recomputed,
    )
    assert len(plan.chain.layers) == 32
    assert_formulas(LARGE, plan, 0.001)


@pytest.mark.exhaustive  # docs/devices.md makes one
@pytest.mark.parametrize(
    ("devices", "rows", "seconds"),
    [(8, 16, 30), (16, 128, 30), (64, 512, 60), (1000, 4000, 300)],
)
def test_large_plans_are_made_in_time(devices: int, rows: int, seconds: float) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    plan = cr.plan_parallel(decoder(*LARGE), cluster(devices), batch=rows)
    assert time.process_time() - begun < seconds
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB, of 110 GB
    best = plan.best
    assert best.way.devices <= devices and best.nbytes <= 80e9
    assert best.seconds == min(one.seconds for one in plan.ranked)
    flops = 6 * 6.9e9 * 2048 * rows  # without attention
    assert flops / 156e12 / devices < best.seconds < 4 * flops / 156e12 / devices


# Stages, and what does not fit --------------------------------------------------------------------


def test_stages_share_out_the_work_within_memory() -> None:
    def element(seconds: float, kept: int, held: int = 0) -> Price:
        return Price(seconds, 0.0, 0.0, held, 0, 0, kept, 1, 1, 0)

    def cut(way: Way, prices: list[Price], limit: int | None = None) -> list[tuple[int, int]]:
        return [one.chunks[0] for one in stages_of(way, Totals(prices), limit) or ()]

    way = Way(2, 1, 1, 1, 8, "1f1b", False, False)
    alike = [element(1.0, 10)] * 6
    assert cut(way, alike) == [(0, 2), (3, 5)]
    assert cut(way, [element(5.0, 10), *alike[:3]]) == [(0, 0), (1, 3)]
    # the first stage keeps two micro-batches: 2 * 10 for each element and a message
    assert cut(way, alike, 50) == [(0, 1), (2, 5)]
    assert stages_of(way, Totals(alike), 40) is None
    assert stages_of(way, Totals(alike[:1]), None) is None
    assert [units(way, stage) for stage in (0, 1)] == [2, 1]
    assert units(way._replace(schedule="zb-h2"), 0) == 3


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "zb-h2"])
@pytest.mark.parametrize(("stages", "each"), [(1, 4), (2, 16), (4, 8), (5, 40)])
def test_the_simulation_is_near_the_closed_form(stages: int, each: int, schedule: str) -> None:
    """For alike stages and no messages.  Ranks send on gradients of inputs before they compute
    those of parameters, and published 1F1B does after: theirs may wait longer, and no less."""
    text = CLUSTER.format(copies=1, memory="80 GB").replace('"5 us"', "0").replace('"10 us"', "0")
    devices = cr.Devices.parse(text)
    way = Way(stages, 1, 1, 1, each, schedule, False, False)
    parts = {"parameters": 0, "gradients": 0, "optimizer": 0}
    alike = [StagePlan(((at, at),), 1.0, 1.1, 0.9, parts, 0) for at in range(stages)]
    closed, found = (of(way, alike, devices) for of in (seconds_of, simulated))
    paper = pipeline(stages, each, 1.0, 1.1, 0.9, schedule=schedule)
    assert paper.lower_bound <= found + 1e-9 and 0.85 * closed < found < closed + 1e-9
    known = [units(way, at) for at in range(stages)]
    assert all(one <= most for one, most in zip(paper.peak_units, known, strict=True))


@pytest.mark.parametrize(
    ("stages", "chunks", "each"), [(2, 2, 8), (4, 2, 8), (4, 3, 24), (3, 2, 2)]
)
def test_stages_of_several_chunks_on_paper(stages: int, chunks: int, each: int) -> None:
    """They keep what the pipeline on paper keeps, on the first stage p (1 + (p - 1) / (p v)) units
    (Narayanan et al.), and take as long: a v-th of what 1F1B waits."""
    text = CLUSTER.format(copies=1, memory="80 GB").replace('"5 us"', "0").replace('"10 us"', "0")
    way = Way(stages, 1, 1, 1, each, "interleaved", False, False, chunks)
    alike = [Price(1.0, 1.1, 0.9, 7, 0, 0, 10, 0, 0, 0)] * (2 * stages * chunks)
    made = stages_of(way, Totals(alike), None)
    assert made is not None and made[0].chunks[1] == (2 * stages, 2 * stages + 1)
    assert stages_of(way, Totals(alike), made[0].nbytes - 1) is None
    times = (2.0 * chunks, 2.2 * chunks, 1.8 * chunks)
    paper = pipeline(stages, each, *times, schedule="interleaved", chunks=chunks)
    for one, units_ in zip(made, paper.peak_units, strict=True):
        assert one.parts["activations"] == pytest.approx(units_ * 20 * chunks)
        assert one.parts["parameters"] == 7 * 2 * chunks
    if each >= 2 * stages:
        first = stages * (1 + (stages - 1) / (stages * chunks))
        assert paper.peak_units[0] == pytest.approx(first)
    closed, found = (of(way, made, cr.Devices.parse(text)) for of in (seconds_of, simulated))
    duration = max(slots[-1].end for slots in paper.timeline)
    assert paper.lower_bound <= found + 1e-9 and found <= duration + 1e-9
    assert each < stages or closed == pytest.approx(duration)


@pytest.mark.slow
def test_interleaved_plans_are_searched_for_or_pinned() -> None:
    step, devices = decoder(*SMALL), cluster(8)
    found = cr.plan_parallel(step, devices, batch=8, stages=2, ways=1, replicas=1, micro_batches=8)
    words = "2 stages x 1 way x 1 replica, 8 micro-batches, interleaved, 2 chunks each"
    assert words in {one.way.words for one in found.ranked}
    assert "interleaved, 2 chunks" in str(found)
    pinned = cr.plan_parallel(step, devices, batch=8, schedule="interleaved", stages=2)
    assert all(one.way.chunks == 2 for one in pinned.ranked)
    assert [len(one.chunks) for one in pinned.best.stages] == [2, 2]
    whole = sorted(at for one in pinned.best.stages for pair in one.chunks for at in pair)
    assert (whole[0], whole[-1]) == (0, len(pinned.chain.elements) - 1)
    with pytest.raises(InputError, match="chunks is 3, and the schedule is not interleaved"):
        cr.plan_parallel(step, devices, batch=8, schedule="1f1b", chunks=3)
    with pytest.raises(InputError, match="and more stages were asked for"):
        cr.plan_parallel(step, devices, batch=8, schedule="interleaved", stages=2, chunks=3)


@pytest.mark.slow
def test_what_does_not_fit_on_paper_is_told_and_the_advice_is_right() -> None:
    step = decoder(*SMALL)
    with pytest.raises(MemoryLimitError) as caught:
        cr.plan_parallel(step, cluster(8, "20 KB"), batch=8)
    error = caught.value
    assert "objective does not fit on 8 devices: in the smallest plan found" in error.what
    assert "which has 20,000; there are " in error.what
    assert f"devices with {error.needed_nbytes:,} bytes each" in error.hint
    plan = cr.plan_parallel(step, cluster(8, str(error.needed_nbytes)), batch=8)
    assert plan.best.nbytes <= error.needed_nbytes
    assert plan.too_large > 0


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"batch": 8, "stages": 0}, "stages is 0"),
        ({"batch": 8, "schedule": "gpipe"}, "schedule is 'gpipe'"),
        ({"batch": 7, "replicas": 2}, "8 devices have no plan for n = 7 with replicas=2"),
        ({"batch": 8, "stages": 4, "ways": 4}, "no plan for n = 8 with stages=4, ways=4"),
        ({"batch": 8, "stages": 8}, "has 5 parts that follow each other, and more stages"),
        ({"batch": 0}, "batch is 0"),
    ],
)
def test_no_plan_on_paper_is_explained(options: Any, what: str) -> None:
    with pytest.raises(InputError) as caught:
        cr.plan_parallel(decoder(*SMALL), cluster(8), **options)
    assert what in caught.value.what


def test_a_plan_on_paper_prints_its_stages_and_reasons() -> None:
    plan = cr.plan_parallel(decoder(*SMALL), cluster(8), batch=8, stages=2)
    lines = str(plan).splitlines()
    assert lines[0].startswith("objective on 8 devices, n = 8: 3 layers, ")
    assert plan.why() in lines and plan.best.way.words in plan.why()
    assert all(isinstance(one, StagePlan) for one in plan.best.stages)
    assert lines[-1].split()[0] == "1" and "after" in lines[-1]
    wrong: Any = 3
    with pytest.raises(InputError, match="plans a training step on devices, got int"):
        cr.plan_parallel(decoder(*SMALL), wrong, batch=8)
