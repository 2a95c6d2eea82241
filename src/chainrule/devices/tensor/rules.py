"""In which layouts an operation can be computed: rules for each kind of kernel.

A rule says how the operands lie, and how the result then does.  An operation without one is
computed on whole operands, by each rank alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from chainrule.dataclass import dataclass
from chainrule.devices.tensor.layouts import PARTIAL, WHOLE, Layout
from chainrule.graph.node import Node
from chainrule.primitives.affine import IndexMap
from chainrule.primitives.arithmetic import add, negative, subtract
from chainrule.primitives.movement import reshape
from chainrule.primitives.primitive import Assemble, Contract, Fold, Gather, Move
from chainrule.primitives.products import matmul
from chainrule.primitives.reduce import sum_
from chainrule.primitives.windows import fold_windows

SUMS = (add, subtract, negative)  # elementwise, and linear in all operands together


@dataclass(frozen=True)
class Rule:
    """Operands that lie like `operands` give a result that lies like `result`."""

    operands: tuple[Layout, ...]
    result: Layout


def rules_of(node: Node) -> Iterator[Rule]:
    """All rules but that of whole operands; those of `exact_rules_of` among them."""
    kernel = node.primitive.kernel
    if isinstance(kernel, Contract):
        yield from _of_product(node)
        return
    if isinstance(kernel, Fold):
        yield from _of_reduction(node)
    yield from exact_rules_of(node)
    adds = node.primitive in SUMS
    if node.primitive is sum_:
        for axis in node.param("axes"):
            yield Rule((Layout(axis),), PARTIAL)
        adds = True
    elif isinstance(kernel, Move):  # each element at one other place
        adds = node.type.size == node.inputs[0].type.size
    if adds:
        yield Rule((PARTIAL,) * len(node.inputs), PARTIAL)


def exact_rules_of(node: Node) -> Iterator[Rule]:
    """The rules by which each element of the result has the bits that it has as a whole.

    Sums are not among them: NumPy adds in an order that depends on all axes.
    """
    if not node.inputs:
        return
    match node.primitive.kernel:
        case Move(reads):
            for axis, place in _moved(node, reads):
                yield Rule((Layout(axis),), Layout(place))
        case Assemble(regions):
            for axis in range(node.ndim):
                whole = all(
                    (first[axis], steps[axis], one.shape[axis]) == (0, 1, node.shape[axis])
                    for one, (first, steps) in zip(node.inputs, regions(node), strict=True)
                )
                if whole:
                    yield Rule((Layout(axis),) * len(node.inputs), Layout(axis))
        case Gather(adds):
            yield from _of_gather(node, adds)
        case _ if node.primitive is fold_windows:
            for axis in range(node.ndim - len(node.param("stride"))):
                yield Rule((Layout(axis),), Layout(axis))
        case _:
            for place, axes in node.primitive.independent(node):
                yield Rule(tuple(Layout(axis) for axis in axes), Layout(place))


def _of_reduction(node: Node) -> Iterator[Rule]:
    """Along each axis that is kept."""
    params = dict(node.params)
    reduced = params["axes"] if "axes" in params else (params["axis"],)
    kept = [axis for axis in range(node.inputs[0].ndim) if axis not in reduced]
    for place, axis in enumerate(kept):
        yield Rule((Layout(axis),), Layout(place))


def _of_product(node: Node) -> Iterator[Rule]:
    """Along each axis of a product: of the result, or of those that are added up."""
    x_axes, y_axes, out_axes = labels_of(node)
    for label in dict.fromkeys((*x_axes, *y_axes)):
        operands = tuple(
            Layout(axes.index(label)) if label in axes else WHOLE for axes in (x_axes, y_axes)
        )
        result = Layout(out_axes.index(label)) if label in out_axes else PARTIAL
        yield Rule(operands, result)


def labels_of(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A label for each axis of the operands and of the result of a product."""
    if node.primitive is not matmul:
        return node.param("x_axes"), node.param("y_axes"), node.param("out_axes")
    x, y = node.inputs
    x_axes = tuple(range(x.ndim))
    inner, column = x.ndim - 1, x.ndim
    if y.ndim == 1:
        return x_axes, (inner,), x_axes[:-1]
    stack = x_axes[:-2] if y.ndim > 2 else ()
    return x_axes, (*stack, inner, column), (*x_axes[:-1], column)


def _moved(node: Node, reads: Callable[..., IndexMap | None]) -> Iterator[tuple[int, int]]:
    """The axes of the operand that the result has, too: each with that of the result."""
    (x,) = node.inputs
    if node.primitive is reshape:
        for axis, length in enumerate(x.shape):
            before = prod(x.shape[:axis])
            for place, other in enumerate(node.shape):
                # Equal parts along both are the same elements, if as many lie before them.
                if prod(node.shape[:place]) == before and length > 1 and other > 1:
                    yield axis, place
        return
    where = tuple(
        tuple(int(place == axis + 1) for place in range(node.ndim + 1)) for axis in range(node.ndim)
    )
    read = reads(node, where, node.shape) or ()
    for axis, one in enumerate(read):
        if one in where and x.shape[axis] == node.shape[where.index(one)]:
            place = where.index(one)
            if sum(1 for other in read if other[place + 1]) == 1:
                yield axis, place


def _of_gather(node: Node, adds: bool) -> Iterator[Rule]:
    """Along an axis of the indices, or of what is read or added as a whole at each index."""
    x, *indices = node.inputs
    count, wide = len(indices), indices[0].ndim if indices else 0
    if not indices:
        return
    if adds:
        for axis in range(wide, x.ndim):
            yield Rule((Layout(axis), *(WHOLE,) * count), Layout(axis - wide + count))
        return
    for axis in range(wide):
        yield Rule((WHOLE, *(Layout(axis),) * count), Layout(axis))
    for axis in range(count, x.ndim):
        yield Rule((Layout(axis), *(WHOLE,) * count), Layout(axis - count + wide))
