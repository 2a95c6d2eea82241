"""Planning takes work in proportion to the graph."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.run import kept_nodes
from chainrule.plan.planner import plan
from chainrule.testing import simulate


def chain(x: Any, length: int) -> Any:
    for _ in range(length // 7):
        x = np.tanh(x) * 0.5
    J = np.sum(x)
    return J


def wide(x: Any, length: int) -> Any:
    """Thousands of nodes read x."""
    total = x
    for _ in range(length // 3):
        total = total + np.sin(x)
    J = np.sum(total)
    return J


def layers(x: Any, length: int) -> Any:
    h = x
    for _ in range(length // 9):
        h = np.tanh(h @ np.ones((4, 4), np.float32) + 1)
    J = np.sum(h)
    return J


def planning(program: Any, length: int) -> tuple[int, int]:
    """The number of nodes, and how many calls of functions a plan takes (`benchmarks/plan_cost.py`
    takes the time)."""
    example = np.zeros((8, 4), np.float32)
    graph = cr.backward(cr.trace(program, x=example, length=length), wrt="x")
    kept = kept_nodes(graph, "outputs")
    profile = cProfile.Profile()
    profile.runcall(plan, graph, kept)
    stats: Any = pstats.Stats(profile)  # typeshed does not know total_calls
    return len(graph), stats.total_calls


@pytest.mark.sweep(3)
@pytest.mark.parametrize("program", [chain, wide, layers])
def test_the_work_grows_with_the_nodes_not_with_their_square(program: Any) -> None:
    few, calls_for_few = planning(program, 200)
    many, calls_for_many = planning(program, 900)
    assert many > 700
    assert calls_for_many / calls_for_few < 1.3 * many / few


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", [chain, wide, layers])
def test_ten_thousand_nodes_are_planned(program: Any) -> None:
    example = np.zeros((8, 4), np.float32)
    graph = cr.backward(cr.trace(program, x=example, length=10_000), wrt="x")
    assert len(graph) > 9_500
    found = plan(graph, kept_nodes(graph, "outputs"))
    assert simulate(found.schedule).arena_nbytes == found.schedule.scratch_nbytes
