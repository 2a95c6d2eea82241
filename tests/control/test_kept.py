"""What the forward pass of a loop computes, its way back reads: nothing dear is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from test_joined import XS, H, V, W, last, nested, outputs, several

import chainrule as cr
from chainrule.control.joined import joined
from chainrule.control.kept import kept
from chainrule.control.least_cut import least_cut
from chainrule.control.scan_node import scan
from chainrule.execute import reference
from chainrule.graph.graph import Graph
from chainrule.primitives.arithmetic import tanh
from chainrule.primitives.products import matmul


def states(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """The states are stacked by the loop itself."""
    _, hs = cr.scan(lambda h, x: (after := np.tanh(x @ W + h @ V), after), h, xs)
    return np.sum(hs**3)


def backwards(xs: Any, h: Any, W: Any, V: Any) -> Any:
    _, hs = cr.scan(lambda h, x: (after := np.tanh(x @ W + h @ V), after), h, xs, reverse=True)
    return np.sum(hs**3)


def gates(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """Products of functions; a comparison, which is computed again."""

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        z = x @ W + h @ V
        c = cr.sigmoid(z) * c + np.maximum(z, 0.1) * np.exp(-(h**2))
        return (np.tanh(c), c), None

    (h, c), _ = cr.scan(cell, (h, h * 0), xs)
    return np.sum(h**2 + c)


def drawing(xs: Any, h: Any, W: Any, V: Any) -> Any:
    """Random bits are drawn again, as everywhere."""
    keys = cr.random.split(cr.random.key(3), 5)

    def cell(h: Any, given: Any) -> Any:
        x, key = given
        return cr.dropout(np.tanh(x @ W + h @ V), 0.5, key=key), None

    h, _ = cr.scan(cell, h, (xs, keys))
    return np.sum(h**2)


def slopes(function: Callable[..., Any]) -> Graph:
    return cr.trace(cr.value_and_grad(function, (0, 1, 2, 3)), XS, H, W, V)


def hessian_times(function: Callable[..., Any]) -> Graph:
    return cr.trace(lambda xs, h, W, V: cr.hvp(lambda V: function(xs, h, W, V), V, V), XS, H, W, V)


def dear(graph: Graph) -> list[int]:
    """How many products and hyperbolic tangents each loop has in an iteration."""
    bodies = [node.param("body").graph for node in graph.nodes if node.primitive is scan]
    return [sum(one.primitive in (matmul, tanh) for one in body.nodes) for body in bodies]


@pytest.mark.parametrize(
    ("function", "there", "before", "after"),
    [
        (last, 3, 7, 4),
        (outputs, 3, 7, 4),
        (several, 3, 7, 4),
        (states, 3, 7, 4),
        (backwards, 3, 7, 4),
        (gates, 3, 7, 4),
        (drawing, 3, 7, 4),
        (nested, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("make", [slopes, hessian_times])
def test_values_have_the_same_bits_and_nothing_dear_is_computed_again(
    make: Callable[..., Graph], function: Callable[..., Any], there: int, before: int, after: int
) -> None:
    """Of four products in an iteration back, one for each operand, none is that of the way there;
    the loop in a loop is left as it is."""
    graph = joined(make(function))
    form = kept(graph, {})
    assert kept(form, {}) is form and list(form.names) == list(graph.names)
    if make is slopes:
        assert (dear(graph)[0], dear(graph)[-1]) == (there, before)
        assert (dear(form)[0], dear(form)[-1]) == (there, after)
    values = [
        reference.evaluate(
            one,
            {item.node: array for item, array in zip(one.inputs, (XS, H, W, V), strict=True)},
            [node for _, node in one.outputs],
        )
        for one in (graph, form)
    ]
    for (_, node), (_, other) in zip(graph.outputs, form.outputs, strict=True):
        np.testing.assert_array_equal(values[1][other], values[0][node], strict=True)


def test_what_is_kept_is_what_has_the_fewest_elements() -> None:
    """Of an outer product, its factors; of a sum of products that both ways need, the sum."""

    def loss(a: Any, b: Any, M: Any) -> Any:
        def cell(h: Any, _: Any) -> Any:
            outer = np.tanh(h)[:, None] * np.sin(b + h)[None, :]
            return h + np.sum(np.maximum(M @ outer + outer, 0.1), axis=0) / 64, None

        return np.sum(cr.scan(cell, a, None, length=5)[0])

    graph = cr.trace(cr.grad(loss, 2), np.ones(8), np.ones(8), np.ones((8, 8)))
    before, after = ([n for n in one.nodes if n.primitive is scan] for one in (
        joined(graph), kept(joined(graph), {})
    ))  # fmt: skip
    extra = [one.type.size - other.type.size for one, other in zip(after, before, strict=True)]
    assert extra[0] == 5 * (8 + 8 + 64) and not any(extra[1:])


def test_the_least_cut_is_that_of_all_subsets() -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        count = int(random.integers(3, 9))
        edges = [(a, b) for a, b in combinations(range(count), 2) if random.random() < 0.4]
        weights = {v: int(random.integers(1, 6)) for v in range(count) if random.random() < 0.9}
        sources, sinks = [0, 1], [count - 1]

        def parts(some: Any, edges: Any = edges, ends: Any = (sources, sinks)) -> bool:
            found = {v for v in ends[0] if v not in some}
            for a, b in sorted(edges):
                if a in found and b not in some:
                    found.add(b)
            return not found & set(ends[1])

        ways = [c for k in range(count + 1) for c in combinations(weights, k) if parts(c)]
        if not ways:
            with pytest.raises(ValueError, match="cannot be parted"):
                least_cut(weights, edges, sources, sinks)
            continue
        found = least_cut(weights, edges, sources, sinks)
        assert parts(found)
        assert sum(weights[v] for v in found) == min(sum(weights[v] for v in c) for c in ways)


def test_its_bytes_are_formulas_of_sizes_and_a_budget_leaves_it_out() -> None:
    types = {"xs": cr.float64["t n 3"], "h": cr.float64["n 4"], "W": W, "V": V}
    step = cr.training_step(last, ("W", "V"), cr.sgd(0.1), executor="reference", **types)
    report = step.memory(t=50, n=20)
    rows = 50 * 20 * 4 * 8
    peaks = [report.formulas.peak.at(t=t, n=20) for t in (50, 100)]
    given = 50 * 20 * 3 * 8
    assert peaks[1] - peaks[0] == given + rows  # a state of each iteration, and no tanh beside it
    tight = report.needed_nbytes - rows // 2
    within = cr.training_step(
        last, ("W", "V"), cr.sgd(0.1), executor="reference", memory=tight, **types
    )
    assert within.memory(t=50, n=20).needed_nbytes <= tight
    data = {"xs": np.ones((50, 20, 3)), "h": np.ones((20, 4))}
    ends = []
    for one in (step, within):
        state = one.init(W=W, V=V)
        one(state, data)
        ends.append(np.array(state["V"]))
    np.testing.assert_array_equal(*ends)
