"""Loops keep fewer states where a budget of memory asks for it, and give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import MemoryLimitError
from chainrule.graph.structure import flatten
from chainrule.machine_code.target import native_refusal

WIDTH = 64
# Compiled code keeps more beside the states: what a budget leaves out is of longer loops.
LENGTHS = {"reference": 800, "native": 3_000}
STATES = {executor: length * WIDTH * 8 for executor, length in LENGTHS.items()}  # bytes
RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "W": RANDOM.normal(size=(WIDTH, WIDTH)) * 0.05,
    "U": RANDOM.normal(size=(4, WIDTH)),
    "b": RANDOM.normal(size=WIDTH),
}
DATA = {
    executor: {"x": RANDOM.normal(size=(length, 4)), "h": np.zeros(WIDTH)}
    for executor, length in LENGTHS.items()
}
EXECUTOR = pytest.mark.parametrize(
    "executor", ["reference"] if native_refusal() else ["reference", "native"]
)


def objective(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    h, _ = cr.scan(lambda h, x: (np.tanh(x @ U + h @ W + b), None), h, x)
    return np.sum(h * h)


def training(executor: str, memory: int | None = None) -> tuple[Any, list[float]]:
    step = cr.training_step(
        objective,
        tuple(WEIGHTS),
        cr.sgd(0.01),
        executor=executor,
        memory=memory,
        **WEIGHTS,
        **DATA[executor],
    )
    state = step.init(**WEIGHTS)
    losses = [float(step(state, **DATA[executor])) for _ in range(2)]
    return step, [*losses, *(float(np.sum(state[name])) for name in WEIGHTS)]


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_a_training_step_keeps_a_part_of_the_states(executor: str) -> None:
    step, expected = training(executor)
    needed = step.memory().needed_nbytes
    for part in (0.4, 0.7):
        budget = int(needed - part * STATES[executor])
        within, found = training(executor, budget)
        assert within.memory().needed_nbytes <= budget
        assert found == expected
    assert "segments" in str(within.plan()) or executor == "reference"


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_a_budget_that_is_large_enough_changes_nothing(executor: str) -> None:
    step, expected = training(executor)
    within, found = training(executor, step.memory().needed_nbytes)
    assert found == expected
    assert str(within.plan()) == str(step.plan())


@EXECUTOR
def test_more_bytes_never_cost_more_time(executor: str) -> None:
    graph = cr.backward(cr.trace(objective, **WEIGHTS, **DATA[executor]), wrt=tuple(WEIGHTS))
    needed = graph.memory(executor=executor).needed_nbytes
    before = 0.0
    for part in (0.0, 0.5):
        run = graph.memory(executor=executor, memory=int(needed - part * STATES[executor])).main
        assert sum(run.durations()) >= before
        before = sum(run.durations())


DERIVATIVES = {
    "gradient": cr.grad(objective, wrt=("W", "U")),
    "product": cr.grad(lambda W, **more: np.sum(cr.grad(objective)(W, **more) ** 2)),
}


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.sweep(3)
@EXECUTOR
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_gradients_and_hessians_have_the_same_bits(derivative: str, executor: str) -> None:
    function, given = DERIVATIVES[derivative], {**WEIGHTS, **DATA[executor]}
    expected = cr.compile(function, executor=executor)(**given)
    needed = cr.trace(function, **given).memory(executor=executor).needed_nbytes
    budget = int(needed - 0.6 * STATES[executor])
    found = cr.compile(function, executor=executor, memory=budget)(**given)
    pairs = zip(flatten(found, "out")[0], flatten(expected, "out")[0], strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_a_refusal_says_what_is_enough(executor: str) -> None:
    with pytest.raises(MemoryLimitError, match="needs at least") as caught:
        training(executor, 70_000)
    least = caught.value.needed_nbytes
    step, _ = training(executor)
    assert least < step.memory().needed_nbytes - 0.7 * STATES[executor]
    training(executor, least)
