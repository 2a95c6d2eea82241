"""A slice of a product is the product of slices: what a gradient cuts away is never computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.primitives.movement import pad, reshape, slice_, transpose
from chainrule.primitives.parts import part_of_product
from chainrule.primitives.products import contract
from chainrule.primitives.sources import full
from chainrule.primitives.windows import windows
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(8)


def evaluate(node: Node, known: dict[Node, np.ndarray]) -> np.ndarray:
    """The value of a node, by NumPy; what is not known yet is random, and kept."""
    if node not in known:
        operands = [evaluate(one, known) for one in node.inputs]
        known[node] = (
            node.primitive.evaluate(np, *operands, **dict(node.params))
            if operands
            else RANDOM.normal(size=node.type.shape)
        )
    return known[node]


def array(*shape: int) -> Node:
    return full(value=0.0, type=array_type(np.dtype(np.float64), shape))


def product(permutation: tuple[int, ...] = (0, 1, 2)) -> Node:
    """(3, 4, 5) in some order."""
    axes = {"x_axes": (0, 1, 3), "y_axes": (3, 2), "out_axes": (0, 1, 2)}
    return transpose(contract(array(3, 4, 2), array(2, 5), **axes), permutation=permutation)


def seen(x: Node, dilation: int = 1, stride: int = 1) -> Node:
    """Windows of three of the last axis of x (2, n), each times a vector."""
    options = {"window": (3,), "stride": (stride,), "dilation": (dilation,)}
    return contract(windows(x, **options), array(3), x_axes=(0, 1, 2), y_axes=(2,), out_axes=(0, 1))


def on_zeros(count: int) -> Node:
    return pad(array(2, 9), start=(0, count), step=(1, 1), shape=(2, 9 + 2 * count))


PARTS = {
    "transposed": (product((2, 0, 1)), (1, 0, 3), (1, 1, -1), (3, 2, 3)),
    "transposed twice": (transpose(product((2, 0, 1)), permutation=(1, 0, 2)), (0,) * 3, (2,) * 3),
    "regrouped": (reshape(product(), shape=(12, 5)), (0, 1), (1, 2), (12, 2)),
    "turned round": (product(), (2, 3, 4), (-1, -1, -1), (3, 4, 5)),
    "of windows": (seen(array(2, 9)), (0, 2), (1, 1), (2, 4)),
    "of dilated windows": (seen(array(2, 9), 2), (1, 1), (1, 1), (1, 3)),
    "of windows with steps": (seen(array(2, 9)), (0, 1), (1, 2), (2, 3)),
    "of windows with a stride": (seen(array(2, 9), 1, 2), (0, 1), (1, 1), (2, 3)),
    "on fewer zeros": (seen(on_zeros(2)), (0, 1), (1, 1), (2, 9)),
    "without some elements": (seen(on_zeros(2)), (0, 4), (1, 1), (2, 5)),
    "of nothing": (seen(on_zeros(2)), (0, 4), (1, 1), (2, 0)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_the_elements_of_the_slice_and_computes_no_others(name: str) -> None:
    whole, start, step, *shape = PARTS[name]
    asked = shape[0] if shape else tuple(-(-n // s) for n, s in zip(whole.shape, step, strict=True))
    found, known = part_of_product(whole, start, step, asked), {}
    expected = slice_(whole, start=start, step=step, shape=asked)
    np.testing.assert_allclose(evaluate(found, known), evaluate(expected, known), atol=1e-14)
    while found.primitive in (transpose, reshape):
        found = found.inputs[0]
    assert found.primitive is contract


def test_anything_else_has_no_such_part() -> None:
    mixed = reshape(product(), shape=(3, 20))
    for x, shape in ((array(3, 4), (2, 2)), (mixed, (3, 7))):
        assert part_of_product(x, (0, 1), (1, 1), shape) is None


def convolution(x: float64["n 4 6 12"], K: float64["6 2 3 3"], **options: Any) -> Any:
    y = cr.conv2d(x, K, groups=2, **options)
    J = np.sum(np.sin(y))
    return J


@pytest.mark.parametrize("padding", [1, 2, 3, (0, 2), "same"], ids=str)
@pytest.mark.parametrize("dilation", [1, (1, 2)], ids=str)
def test_the_gradient_of_a_padded_convolution_computes_no_border(
    padding: Any, dilation: Any
) -> None:
    def objective(x: float64["n 4 6 12"], K: float64["6 2 3 3"]) -> Any:
        return convolution(x, K, padding=padding, dilation=dilation)

    graph = cr.backward(cr.trace(objective), wrt="x")
    size = cr.trace(objective).bind(n=2)["x"].type.size
    products = [node for node in graph.bind(n=2).nodes if node.primitive is contract]
    assert [node.type.size for node in products][-1] == size
    check_gradients(objective, RANDOM.normal(size=(2, 4, 6, 12)), RANDOM.normal(size=(6, 2, 3, 3)))


def test_it_has_no_more_zeros_than_the_convolution() -> None:
    def objective(x: float64["n 4 6 12"], K: float64["4 4 3 3"]) -> Any:
        return np.sum(np.sin(cr.conv2d(x, K, padding=1)))

    step = cr.backward(cr.trace(objective), wrt="x")
    padded = [node.type.shape for node in step.nodes if node.primitive is pad]
    assert padded[0] == padded[1]
    assert not any(node.primitive is slice_ and node.ndim == 6 for node in step.nodes)
    check_gradients(
        objective, RANDOM.normal(size=(1, 4, 6, 12)), RANDOM.normal(size=(4, 4, 3, 3)), order=2
    )
