"""How arrays lie in memory that NumPy makes of nodes, as it is foretold and as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from array_layouts import layouts
from every_sample import for_every_sample

import chainrule as cr
from chainrule.explain.memory.report import memory_of_graph
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.schedule.in_numpy import followed
from chainrule.testing.samples import graph_of, sample_arrays


def more_layouts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Those of any array, its axes in every order, and with rows that repeat."""
    yield from layouts(array)
    for order in map(list, permutations(range(array.ndim))):
        yield array.transpose(order).copy().transpose(np.argsort(order))
    if array.ndim > 1:
        yield np.broadcast_to(array[..., :1, :], array.shape)
        yield np.repeat(array, 2, axis=0)[::2]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "primitive", [one for one in PRIMITIVES if one.inputs], ids=lambda one: one.name
)
def test_an_array_lies_as_it_is_foretold(primitive: Primitive) -> None:
    def check(primitive: Primitive, sample: Sample) -> None:
        arrays = sample_arrays(sample)
        out = graph_of(primitive, [type_of(one) for one in arrays], dict(sample.params))["out"]
        ways = product(*map(more_layouts, arrays[:2]))
        if len(arrays) > 2:  # all in the same way
            ways = zip(*map(more_layouts, arrays), strict=False)
        for operands in ways:
            outline, own = followed(out, operands)
            try:
                with np.errstate(all="ignore"):
                    found = primitive.evaluate(np, *operands, **dict(sample.params))
            except np.linalg.LinAlgError:
                continue  # one number repeated is a singular matrix
            found = np.asarray(found)
            assert (outline.shape, outline.dtype) == (found.shape, found.dtype)
            long = [axis for axis in range(found.ndim) if found.shape[axis] > 1]
            assert [outline.strides[a] for a in long] == [found.strides[a] for a in long]
            if found.size:
                shared = any(np.may_share_memory(found, one) for one in operands)
                assert own is not shared

    def is_full(primitive: Primitive, sample: Sample) -> bool:
        return all(0 not in shape for shape in sample.shapes)

    for_every_sample(primitive, check, is_full)


# Nothing that could fail is called ---------------------------------------------------------------


def test_the_report_of_a_gradient_of_solve_needs_no_regular_matrix() -> None:
    def objective(a: cr.float64["n n"], b: cr.float64["n m"]):
        J = np.sum(np.linalg.solve(a, b) ** 2)
        return J

    graph = cr.backward(cr.trace(objective), wrt=("a", "b"))
    report = memory_of_graph(graph, {"n": 5, "m": 3}, executor="reference")
    assert report.main.peak_nbytes > 0
    inverse = cr.backward(cr.trace(lambda a: np.sum(np.linalg.inv(a.T).T), a=np.eye(3)), wrt="a")
    assert memory_of_graph(inverse, {}, executor="reference").main.peak_nbytes > 0


def test_the_report_calls_no_function_of_the_users() -> None:
    calls: list[np.ndarray] = []

    def doubled(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        assert x.shape == (4, 5)
        return 2 * x

    double = cr.primitive(doubled, partials=lambda out, x: 2, name="double")
    graph = cr.trace(lambda x: np.sum(double(x.T) * x.T), x=np.ones((5, 4)))
    assert memory_of_graph(graph, {}, executor="reference").main.peak_nbytes > 0
    assert not calls
