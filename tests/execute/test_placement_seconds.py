"""Offsets are searched for where a caller asks: reports and compiled code agree, and shrink."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule.errors import InputError
from chainrule.execute.executors import executor_names
from chainrule.testing import simulate

SECONDS = 60  # more than any of these searches takes


def wasteful() -> cr.Graph:
    """A program for which no quick strategy reaches the largest load."""
    random = np.random.default_rng(33)
    shapes = random.integers(1, 60, (4, 2)).tolist()
    moves = [random.integers(4 + k, size=2).tolist() for k in range(14)]

    def program(a: Any, b: Any, c: Any, d: Any) -> Any:
        values = [a, b, c, d]
        for i, j in moves:
            x, y = values[i], values[j]
            if x.shape[1] == y.shape[0]:
                values.append(np.tanh(x @ y))
            elif x.shape == y.shape:
                values.append(x * y)
            else:
                values.append(x.T @ np.tanh(x))
        return sum(np.sum(value) for value in values)

    return cr.trace(program, *(np.ones(shape) for shape in shapes))


@pytest.mark.slow
@needs_native
def test_a_search_makes_the_block_smaller_and_changes_no_value() -> None:
    graph = wasteful()
    quick, found = (
        graph.compile(executor="native", placement_seconds=seconds) for seconds in (0, SECONDS)
    )
    before, after = quick.plan(), found.plan()
    assert before.schedule.scratch_nbytes > before.load_nbytes
    assert after.schedule.scratch_nbytes < before.schedule.scratch_nbytes
    simulate(after.schedule)
    arrays = {name: np.random.default_rng(3).normal(size=graph[name].shape) for name in "abcd"}
    np.testing.assert_array_equal(found(**arrays), quick(**arrays))


@pytest.mark.slow
@needs_native
def test_reports_say_what_the_search_brings() -> None:
    graph = wasteful()
    quick = graph.memory(executor="native")
    found = graph.memory(executor="native", placement_seconds=SECONDS)
    saved = quick.main.peak_nbytes - found.main.peak_nbytes
    plans = [graph.compile(executor="native", placement_seconds=s).plan() for s in (0, SECONDS)]
    assert saved == plans[0].schedule.scratch_nbytes - plans[1].schedule.scratch_nbytes > 0
    assert found.executor == f"native (offsets searched for {SECONDS} s)"
    assert found.executor not in executor_names()


@pytest.mark.exhaustive
@needs_native
def test_a_training_step_searches_too() -> None:
    graph = wasteful()
    step = cr.training_step(
        graph, ("a", "b", "c", "d"), cr.sgd(1e-3), executor="native", placement_seconds=5
    )
    plain = cr.training_step(graph, ("a", "b", "c", "d"), cr.sgd(1e-3), executor="native")
    arrays = {name: np.random.default_rng(3).normal(size=graph[name].shape) for name in "abcd"}
    states = [one.init(**arrays) for one in (step, plain)]
    values = [one(state) for one, state in zip((step, plain), states, strict=True)]
    assert values[0] == values[1]
    assert step.memory().main.peak_nbytes <= plain.memory().main.peak_nbytes


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "10", None, True])
def test_what_is_no_number_of_seconds_is_told(seconds: Any) -> None:
    with pytest.raises(InputError, match=r"placement_seconds is [\s\S]*such as placement_s"):
        wasteful().compile(placement_seconds=seconds)


def test_an_executor_without_one_block_says_so() -> None:
    for ask in (wasteful().compile, wasteful().memory):
        with pytest.raises(InputError, match=r"'reference' has no such block[\s\S]*native"):
            ask(executor="reference", placement_seconds=1)
