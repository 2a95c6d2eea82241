"""Says which pieces of its operands a piece of a node's value needs, along chosen axes.

A *cut* has for each of the chosen axes (a stack's, and that of rows) where it lies in a value: the
number of an axis of the value, or None where the value does not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.plan.products.contraction import labels_of
from chainrule.primitives.primitive import Contract, Fold, Generate, Map, Move
from chainrule.primitives.products import contract
from chainrule.primitives.reduce import folded_axes, sum_
from chainrule.primitives.sources import is_uniform

Cut = tuple[int | None, ...]
Axes = tuple[int | None, ...]  # of each operand, the one that is cut


def axes_along(node: Node, axis: int) -> Axes | None:
    """The axis of each operand that is cut where the result is cut along `axis`, None for an
    operand that is needed as a whole; None where the result cannot be computed in pieces."""
    match node.primitive.kernel:
        case Map():
            return (axis,) * len(node.inputs)
        case Fold():
            folded = folded_axes(node)
            kept = [one for one in range(node.inputs[0].ndim) if one not in folded]
            return (kept[axis],)
        case Contract():
            own, other, out, _ = labels_of(node)
            return tuple([_place(labels, out[axis]) for labels in (own, other)])
        case Move(reads):
            return _moved(node, reads, axis)
        case Generate() if is_uniform(node):
            return ()
    return None


def axes_summed(node: Node, operand: int, axis: int | None) -> Axes | None:
    """As `axes_along`, for an axis of an operand over which the result sums: the result is the sum
    of what pieces give.  None where it is no such sum."""
    match node.primitive.kernel:
        case Fold() if node.primitive is sum_ and axis in node.param("axes"):
            return (axis,)
        case Contract():
            own, other, out, _ = labels_of(node)
            label = (own, other)[operand][axis or 0]
            if label not in out:
                return tuple([_place(labels, label) for labels in (own, other)])
    return None


def _place(labels: Sequence[int], label: int) -> int | None:
    return labels.index(label) if label in labels else None


def _moved(node: Node, reads: Callable[..., Any], axis: int) -> Axes | None:
    """That of elements which lie elsewhere: the one axis that counts along with the result's."""
    shape = node.shape
    width = len(shape) + 1
    natural = tuple([tuple([int(at == i + 1) for at in range(width)]) for i in range(len(shape))])
    found = reads(node, natural, shape)
    if found is None:
        return None
    counting = [place for place, one in enumerate(found) if one[axis + 1]]
    if not counting:
        return (None,)
    alone = tuple([int(at == axis + 1) for at in range(width)])
    (source,) = node.inputs
    same = len(counting) == 1 and found[counting[0]] == alone
    return (counting[0],) if same and source.shape[counting[0]] == shape[axis] else None


def operand_cuts(node: Node, cut: Cut) -> list[Cut] | None:
    """The cut of each operand for that of the result; None where it cannot be computed so."""
    found = []
    for axis in cut:
        axes: Axes | None = (None,) * len(node.inputs)
        if axis is not None:
            axes = axes_along(node, axis)
        if axes is None:
            return None
        found.append(axes or (None,) * len(node.inputs))
    return [tuple([axes[i] for axes in found]) for i in range(len(node.inputs))]


def result_cut(
    node: Node, known: Mapping[int, Cut], count: int
) -> tuple[Cut, list[Cut], frozenset[int]] | None:
    """The cut of the result where operands (by their places) have these, the cuts of all operands,
    and which of the `count` chosen axes the result sums over; None where that does not fit."""
    cut: list[int | None] = []
    by_axis: list[Axes] = []
    summed = set[int]()
    for number in range(count):
        there = {i: one[number] for i, one in known.items()}
        found: Axes = (None,) * len(node.inputs)
        out = None
        if any(axis is not None for axis in there.values()):
            for axis in range(node.ndim):
                along = axes_along(node, axis)
                if along and all(along[i] == one for i, one in there.items()):
                    out, found = axis, along
                    break
            else:
                operand = next(i for i, one in there.items() if one is not None)
                over = axes_summed(node, operand, there[operand])
                if over is None or any(over[i] != one for i, one in there.items()):
                    return None
                found = over
                summed.add(number)
        cut.append(out)
        by_axis.append(found)
    cuts = [tuple([axes[i] for axes in by_axis]) for i in range(len(node.inputs))]
    return tuple(cut), cuts, frozenset(summed)


def shape_of(node: Node, cut: Cut, lengths: Sequence[int]) -> tuple[int, ...]:
    """The shape of a piece, whose chosen axes have these lengths."""
    shape = list(node.shape)
    for axis, length in zip(cut, lengths, strict=True):
        if axis is not None:
            shape[axis] = length
    return tuple(shape)


def piece_of(node: Node, cut: Cut, lengths: Sequence[int], operands: tuple[Node, ...]) -> Any:
    """The node that computes a piece from pieces of operands."""
    shape = shape_of(node, cut, lengths)
    params = []
    for key, value in node.params:
        if key == "shape":
            value = shape
        elif isinstance(value, ArrayType):
            value = value.with_shape(shape)
        params.append((key, value))
    type_ = node.primitive.result_type(*[one.type for one in operands], **dict(params))
    assert type_.shape == shape, (node, shape, type_)
    return type(node)(node.primitive, operands, tuple(params), type_, node.origin)


def turned_product(node: Node) -> Any:
    """The transpose of a product as one product."""
    (product,) = node.inputs
    own, other, out, _ = labels_of(product)
    turned = tuple([out[axis] for axis in node.param("permutation")])
    made = contract(*product.inputs, x_axes=own, y_axes=other, out_axes=turned)
    return type(node)(made.primitive, made.inputs, made.params, made.type, node.origin)
