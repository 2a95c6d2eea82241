"""Products lie in the order in which what reads them goes through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule import float32
from chainrule.graph.graph import Graph
from chainrule.plan.planner import plan
from chainrule.plan.work import NestWork, ProductWork
from chainrule.train.step.bound import results_of

SIZES = {"n": 3}


def read_along(graph: Graph, *results: Any) -> list[int]:
    """How far apart nests find the next column of each product that they read."""
    results = results or ([node for _, node in graph.outputs],)
    made = plan(graph, *results, threads=1, vector_nbytes=64)
    products = {node for one in made.works if isinstance(one, ProductWork) for node in one.writes}
    return [
        one.place[-1]
        for work in made.works
        if isinstance(work, NestWork)
        for layout in work.layouts
        for one in layout.nest.instances
        if one.source in products
    ]


def normalised(h: Any) -> Any:
    mean = np.mean(h, axis=(0, 2, 3), keepdims=True)
    return np.mean((h - mean) ** 2, axis=(0, 2, 3)), np.tanh(h - mean)


def pointwise(x: float32["n 5 8 6"], K: float32["7 5 1 1"]) -> Any:
    return normalised(cr.conv2d(x, K))


def in_windows(x: float32["n 5 8 6"], K: float32["7 5 3 3"]) -> Any:
    return normalised(cr.conv2d(x, K))


def in_deep_windows(x: float32["n 40 8 6"], K: float32["7 40 3 3"]) -> Any:
    return normalised(cr.conv2d(x, K))


def swapped(x: float32["n 5"], W: float32["5 7"]) -> Any:
    return np.tanh((x @ W).T)


def told_as_well(x: float32["n 5"], W: float32["5 7"]) -> Any:
    z = x @ W
    return np.tanh(z.T), z


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (pointwise, {1}),
        (in_windows, {1}),
        (in_deep_windows, {7}),
        (swapped, {1}),
        (told_as_well, {7}),
    ],
)
def test_columns_lie_side_by_side_unless_that_is_dearer(function: Any, steps: set[int]) -> None:
    """Tiles read windows best where rows of the result are channels; results lie as they are."""
    assert {*read_along(cr.trace(function).bind(**SIZES))} == steps


def test_gradients_of_weights_lie_as_they_are_added_up() -> None:
    """They add up over the positions of windows, which tiles read best with channels as rows."""

    def loss(x: float32["n 5 8 6"], K: float32["7 5 3 3"]) -> Any:
        return np.sum(np.tanh(cr.conv2d(x, K)))

    step = cr.training_step(loss, "K", cr.sgd(0.1))
    concrete = step.graph.bind(**SIZES)
    forward, update = read_along(concrete, *results_of(step, concrete))
    assert forward == 1 and update == 7 * 5


@needs_native
@pytest.mark.parametrize(
    "function", [pointwise, in_windows, in_deep_windows, swapped, told_as_well]
)
def test_values_are_those_of_the_reference(function: Any) -> None:
    graph = cr.trace(function)
    random = np.random.default_rng(0)
    arrays = {
        item.name: random.standard_normal(item.node.shape, np.float32)
        for item in graph.bind(**SIZES).inputs
    }
    found, expected = (graph.compile(executor=one)(**arrays) for one in ("native", "reference"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=5e-5)
