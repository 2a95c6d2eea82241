"""Loops whose iterations are the same are done once: forward, and to have the states for the way
back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.control.joined import joined
from chainrule.control.scan_node import scan
from chainrule.execute import reference
from chainrule.execute.executors import in_memory
from chainrule.graph.graph import Graph

RANDOM = np.random.default_rng(3)
XS, H, W, V = (RANDOM.normal(size=shape) for shape in ((5, 2, 3), (2, 4), (3, 4), (4, 4)))


def last(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """Of the iterations only the last state is read."""
    h, _ = cr.scan(lambda h, x: (np.tanh(x @ W + h @ V), None), h, xs)
    return np.sum(h**2)


def outputs(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """Each iteration gives something that is not its state; backwards in time."""

    def cell(h: Any, x: Any) -> Any:
        after = np.tanh(x @ W + h @ V)
        return after, np.sin(after) * x[:, :1]

    h, ys = cr.scan(cell, h, xs, reverse=True)
    return np.sum(h**2) + np.sum(ys**3)


def several(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """Two states, of which one gets no gradient, and an integer one."""

    def cell(state: Any, x: Any) -> Any:
        h, c, n = state
        c = c + h * np.exp(-(h**2))
        h = np.tanh(x @ W + c @ V) / (n + 1)
        return (h, c, n + 1), None

    (h, c, n), _ = cr.scan(cell, (h, np.zeros_like(H), np.int64(0)), xs)
    return np.sum(h**2) + np.sum(c * n)


def nested(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """A loop in the iteration of a loop."""

    def outer(h: Any, x: Any) -> Any:
        after, _ = cr.scan(lambda g, row: (np.tanh(g @ V + row @ W), None), h, np.stack([x, -x]))
        return after, None

    h, _ = cr.scan(outer, h, xs)
    return np.sum(h**2)


def diagonal(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """The way back has simpler indices of the diagonal than the user's loop: nothing is added."""

    def cell(h: Any, x: Any) -> Any:
        return np.tanh(x @ W + h @ (V + np.diag(np.exp(V[0])))), None

    h, _ = cr.scan(cell, h, xs)
    return np.sum(h**2)


def scans(graph: Graph) -> int:
    return sum(1 for node in graph.nodes if node.primitive is scan)


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [(last, 3, 2), (outputs, 3, 2), (several, 5, 3), (nested, 3, 2), (diagonal, 3, 2)],
)
def test_a_loop_and_its_states_for_the_way_back_are_one(
    function: Callable[..., Any], before: int, after: int
) -> None:
    """`several` has loops for states of two types."""
    graph = cr.trace(cr.value_and_grad(function, (0, 1, 2, 3)), XS, H, W, V)
    once = joined(graph)
    assert (scans(graph), scans(once)) == (before, after) and joined(once) is once
    assert list(once.names) == [name for name in graph.names if name in once.names]
    values = [
        reference.evaluate(
            one,
            {item.node: array for item, array in zip(one.inputs, (XS, H, W, V), strict=True)},
            [node for _, node in one.outputs],
        )
        for one in (graph, once)
    ]
    for (_, node), (_, other) in zip(graph.outputs, once.outputs, strict=True):
        np.testing.assert_array_equal(values[1][other], values[0][node], strict=True)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_step_runs_no_loop_twice(executor: str) -> None:
    step = cr.training_step(
        last, ("W", "V"), cr.sgd(0.1), executor=executor, xs=XS, h=H, W=W, V=V
    )  # fmt: skip
    form = in_memory(executor, step.graph.bind(), step.results)
    assert scans(step.graph) == 3 and scans(form) == 2
    if executor == "native":
        assert "2 loops of compiled code" in str(step.plan())
    unrolled = W, V
    state = step.init(W=W, V=V)
    for _ in range(2):
        g = cr.grad(last, (2, 3), executor="reference")(XS, H, *unrolled)
        unrolled = tuple(one - 0.1 * d for one, d in zip(unrolled, g, strict=True))
        step(state, xs=XS, h=H)
    np.testing.assert_allclose(state["V"], unrolled[1], rtol=1e-13)


def test_loops_that_differ_stay() -> None:
    def two(xs: Any, h: Any, W: Any, V: Any) -> Any:
        a, _ = cr.scan(lambda h, x: (np.tanh(x @ W + h @ V), None), h, xs)
        b, _ = cr.scan(lambda h, x: (np.tanh(x @ W - h @ V), None), h, xs)
        c, _ = cr.scan(lambda h, x: (np.tanh(x @ W + h @ V), None), h, xs, reverse=True)
        d, _ = cr.scan(lambda h, x: (np.tanh(x @ W + h @ V), None), h + 1, xs)
        e, _ = cr.scan(lambda h, x: (np.maximum(h, 0.0) * np.sum(x), None), h, xs)
        f, _ = cr.scan(lambda h, x: (np.maximum(h, -0.0) * np.sum(x), None), h, xs)
        return np.sum(a + b + c + d + e / f)

    graph = cr.trace(two, XS, H, W, V)
    assert joined(graph) is graph and scans(graph) == 6
    assert scans(joined(cr.trace(cr.grad(two, 3), XS, H, W, V))) == 10


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_its_bytes_are_formulas_of_sizes(executor: str) -> None:
    types = {"xs": cr.float64["t n 3"], "h": cr.float64["n 4"], "W": W, "V": V}
    step = cr.training_step(last, ("W", "V"), cr.sgd(0.1), executor=executor, **types)
    report = step.memory(t=50, n=20)
    peak = report.formulas.peak
    assert peak.at(t=50, n=20) <= report.main.peak_nbytes <= 1.1 * peak.at(t=50, n=20)
    assert peak.at(t=100, n=20) - peak.at(t=50, n=20) > 50 * 20 * 4 * 8, "states of all iterations"
