"""The bytes that a rank is predicted to need are those that it takes, to the byte."""

from __future__ import annotations

import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from alone import NOTHING, RanksAlone
from measured_memory import no_collection
from numpy_memory import numpy_traced
from parallel_models import MODELS, OPTIMIZERS, ROWS, case

import chainrule as cr
from chainrule.devices.instructions import Key, Receive, Run
from chainrule.devices.messages import Lent
from chainrule.devices.reports import memory
from chainrule.devices.reports.values import KINDS
from chainrule.devices.threads import Mailboxes, ThreadTransport
from chainrule.errors import InputError, SizeError
from chainrule.execute.aligned import alignment_of
from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime import recycled
from chainrule.schedule.records import ALIGNMENT

LENDING = [
    {"stages": 2}, {"stages": 3, "schedule": "zb-h1"}, {"stages": 3, "recompute": True},
    {"stages": 2, "schedule": "interleaved"}, {"stages": 2, "replicas": 2},
]  # fmt: skip


def taken_nbytes(ranks: RanksAlone, rank: int, lent: Lent = NOTHING) -> int:
    """The most bytes of arrays at once that a rank makes."""
    for code in ranks.split.compiled:
        if isinstance(code, NativeProgram):
            code.launcher.machine._free.clear()
    recycled.forget()
    with numpy_traced(), no_collection():
        ranks.run(rank, lent)
        return tracemalloc.get_traced_memory()[1]


def split_case(
    model: str, optimizer: str, executor: str, patched: pytest.MonkeyPatch, **options: Any
) -> RanksAlone:
    step, weights, batch = case(model, optimizer, executor)
    split = cr.parallel(step, micro_batches=6, **options)
    return RanksAlone(split, weights, batch, patched)


@pytest.mark.slow
@pytest.mark.sweep(58)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_rank_takes_what_is_predicted_to_the_byte(
    model: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stages, replicas, schedule, recompute in (
        (1, 1, "1f1b", False), (2, 3, "1f1b", False), (3, 1, "zb-h1", False), (3, 1, "zb-h1", True),
        (2, 1, "gpipe", True), (2, 1, "interleaved", False), (2, 1, "interleaved", True),
    ):  # fmt: skip
        ranks = split_case(
            model, optimizer, "reference", monkeypatch,
            stages=stages, replicas=replicas, schedule=schedule, recompute=recompute,
        )  # fmt: skip
        report = ranks.step.memory(n=ROWS)
        for rank in range(stages * replicas):
            ranks.run(rank)  # plans are made, and kept
            wanted = report.ranks[rank].allocated_nbytes
            assert taken_nbytes(ranks, rank) == wanted, (stages, replicas, schedule, rank)


n = cr.size("n")
MIXING = np.arange(48.0).reshape(6, 8).T  # a constant that is not in C order


def columns(x: cr.float64[8, n], W1: cr.float64[8, 5], W2: cr.float64[5, 3], y: cr.float64[3, n]):
    """A batch in columns: its parts are not in C order."""
    h = np.tanh(W1.T @ (x + np.tanh(MIXING @ (MIXING.T @ x))))
    J = np.mean((W2.T @ h - y) ** 2)
    return J


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_parts_of_a_batch_in_columns_are_views(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = cr.training_step(columns, ("W1", "W2"), cr.adam(0.1), executor=executor)
    random = np.random.default_rng(0)
    weights = {"W1": random.normal(size=(8, 5)), "W2": random.normal(size=(5, 3))}
    batch = {"x": random.normal(size=(8, 36)), "y": random.normal(size=(3, 36))}
    split = cr.parallel(step, micro_batches=4, stages=("h",))
    ranks = RanksAlone(split, weights, batch, monkeypatch)
    report = split.memory(n=36)
    slack = ALIGNMENT * len(ranks.split.pieces) if executor == "native" else 0
    for rank, one in enumerate(report.ranks):
        ranks.run(rank)
        assert 0 <= taken_nbytes(ranks, rank) - one.allocated_nbytes <= slack
    constants = [one for one in report.ranks[0].held if one.kind == "constants"]
    assert sum(one.nbytes * one.count for one in constants) >= MIXING.nbytes


@pytest.mark.sweep(2)
@pytest.mark.parametrize("model", ["network", "convolutional", "tied"])
def test_compiled_code_takes_what_its_plans_promise(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what aligns its blocks and large results."""
    ranks = split_case(model, "momentum", "native", monkeypatch, stages=2, replicas=2)
    report = ranks.step.memory(n=ROWS)
    for rank, one in enumerate(report.ranks):
        wanted, blocks = one.allocated_nbytes, len(ranks.split.pieces)
        assert wanted <= taken_nbytes(ranks, rank) <= wanted + ALIGNMENT * blocks


@pytest.mark.parametrize("options", LENDING, ids=str)
def test_what_stages_compute_where_others_read_it_is_counted_there_alone(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bits of results in memory of their own, and to the byte; NumPy copies it there."""
    for executor in ("native", "reference"):
        ranks = split_case("tied", "momentum", executor, monkeypatch, **options)
        lent = ranks.split.lent
        with monkeypatch.context() as patched:
            patched.setattr(memory, "_leaves_messages", lambda step: True)
            report = ranks.step.memory(n=ROWS)
        before = {name: array.copy() for name, array in ranks.state.memory.items()}
        for rank, one in enumerate(report.ranks):
            wanted = {key: array.copy() for key, array in ranks.run(rank).items()}
            for name, array in ranks.state.memory.items():  # which is updated in place
                array[...] = before[name]
            found = ranks.run(rank, lent)
            assert found.keys() == wanted.keys()
            assert all(found[key].tobytes() == wanted[key].tobytes() for key in found)
            own = {key for owner, key in lent if owner == rank}
            made = {key for run in ranks.split.programs[rank].instructions
                    if isinstance(run, Run) for key in run.gives}  # fmt: skip
            assert {*ranks.copied} == (own if executor == "reference" else own - made)
            nbytes, slack = one.allocated_nbytes, ALIGNMENT * len(ranks.split.pieces)
            taken = taken_nbytes(ranks, rank, lent)
            assert nbytes <= taken <= nbytes + slack * (executor == "native")


def test_compiled_code_adds_gradients_up_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the gradients allocates nothing like them: products add to the sums themselves."""
    step = cr.training_step(wide, ("W",), cr.sgd(0.1), executor="native")
    random = np.random.default_rng(0)
    batch = {"x": random.normal(size=(8, 200)), "y": random.normal(size=(8, 150))}
    split = cr.parallel(step, micro_batches=4)
    ranks = RanksAlone(split, {"W": random.normal(size=(200, 150))}, batch, monkeypatch)
    numbers = [n for n, one in enumerate(ranks.split.pieces) if one.purpose == "passes"]
    runs = [one for one in ranks.split.programs[0].instructions if isinstance(one, Run)]
    (at,) = [n for n, one in enumerate(runs) if one.piece in numbers and one.micro_batch == 3]
    report = split.memory(n=8).ranks[0]
    assert report.during[at] < report.after[at - 1] + 8 * 200 * 150
    assert sum(one.count for one in report.held if one.kind == "sums of gradients") == 2
    ranks.run(0)
    large = 1 + len(ranks.split.pieces)  # the result, and the blocks
    assert 0 <= taken_nbytes(ranks, 0) - report.allocated_nbytes <= alignment_of(240_000) * large


def wide(x: cr.float64[n, 200], y: cr.float64[n, 150], W: cr.float64[200, 150]):
    J = np.mean((np.tanh(x @ W) - y) ** 2)
    return J


def test_what_is_there_at_the_peak_is_told_by_name() -> None:
    step, *_ = case("network", "adamw", "reference")
    report = cr.parallel(step, micro_batches=6, stages=("h1",)).memory(n=96)
    for one in report.ranks:
        assert sum(one.parts.values()) == one.peak_nbytes == max(one.during)
        assert set(one.parts) == set(KINDS)
    first, last = report.ranks
    assert first.parts["parameters"] == 8 * (4 * 5 + 5)
    assert last.parts["parameters"] == 8 * (5 * 5 + 5 * 3)
    labels = next(value for value in last.held if value.name == "y")
    assert (labels.kind, labels.nbytes, labels.count) == ("inputs", 16 * 8, 6)
    assert {"W1", "b1", "x", "W1_grad_sum"} <= {value.name for value in first.held}
    message = next(value for value in last.held if value.name == "h1")
    assert (message.kind, message.count) == ("messages", 1)
    # 1F1B: two micro-batches are under way on the first stage, each of 16 rows
    kept = [value for value in first.held if value.name == "h1"]
    assert [(value.kind, value.nbytes, value.count) for value in kept] == [
        ("saved intermediates", 16 * 5 * 8, 2)
    ]


def test_gpipe_keeps_all_micro_batches_and_1f1b_as_many_as_stages() -> None:
    step, *_ = case("network", "sgd", "reference")
    counts = {}
    for schedule in ("gpipe", "1f1b"):
        split = cr.parallel(step, micro_batches=6, stages=("h1", "h2"), schedule=schedule)
        first = split.memory(n=ROWS * 20).ranks[0]
        counts[schedule] = {value.name: value.count for value in first.held}["h1"]
    assert counts == {"gpipe": 6, "1f1b": 3}


@pytest.mark.parametrize(("schedule", "count"), [("gpipe", 6), ("1f1b", 2)])
def test_messages_wait_for_a_rank_that_is_late(
    schedule: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last stage receives nothing until as many bytes wait for it as can."""
    step, weights, batch = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=6, stages=("h1",), schedule=schedule)
    wanted = split.memory(n=ROWS).ranks[1]
    each = 4 * 5 * 8 + 8  # four rows of h1, and the penalty of W1
    instructions = split.split_at(n=ROWS).programs[1].instructions
    first = next(at for at, one in enumerate(instructions) if isinstance(one, Receive))
    assert wanted.waiting[first] == count * each - 4 * 5 * 8
    both = [sum(one) for one in zip(wanted.during, wanted.waiting, strict=True)]
    assert wanted.most_nbytes == max(both)
    assert wanted.waiting[-1] == 0
    receive, seen = ThreadTransport.receive, list[int]()

    def late(self: ThreadTransport, key: Key, sender: int) -> np.ndarray:
        if self.rank == 1 and not seen:
            end = monotonic() + 2.0
            while monotonic() < end and len(self.boxes.messages) < 2 * count:
                sleep(0.001)
            sleep(0.02)  # and no more than that
            with self.boxes.changed:
                seen.append(sum(array.nbytes for array in self.boxes.messages.values()))
        return receive(self, key, sender)

    monkeypatch.setattr(ThreadTransport, "receive", late)
    split(split.init(weights), batch)
    assert seen == [count * each]


def test_a_report_prints_and_is_plain_data() -> None:
    step, *_ = case("network", "adamw", "reference")
    report = cr.parallel(step, micro_batches=6, stages=2, replicas=3).memory(n=ROWS)
    text = str(report)
    assert "memory of network on 6 ranks, n = 24, executor reference" in text
    assert "ranks 0, 2, 4" in text and "ranks 1, 3, 5" in text
    data = json.loads(json.dumps(report.json()))
    assert [one["rank"] for one in data["ranks"]] == list(range(6))
    assert data["ranks"][1]["peak_nbytes"] == report.ranks[1].peak_nbytes
    many = str(cr.parallel(step, micro_batches=6, stages=8).memory(n=ROWS))
    assert max(map(len, many.splitlines())) < 150


def test_sizes_that_are_missing_or_do_not_fit_are_refused() -> None:
    step, *_ = case("network", "sgd", "reference")
    split = cr.parallel(step, micro_batches=6, stages=2)
    with pytest.raises(SizeError, match="depends on n, which was not given"):
        split.memory()
    with pytest.raises(InputError, match="n = 25 does not split into 6 equal parts"):
        split.memory(n=25)


def test_threads_let_go_of_what_they_have_added_up() -> None:
    boxes, keys, group = Mailboxes(2), (Key(0, None),), (0, 1)
    with ThreadPoolExecutor(2) as threads:
        for start in (0.0, 10.0):  # the same keys again: these are other values
            transports = [ThreadTransport(rank, boxes) for rank in group]
            waiting = [
                threads.submit(one.all_reduce, keys, [np.array([start + one.rank])], group)
                for one in transports
            ]
            assert [one.result() for one in waiting] == [[2 * start + 1]] * 2
            assert not boxes.shares and not boxes.readers
