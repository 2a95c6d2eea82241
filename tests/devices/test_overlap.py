"""Gradients are added up by helpers while ranks go on: the same bits, earlier."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alone import RanksAlone
from executors import needs_native
from measured_memory import no_collection
from numpy_memory import numpy_traced
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule.devices import overlap
from chainrule.devices.check import check_programs
from chainrule.devices.instructions import AllReduce, Await, Begin, Key, Program, Run
from chainrule.devices.threads import Mailboxes, ThreadTransport
from chainrule.errors import InvariantError

STEPS = 3


def split_of(model: str, executor: str, optimizer: str = "adamw", **options: Any) -> Any:
    step, weights, batch = case(model, optimizer, executor)
    return cr.parallel(step, micro_batches=6, **options), weights, batch


def trained(*arguments: Any, **options: Any) -> tuple[list[float], dict[str, np.ndarray], Any]:
    split, weights, batch = split_of(*arguments, **options)
    state = split.init(weights)
    objectives = [float(split(state, batch)) for _ in range(STEPS)]
    return objectives, dict(state), split.latest.programs


def kinds(programs: Any) -> set[type]:
    return {type(one) for program in programs for one in program.instructions}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter is a bucket."""
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)


@pytest.mark.sweep(11)
@pytest.mark.parametrize("optimizer", ["adamw", "clipped"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "options", [{"replicas": 3}, {"stages": 2, "replicas": 2, "schedule": "zb-h1"}]
)
def test_sums_that_are_begun_have_the_bits_of_others(
    options: dict[str, Any], model: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(model, "reference", optimizer, **options)
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)
    found = trained(model, "reference", optimizer, **options)
    assert Begin not in kinds(plain[2]) and {Begin, Await} <= kinds(found[2])
    for name, array in plain[1].items():
        if model == "convolutional":  # NumPy's products round by the strides of what they read
            np.testing.assert_allclose(found[1][name], array, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(found[1][name], array)
    if model != "convolutional":
        assert found[0] == plain[0]


@pytest.mark.slow
@needs_native
@pytest.mark.sweep(2)
@pytest.mark.parametrize("model", ["network", "recurrent"])
def test_compiled_code_adds_up_the_same_to_rounding(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(model, "native", replicas=2)
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)
    found = trained(model, "native", replicas=2)
    assert Begin in kinds(found[2])
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-12)
    for name, array in plain[1].items():
        np.testing.assert_allclose(found[1][name], array, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("small")
def test_the_last_layers_are_added_up_while_the_first_are_computed() -> None:
    split, *_ = split_of("network", "reference", "sgd", replicas=2)
    parts = split.split_at(n=ROWS)
    numbers = {number: name for name, number in parts.names.items()}
    told: list[str] = []
    for one in parts.programs[0].instructions:
        match one:
            case Run(piece, part) if part in (2, None):
                told.append(parts.pieces[piece].purpose)
            case Begin(sums) | Await(sums):
                keys = [numbers[key.value].removesuffix("_grad_sum") for key in sums.keys]
                told.append(f"{type(one).__name__} {' '.join(keys)}")
    assert told == [
        *("forward", "gradients", "Begin W3", "gradients", "Begin W2", "gradients"),
        *("Begin J_sum b1 W1", "Await W3", "update", "Await W2", "update"),
        *("Await J_sum b1 W1", "update"),
    ]


def test_a_bucket_has_four_megabytes_and_there_are_eight_at_most() -> None:
    side = 300  # 720 kB each

    def deep(x: Any, weights: Any):
        for one in weights:
            x = np.tanh(x @ one)
        J = np.mean(x**2)
        return J

    types: dict[str, Any] = {"weights": [cr.float64[side, side]] * 20}
    step = cr.training_step(
        deep,
        "weights",
        cr.sgd(0.1),
        executor="reference",
        x=cr.float64[cr.size("n"), side],
        **types,
    )
    program = cr.parallel(step, micro_batches=2, replicas=2).split_at(n=4).programs[0]
    sums = [one.sum for one in program.instructions if isinstance(one, Begin)]
    each = [sum(side * side * 8 for key in one.keys) for one in sums]
    assert 2 <= len(sums) <= 8 and min(each[:-1]) >= 1 << 22


@pytest.mark.usefixtures("small")
def test_a_rank_takes_what_is_predicted_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    for model in ("network", "tied", "normalised"):
        split, weights, batch = split_of(model, "reference", stages=2, replicas=2)
        ranks = RanksAlone(split, weights, batch, monkeypatch)
        assert Begin in kinds(ranks.split.programs)
        report = split.memory(n=ROWS)
        for rank, one in enumerate(report.ranks):
            ranks.run(rank)
            with numpy_traced(), no_collection():
                ranks.run(rank)
                taken = tracemalloc.get_traced_memory()[1]
            assert taken == one.allocated_nbytes, (model, rank)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_helpers_add_in_the_order_of_ranks(count: int) -> None:
    shapes = [(), (0, 3), (1,), (7,), (100_001,), (3, 5)]
    given = [
        [9 * np.random.default_rng(rank).normal(size=shape) for shape in shapes]
        for rank in range(count)
    ]
    given = [[np.asarray(one) for one in own] for own in given]
    boxes, group = Mailboxes(count), tuple(range(count))
    one = AllReduce(tuple(Key(number, None) for number in range(len(shapes))), group)
    wanted = [np.array(array) for array in given[0]]
    for own in given[1:]:
        for total, array in zip(wanted, own, strict=True):
            total += array

    def work(rank: int) -> list[np.ndarray]:
        arrays = [array.copy() for array in given[rank]]
        ThreadTransport(rank, boxes).add(one, arrays)
        return arrays

    with ThreadPoolExecutor(count) as threads:
        for found in threads.map(work, group):
            for array, total in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(array, total)
    assert not boxes.meetings and not boxes.readers


@pytest.mark.usefixtures("small")
def test_an_error_ends_ranks_that_await_a_sum() -> None:
    split, weights, batch = split_of("network", "reference", replicas=2)
    state = split.init(weights)
    split(state, batch)
    before, count = dict(state), threading.active_count()
    wrong = {**batch, "y": np.where(np.arange(ROWS) == 20, 7, batch["y"])}
    with pytest.raises(IndexError, match="index 7"):
        split(state, wrong)
    assert state.steps == 1
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    for thread in threading.enumerate():
        if thread.name.startswith("helper"):
            thread.join(5)
    assert threading.active_count() <= count
    split(state, batch)


def test_what_fails_in_a_helper_is_raised_where_it_is_awaited() -> None:
    boxes = Mailboxes(2, deadline=0.05)
    transport = ThreadTransport(0, boxes)
    first, second = (AllReduce((Key(number, None),), (0, 1)) for number in (1, 2))
    transport.begin(first, [np.zeros(3)])
    transport.begin(second, [np.zeros(3)])
    for one in (first, second):
        with pytest.raises(Exception, match="rank 0 has waited in vain for the ranks"):
            transport.wait(one)
    transport.helper.close()


# Planted faults ----------------------------------------------------------------------------------


Change = Callable[[list[Any]], None]


def places(instructions: list[Any], kind: type) -> list[int]:
    return [at for at, one in enumerate(instructions) if isinstance(one, kind)]


def drop(kind: type) -> Change:
    return lambda found: found.pop(places(found, kind)[-1])


def swap(found: list[Any]) -> None:
    first, second = places(found, Begin)[-2:]
    found.insert(second, found.pop(first))


def early(found: list[Any]) -> None:
    """Begins the last sum before its gradients are there."""
    at = places(found, Begin)[-1]
    first = next(number for number, one in enumerate(found) if isinstance(one, Run))
    found.insert(first, found.pop(at))


def late(found: list[Any]) -> None:
    """Updates by what is still added up."""
    at = places(found, Await)[0]
    found.insert(at + 1, found.pop(at))


def others(found: list[Any]) -> None:
    at = places(found, Begin)[0]
    found[at] = Begin(replace(found[at].sum, group=(1, 2)))


FAULTS: dict[str, tuple[int, Change, str]] = {
    "a sum is not begun": (0, drop(Begin), r"wait for ever: rank 0 awaits the sums of \d+ values"),
    "a sum is not awaited": (0, drop(Await), "needs Key|never awaits"),
    "sums in another order": (1, swap, "order of sums differs"),
    "a sum of what is still written": (0, early, "needs Key"),
    "an update by what is still added up": (1, late, "needs Key"),
    "a sum of others": (0, others, "a group that it is not in"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    split, *_ = split_of("network", "reference", replicas=3)
    programs: tuple[Program, ...] = split.split_at(n=ROWS).programs
    check_programs(programs)
    rank, change, told = FAULTS[fault]
    instructions = list(programs[rank].instructions)
    change(instructions)
    wrong = replace(programs[rank], instructions=tuple(instructions))
    with pytest.raises(InvariantError, match=told):
        check_programs([wrong if one.rank == rank else one for one in programs])


# Timelines ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_timelines_tell_what_is_hidden() -> None:
    split, weights, batch = split_of("network", "reference", replicas=2)
    trace = split.trace(split.init(weights), batch)
    for found in (trace.measured, trace.predicted):
        assert found.hidden is not None and 0 <= found.hidden <= 1
        assert {one.rank for one in found.exchanges} == {0, 1}
        nbytes = sum(one.nbytes for one in found.exchanges if one.rank == 0)
        assert nbytes == 8 * (1 + 4 * 5 + 5 + 5 * 5 + 5 * 3)
        for one in found.exchanges:
            assert 0 <= one.start <= one.end <= found.seconds
            assert 0 <= one.waited <= one.seconds + 1e-12
        assert "of it behind other work" in str(found)
        assert found.json()["hidden"] == found.hidden
        names = {one["args"].get("name") for one in found.trace_json()["traceEvents"]}
        assert {"helper of rank 0", "helper of rank 1"} <= names
        assert "helper of rank 1: adding up" in found.svg()
    alone, *_ = split_of("network", "reference")
    assert alone.timeline(n=ROWS).hidden is None
