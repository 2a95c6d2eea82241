"""Gathering and scattering at the indices that integer arrays give."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, Shape, array_type
from chainrule.primitives.movement import add_batch_axis, broadcast_to, reshape
from chainrule.primitives.notation import ATOM, Form, Latex
from chainrule.primitives.primitive import Gather, Linear, Primitive, Sample, no_flops
from chainrule.primitives.python import Python, Writing, Written, shape_text
from chainrule.primitives.python_functions import CHECK_INDICES, SCATTER_ADD
from chainrule.primitives.sources import iota, positions

ANY = (-2.0, 2.0)
INDEX = np.dtype(np.int64)  # positions in a batch may not fit the dtype of the indices


def _index_shape(indices: tuple[ArrayType, ...]) -> Shape:
    first = indices[0]
    for index in indices:
        if index.dtype.kind not in "iu" or index.shape != first.shape:
            raise TypeError(
                f"indices must be integers of one shape: {', '.join(map(str, indices))}"
            )
    return first.shape


def _gather_type(x: ArrayType, *indices: ArrayType, wrap: bool) -> ArrayType:
    shape = (*_index_shape(indices), *x.shape[len(indices) :])
    return array_type(x.dtype, shape)


def bounds(node: Node) -> list[tuple[Node, int, int]]:
    """Each index of a gather or scatter of known sizes, with the least and the largest value that
    its elements may have."""
    x, *indices = node.inputs
    shape = node.shape if node.primitive.kernel == Gather(adds=True) else x.shape
    wrap = node.param("wrap")
    return [(one, *_range(size, wrap)) for one, size in zip(indices, shape, strict=False)]


def _range(size: int, wrap: bool) -> tuple[int, int]:
    """The least and the largest index into an axis."""
    return -size if wrap else 0, size - 1


def _in_range(indices: tuple[Any, ...], shape: tuple[int, ...], wrap: bool) -> None:
    """Raise IndexError with the first index that is outside its axis."""
    for axis, index in enumerate(indices):
        size = shape[axis]
        low, high = _range(size, wrap)
        if index.size and not (low <= index.min() and index.max() <= high):
            place = tuple(int(i) for i in np.argwhere((index < low) | (index > high))[0])
            value = int(index[place])
            at = f" (at position {', '.join(map(str, place))} of the indices)" if place else ""
            raise IndexError(
                f"index {value}{at} is out of range for an axis of length {size}: "
                f"it must be from {low} to {high}"
            )


def _range_scratch(out: Node, indices: tuple[np.ndarray, ...]) -> int:
    # The least index is an array of one element for a moment, when the result is not there yet.
    return max([0, *(index.itemsize - out.type.nbytes for index in indices if index.size)])


def _gather(xp: Any, x: Any, *indices: Any, wrap: bool) -> Any:
    if xp is np:
        _in_range(indices, x.shape, wrap)
    return x[indices]


def _scatter_add(xp: Any, updates: Any, *indices: Any, shape: Any, wrap: bool) -> Any:
    if xp is not np:
        zeros = xp.zeros(shape, dtype=updates.dtype).at[indices]
        return zeros.max(updates) if updates.dtype == bool else zeros.add(updates)
    _in_range(indices, shape, wrap)
    zeros = np.zeros(shape, updates.dtype)
    np.add.at(zeros, indices, updates)
    return zeros


def _batch_indices(size: int | Size, indices: tuple[Node, ...], has: tuple[bool, ...]) -> list[Any]:
    """The indices with a batch axis, before them the position in the batch."""
    wide = [i if b else add_batch_axis(i, size) for i, b in zip(indices, has, strict=True)]
    shape = wide[0].type.shape
    column = reshape(positions(size, INDEX), shape=(size, *(1,) * (len(shape) - 1)))
    return [broadcast_to(column, shape=shape), *wide]


def _gather_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    x, *indices = inputs
    wrap = out.param("wrap")
    if not batched[0]:
        wide = [
            i if b else add_batch_axis(i, size) for i, b in zip(indices, batched[1:], strict=True)
        ]
        return gather(x, *wide, wrap=wrap)
    return gather(x, *_batch_indices(size, tuple(indices), batched[1:]), wrap=wrap)


def _scatter_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    updates, *indices = inputs
    if not batched[0]:
        updates = add_batch_axis(updates, size)
    wide = _batch_indices(size, tuple(indices), batched[1:])
    return scatter_add(updates, *wide, shape=(size, *out.type.shape), wrap=out.param("wrap"))


def _places(
    out: Node, writing: Writing, indices: tuple[Written, ...], shape: Shape
) -> tuple[str, tuple[str, ...]]:
    """Index arrays as the text of one key, and the checks that have to come before."""
    shown, before = [], []
    nodes = out.inputs[1:]
    for node, index, size in zip(nodes, indices, shape[: len(nodes)], strict=True):
        shown.append(index.text if node.ndim else f"np.asarray({index.text})")
        is_right = node.primitive is iota and node.type.shape[0] == size
        if not (out.param("wrap") or is_right):
            call = f"{writing.helper(CHECK_INDICES)}({index.text}, {writing.size(size)})"
            before.append(call)
    return ", ".join(shown), tuple(before)


def _gather_python(out: Node, writing: Writing, x: Written, *indices: Written) -> Written:
    key, before = _places(out, writing, indices, out.inputs[0].type.shape)
    return Written(f"{x.within(ATOM)}[{key}]", ATOM, before)


def _scatter_python(out: Node, writing: Writing, updates: Written, *indices: Written) -> Written:
    key, before = _places(out, writing, indices, out.type.shape)
    key = f"({key})" if len(indices) > 1 else key
    shown = f"{updates.text}, {key}, {shape_text(writing, out.type.shape)}"
    return Written(f"{writing.helper(SCATTER_ADD)}({shown})", ATOM, before)


gather = Primitive(
    name="gather",
    doc="x at the places that one index array for each of its leading axes gives.",
    inputs=("x", "index"),
    result_type=_gather_type,
    evaluate=_gather,
    derivative=Linear(
        (
            lambda g, out, x, *indices: scatter_add(
                g, *indices, shape=x.type.shape, wrap=out.param("wrap")
            ),
            None,
        )
    ),
    batch=_gather_batch,
    kernel=Gather(),
    flops=no_flops,
    scratch=lambda out, x, *indices: _range_scratch(out, indices),
    latex=Latex("{x}[{index}]", ATOM, (ATOM, 0), Form.AT),
    samples=(
        Sample(((4,), (3,)), (ANY, "int:4"), (("wrap", True),)),
        Sample(((4, 2), ()), (ANY, "int:4"), (("wrap", False),)),
        Sample(((4, 2), (2, 3)), (ANY, "int:4"), (("wrap", True),)),
        Sample(((3, 4), (2,), (2,)), (ANY, "int:3", "int:4"), (("wrap", True),)),
        Sample(((4,), (0,)), (ANY, "int:4"), (("wrap", True),)),
    ),
    variadic=True,
    python=Python(_gather_python, noun="taken"),
)


def _scatter_type(updates: ArrayType, *indices: ArrayType, shape: Shape, wrap: bool) -> ArrayType:
    expected = (*_index_shape(indices), *shape[len(indices) :])
    if updates.shape != expected:
        raise TypeError(f"updates must have shape {expected}, got {updates}")
    return array_type(updates.dtype, shape)


scatter_add = Primitive(
    name="scatter_add",
    doc="Zeros of a shape, to which updates are added at the places that index arrays give.",
    inputs=("updates", "index"),
    result_type=_scatter_type,
    evaluate=_scatter_add,
    derivative=Linear(
        (
            lambda g, out, updates, *indices: gather(g, *indices, wrap=out.param("wrap")),
            None,
        )
    ),
    batch=_scatter_batch,
    kernel=Gather(adds=True),
    flops=lambda out: out.inputs[0].type.size,
    # an index of no axes becomes an array of one position
    scratch=lambda out, updates, *indices: max(
        _range_scratch(out, indices), INDEX.itemsize * (indices[0].ndim == 0)
    ),
    latex=Latex(
        r"\operatorname{{scatter}}_{{{shape}}}({updates}, {index})", ATOM, (0, 0), Form.SCATTERED
    ),
    samples=(
        Sample(((3,), (3,)), (ANY, "int:4"), (("shape", (4,)), ("wrap", True))),
        Sample(((2, 2), (2,)), (ANY, "int:4"), (("shape", (4, 2)), ("wrap", True))),
        Sample(((2,), ()), (ANY, "int:4"), (("shape", (4, 2)), ("wrap", False))),
        Sample(((0,), (0,)), (ANY, "int:4"), (("shape", (4,)), ("wrap", True))),
    ),
    variadic=True,
    python=Python(_scatter_python, noun="scattered"),
)

INDEXING = (gather, scatter_add)
