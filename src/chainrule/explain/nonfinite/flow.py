"""Computes which elements of a value come from which elements of its operands, as masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chainrule.graph.node import Node
from chainrule.primitives.cumulative import CUMULATIVE
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.linalg.linalg import LINALG
from chainrule.primitives.linalg.solve import solve
from chainrule.primitives.primitive import MOVING, Fold, Map, Partials
from chainrule.primitives.products import contract, matmul
from chainrule.primitives.reduce import folded_axes

Pair = tuple[int, int]  # an axis of the result and one of an operand, along which elements match


def is_pointwise(node: Node) -> bool:
    """Whether each element comes from the elements of the operands at the same place."""
    primitive = node.primitive
    return isinstance(primitive.kernel, Map) or isinstance(primitive.derivative, Partials)


def sizes_of(node: Node) -> tuple[int, ...]:
    """The shape of a value of a concrete graph."""
    return tuple([int(size) for size in node.shape])


def forward(node: Node, place: int, mask: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The elements of the result that can depend on these of the operand at `place`."""
    if is_pointwise(node):
        return mask
    if isinstance(node.primitive.kernel, MOVING):
        return _moved(node, place, mask).astype(bool)
    if node.primitive is gather and place == 0:
        return node.primitive.evaluate(np, mask, *operands[1:], **dict(node.params))
    if node.primitive is scatter_add and place == 0:
        counts = mask.astype(np.float64)
        return node.primitive.evaluate(np, counts, *operands[1:], **dict(node.params)) > 0
    if node.primitive in CUMULATIVE:
        return _onward(mask, node.param("axis"), node.param("reverse"))
    shape = sizes_of(node)
    found = _along(mask, [(axis, own) for own, axis in _pairs(node, place)], shape)
    return np.broadcast_to(found, shape)


def back(node: Node, place: int, mask: np.ndarray, indices: Sequence[np.ndarray]) -> np.ndarray:
    """The elements of the operand at `place` on which these of the result can depend.

    `indices` are the operands after the first, of operations that go by indices.
    """
    if is_pointwise(node):
        return mask
    shape = sizes_of(node.inputs[place])
    if isinstance(node.primitive.kernel, MOVING):
        return _at(_moved(node, place, _numbers(shape))[mask], shape)
    if node.primitive is gather and place == 0:
        moved = node.primitive.evaluate(np, _numbers(shape), *indices, **dict(node.params))
        return _at(moved[mask], shape)
    if node.primitive is scatter_add and place == 0:
        return gather.evaluate(np, mask, *indices, wrap=node.param("wrap"))
    if node.primitive in CUMULATIVE:
        return _onward(mask, node.param("axis"), not node.param("reverse"))
    return np.broadcast_to(_along(mask, list(_pairs(node, place)), shape), shape)


def _numbers(shape: tuple[int, ...]) -> np.ndarray:
    """1, 2, ... for the elements; 0 is none of them."""
    return np.arange(1, int(np.prod(shape)) + 1).reshape(shape)


def _at(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(int(np.prod(shape)) + 1, bool)
    found[numbers.ravel()] = True
    return found[1:].reshape(shape)


def _moved(node: Node, place: int, array: np.ndarray) -> np.ndarray:
    """The array put where the operand goes, with zeros elsewhere."""
    zeros = np.zeros((), np.int64)
    given = [
        array.astype(np.int64, copy=False)
        if number == place
        else np.broadcast_to(zeros, sizes_of(one))
        for number, one in enumerate(node.inputs)
    ]
    return np.asarray(node.primitive.evaluate(np, *given, **dict(node.params)))


def _onward(mask: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """Whether an element or one before it, along the axis, is in the mask."""
    way = np.flip(mask, axis) if reverse else mask
    found = np.logical_or.accumulate(way, axis)
    return np.flip(found, axis) if reverse else found


def _along(mask: np.ndarray, pairs: Sequence[Pair], shape: tuple[int, ...]) -> np.ndarray:
    """The mask, of whose axes the first of each pair is kept, as an array that broadcasts to
    `shape`, where that axis is the second."""
    kept = [axis for axis, _ in pairs]
    others = tuple(axis for axis in range(mask.ndim) if axis not in kept)
    found = np.asarray(mask.any(axis=others))
    places = [place for _, place in sorted(pairs)]
    found = np.transpose(found, np.argsort(places)) if places else found
    return found.reshape([size if axis in places else 1 for axis, size in enumerate(shape)])


def _pairs(node: Node, place: int) -> Iterator[Pair]:
    """The axes of the result that go along with axes of the operand."""
    primitive, count = node.primitive, node.ndim
    operand = node.inputs[place].ndim
    if isinstance(primitive.kernel, Fold):
        folded = folded_axes(node)
        kept = [axis for axis in range(operand) if axis not in folded]
        yield from enumerate(kept)
    elif primitive is matmul and place == 0:
        yield from ((axis, axis) for axis in range(operand - 1))
    elif primitive is matmul:
        yield from ((axis, axis) for axis in range(operand - 2))
        if operand > 1:
            yield count - 1, operand - 1
    elif primitive is contract:
        labels = node.param("x_axes" if place == 0 else "y_axes")
        for axis, label in enumerate(node.param("out_axes")):
            if label in labels:
                yield axis, tuple(labels).index(label)
    elif primitive in LINALG:
        yield from ((axis, axis) for axis in range(operand - 2))
        if primitive is solve and place == 1 and count == operand:
            yield count - 1, operand - 1
    else:
        for axis, others in primitive.independent(node):
            own = others[place]
            if own is not None:
                yield axis, own
