"""Stages are cut by the times of the executor that runs them."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pytest
from executors import needs_native
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule.devices.splitting import node_seconds
from chainrule.execute import plain
from chainrule.execute.executors import prepare
from chainrule.schedule.records import Compute

n = cr.size("n")


def deep(x: cr.float64[n, 4], y: cr.float64[n, 4], w: cr.float64[4]):
    """Two sines first, two hyperbolic tangents after them."""
    a = np.sin(x * w)
    b = np.sin(a)
    c = np.tanh(b)
    d = np.tanh(c)
    J = np.mean((d - y) ** 2)
    return J


class Program(plain.PlainProgram):
    """Only `slow` takes any time."""

    slow = ""

    def durations(self, speeds: Any = None) -> tuple[float, ...]:
        computes = [one for one in self.schedule({}).instructions if isinstance(one, Compute)]
        return tuple([1e6 if one.label == self.slow else 1.0 for one in computes])


class Executor(plain.PlainExecutor):
    """Of such programs."""

    def prepare(self, graph: Any, results: Any, overwrites: Any, *, traced: Any = None) -> Program:
        return Program(graph, tuple(dict.fromkeys(results)), traced, self.evaluate)


@pytest.mark.parametrize(("slow", "last", "first"), [("sin", "a", "b"), ("tanh", "c", "d")])
def test_stages_are_cut_by_the_times_of_their_executor(
    slow: str, last: str, first: str, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "slow", slow)
    cr.register_executor(Executor("timed", plain._evaluated))
    step = cr.training_step(deep, "w", cr.sgd(0.1), executor="timed")
    pieces = cr.parallel(step, micro_batches=2, stages=2).split_at(n=8).pieces
    names = [one.graph.names for one in pieces if one.purpose == "forward"]
    assert last in names[0] and first not in names[0] and first in names[1]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("executor", [pytest.param("native", marks=needs_native), "reference"])
def test_a_nest_takes_as_long_as_its_nodes(model: str, executor: str) -> None:
    step, *_ = case(model, "sgd", executor)
    graph = step.differentiated.bind(n=ROWS)
    program = prepare(executor, graph, [node for _, node in graph.outputs])
    found = node_seconds(program)
    assert set(found) <= set(graph.nodes) and min(found.values()) >= 0
    assert fsum(found.values()) == pytest.approx(fsum(program.durations()) / 1e9)  # type: ignore[attr-defined]
