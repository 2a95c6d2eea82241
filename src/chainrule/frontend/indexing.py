"""x[...]: integers, slices, None, Ellipsis, and integer arrays, as NumPy reads them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from chainrule.errors import IndexOutOfRangeError, ShapeError, UnsupportedError
from chainrule.frontend.elementwise import as_node, common_shape, to_dtype, to_shape
from chainrule.frontend.trace import Trace, show_shape
from chainrule.graph import sizes
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size
from chainrule.primitives.indexing import gather
from chainrule.primitives.movement import reshape, slice_, transpose
from chainrule.primitives.sources import uniform

Count = int | Size


def getitem(trace: Trace, x: Any, key: Any) -> Node:
    """The node of `x[key]`."""
    node = as_node(trace, x)
    items = _expand(trace, node, key if isinstance(key, tuple) else (key,))
    if any(_is_array(item) for item in items):
        return _advanced(trace, node, items)
    return _basic(trace, node, items)


def _is_array(item: Any) -> bool:
    """Whether an item is an array of indices (and not an integer, slice, None or Ellipsis)."""
    if item is None or item is Ellipsis or isinstance(item, (slice, Size, int, np.integer)):
        return False
    return True


def _expand(trace: Trace, x: Node, key: tuple[Any, ...]) -> list[Any]:
    """One item for each axis, plus None for new axes: Ellipsis and missing items become `:`."""
    items: list[Any] = []
    for item in key:
        if isinstance(item, (bool, np.bool_)):
            _refuse_mask(trace)
        if isinstance(item, list):
            item = np.asarray(item) if not any(hasattr(i, "node") for i in item) else item
        dtype = getattr(item, "dtype", None)
        if isinstance(item, np.ndarray) and item.dtype == bool:
            items.extend(np.nonzero(item))  # a mask known while tracing has known places
            continue
        if dtype is not None and np.dtype(dtype).kind == "b":
            _refuse_mask(trace)
        items.append(item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > x.ndim or sum(item is Ellipsis for item in items) > 1:
        raise ShapeError(
            f"too many indices: {used} for {trace.show(x)}, which has {x.ndim} axes",
            where=trace.where(),
            hint="use at most one index for each axis, and one Ellipsis",
        )
    missing = [slice(None)] * (x.ndim - used)
    if Ellipsis in [item for item in items if item is Ellipsis]:
        place = next(i for i, item in enumerate(items) if item is Ellipsis)
        return [*items[:place], *missing, *items[place + 1 :]]
    return [*items, *missing]


def _refuse_mask(trace: Trace) -> None:
    raise UnsupportedError(
        "a traced boolean mask as an index would give an array whose shape depends on its values",
        where=trace.where(),
        hint="keep the shape and choose with np.where(mask, x, 0)",
    )


def _count(value: Any) -> Count:
    return value if isinstance(value, Size) else operator.index(value)


def _place(trace: Trace, x: Node, axis: int, index: Any) -> Count:
    """A non-negative position on an axis, with a condition where it cannot be proved inside."""
    size, given = x.type.shape[axis], _count(index)
    place = given + size if sizes.is_nonnegative(given) is False else given
    inside = sizes.is_nonnegative(size - place - 1)
    if inside is False or sizes.is_nonnegative(place) is False:
        raise IndexOutOfRangeError(
            f"index {given} is out of range for axis {axis} of {trace.show(x)}",
            where=trace.where(),
            hint=f"the axis has {size} elements",
        )
    if inside is None:
        text = f"index {given} must lie inside axis {axis} of {trace.show(x)}, of length {size}"
        trace.require(size - place - 1, False, text)
    if sizes.is_nonnegative(place) is None:
        trace.require(place, False, f"index {given} must lie inside axis {axis} of {trace.show(x)}")
    return place


def _bound(value: Any, size: Count, default: Count, low: int) -> Count:
    """One end of a slice, counted from the front and clipped to [low, size + low]."""
    if value is None:
        return default
    given = _count(value)
    if sizes.is_nonnegative(given) is False:
        return sizes.maximum(given + size, low)
    return sizes.minimum(given, size + low)


def _slice(trace: Trace, item: slice, size: Count) -> tuple[Count, int, Count]:
    """start, step and number of elements of a slice of an axis of `size` elements."""
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise ShapeError("slice step cannot be zero", where=trace.where(), hint="use 1 or -1")
    if step > 0:
        start = _bound(item.start, size, 0, 0)
        stop = _bound(item.stop, size, size, 0)
        length = sizes.maximum(stop - start, 0)
    else:
        start = _bound(item.start, size, size - 1, -1)
        stop = -1 if item.stop is None else _bound(item.stop, size, -1, -1)
        length = sizes.maximum(start - stop, 0)
    stride = abs(step)
    count = length if stride == 1 else (length + (stride - 1)) // stride
    return (0 if isinstance(count, int) and count == 0 else start), step, count


def _basic(trace: Trace, x: Node, items: list[Any]) -> Node:
    """Integers, slices and new axes: a slice, then a reshape."""
    starts: list[Count] = []
    steps: list[int] = []
    counts: list[Count] = []
    final: list[Count] = []
    for item in items:
        axis = len(starts)
        if item is None:
            final.append(1)
        elif isinstance(item, slice):
            start, step, count = _slice(trace, item, x.type.shape[axis])
            starts.append(start)
            steps.append(step)
            counts.append(count)
            final.append(count)
        else:
            starts.append(_place(trace, x, axis, item))
            steps.append(1)
            counts.append(1)
    out, shape = x, tuple(counts)
    if shape != x.type.shape or any(s != 1 for s in steps):
        out = trace.build(slice_, x, start=tuple(starts), step=tuple(steps), shape=shape)
    target = tuple(final)
    return out if target == shape else trace.build(reshape, out, shape=target)


def _advanced(trace: Trace, x: Node, items: list[Any]) -> Node:
    """Index arrays: slice the other axes, bring the indexed ones to the front, gather, put back."""
    arrays = [item for item in items if item is not None and not isinstance(item, slice)]
    indices = [_index_node(trace, item) for item in arrays]
    shape = common_shape(trace, indices, "the index arrays")
    indices = [to_shape(trace, to_dtype(trace, i, i.type.dtype), shape) for i in indices]
    plain = [item if item is None or isinstance(item, slice) else slice(None) for item in items]
    is_indexed = [item is not None and not isinstance(item, slice) for item in items]
    x = _basic(trace, x, plain)
    front = [axis for axis, indexed in enumerate(is_indexed) if indexed]
    rest = [axis for axis, indexed in enumerate(is_indexed) if not indexed]
    if front != list(range(len(front))):
        x = trace.build(transpose, x, permutation=(*front, *rest))
    out = trace.build(gather, x, *indices, wrap=True)
    adjacent = front == list(range(front[0], front[0] + len(front)))
    if adjacent and front[0] > 0:
        wide, before = len(shape), front[0]
        order = (
            *range(wide, wide + before),
            *range(wide),
            *range(wide + before, out.ndim),
        )
        out = trace.build(transpose, out, permutation=order)
    return out


def _index_node(trace: Trace, item: Any) -> Node:
    node = as_node(trace, item)
    if isinstance(item, (list, np.ndarray)) and np.size(item) == 0:
        node = to_dtype(trace, node, np.dtype(np.int64))
    if node.type.dtype.kind not in "iu":
        raise ShapeError(
            f"an index must be of integers, got {trace.show(node)} {show_shape(node.type.shape)}",
            where=trace.where(),
            hint="convert it with .astype(np.int64)",
        )
    if node.primitive is uniform(0, np.dtype(np.int64)).primitive and node.type.weak:
        node = to_dtype(trace, node, np.dtype(np.int64))
    return node
