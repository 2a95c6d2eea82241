"""Whether a step in parts fits, which batch does, and how its parts are planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.plan.speeds import SPEEDS


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)
    return request.param


def objective(x: float32["n 6"], y: int64["n"], W: float32[6, 5], V: float32[5, 3]) -> Any:
    h = np.tanh(x @ W)
    o = h @ V
    J = cr.cross_entropy(o, y)
    return J


def parts_of(count: int = 4) -> Any:
    step = cr.training_step(objective, wrt=("W", "V"), optimizer=cr.adam())
    return step.micro_batched(count)


def test_a_step_fits_where_its_peak_and_its_overhead_do() -> None:
    parts = parts_of()
    memory = parts.memory(n=64)
    needed = memory.needed_nbytes
    assert needed == memory.peak_nbytes + memory.overhead_nbytes
    both = [one.overhead_nbytes for one in (memory.accumulating, memory.updating)]
    assert max(both) <= memory.overhead_nbytes < sum(both)  # stacks and buffers are shared
    assert sum(memory.parts.values()) == memory.peak_nbytes
    assert parts.fits(n=64, nbytes=needed) and not parts.fits(n=64, nbytes=needed - 1)
    reason = parts.fits({"n": 64}, nbytes=needed - 1).reason
    assert reason.startswith("n=64: ") and "too much" in reason and "outside arrays" in reason
    assert isinstance(bool(memory.fits()), bool)  # of what is free on this machine


@pytest.mark.slow
def test_the_largest_batch_in_parts_is_the_largest_that_fits() -> None:
    memory = parts_of().memory(n=64)
    limit = memory.at(n=6400).needed_nbytes
    found = memory.largest("n", limit)
    assert found.size % 4 == 0 and found.size >= 6400
    assert found.nbytes == memory.at(n=found.size).needed_nbytes <= limit
    assert memory.at(n=found.size + 4).needed_nbytes > limit
    assert all(size % 4 == 0 for size in found.planned)
    assert f"n = {found.size:,} fits" in str(found)
    with pytest.raises(
        MemoryLimitError, match=r"no n fits in 1 byte: n = .* needs .* one of 4 parts"
    ):
        memory.largest("n", 1)
    with pytest.raises(SizeError, match="has no size called 'm'"):
        memory.largest("m", limit)


@pytest.mark.slow
def test_more_parts_let_a_larger_batch_fit() -> None:
    limit = parts_of(1).memory(n=20_000).needed_nbytes
    assert parts_of(16).memory(n=64).largest("n", limit).size > 30_000


def test_both_graphs_of_a_step_in_parts_are_planned(executor: str) -> None:
    part, update = parts_of().plan(n=64)
    assert part.graph.input("x").type.shape == (16, 6)
    assert "W_next" in update.graph.names and "x" not in update.graph.names
    with pytest.raises(SizeError, match="the plan of objective depends on n, which was not given"):
        parts_of().plan()
    with pytest.raises(InputError, match="a batch with n = 10 does not split into 4 equal parts"):
        parts_of().plan(n=10)


@pytest.mark.slow
def test_a_trainer_says_what_a_step_takes_as_it_is_taken() -> None:
    random = np.random.default_rng(0)
    data = {"x": random.normal(size=(90, 6)).astype(np.float32), "y": random.integers(0, 3, 90)}
    weights = {"W": np.ones((6, 5), np.float32), "V": np.ones((5, 3), np.float32)}

    def trainer(data: Any, parts: int) -> Any:
        options: Any = {"batch_size": 32, "micro_batches": parts, "progress": False}
        return cr.Trainer(objective, weights, cr.adam(), data, **options)

    whole = trainer(data, 1)
    assert whole.memory().main.peak_nbytes == whole.step.memory(n=32).main.peak_nbytes
    assert whole.memory(n=64).sizes["n"] == 64
    parts = trainer({name: array[:64] for name, array in data.items()}, 4)
    assert parts.memory().peak_nbytes == parts.step.micro_batched(4).memory(n=32).peak_nbytes
    assert parts.memory().largest("n", "64MiB").size % 4 == 0
    batches = trainer(lambda epoch: [data], 2)
    assert batches.memory(n=10).sizes == {"n": 10}
    with pytest.raises(SizeError, match="depends on n, which was not given"):
        batches.memory()


def test_copies_of_parts_that_lie_on_another_axis_take_time(executor: str) -> None:
    def across(x: float32["3 n"], W: float32[4, 3]) -> Any:
        J = np.sum(np.tanh(W @ x) ** 2)
        return J

    step = cr.training_step(across, wrt=("W",), optimizer=cr.sgd(0.1)).micro_batched(2)
    one = step.memory(n=4096).accumulating.main
    nbytes = 3 * 2048 * 4 if executor == "native" else 0  # NumPy reads them where they lie
    assert sum(one.usage.copied.values()) == nbytes
    speeds = replace(SPEEDS[32], numpy=replace(SPEEDS[32].numpy, fresh=1.0))
    more = one.nanoseconds(speeds) - sum(one.durations(speeds))
    assert more == pytest.approx(speeds.moving(2 * nbytes) + nbytes)
    assert parts_of().memory(n=64).accumulating.main.usage.copied == {}
