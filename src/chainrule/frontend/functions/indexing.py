"""Indexing, x[...]: integers, slices, None, Ellipsis and integer arrays, as in NumPy."""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple, NoReturn

import numpy as np

from chainrule.errors import IndexOutOfRangeError, ShapeError, UnsupportedError
from chainrule.frontend.functions.elementwise import as_node, common_shape, to_dtype, to_shape
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.indexing import gather
from chainrule.primitives.movement import reshape, slice_, transpose

Count = int | Size


def getitem(trace: Trace, x: Any, key: Any) -> Node:
    """The node of `x[key]`."""
    node = as_node(trace, x)
    items = expand(trace, node, key)
    if has_arrays(items):
        return _advanced(trace, node, items)
    return read_part(trace, node, part_of(trace, node, items))


def has_arrays(items: list[Any]) -> bool:
    """Whether an item is an array of indices (and not an integer, slice, None or Ellipsis)."""
    plain = (slice, Size, int, np.integer)
    return any(not (i is None or i is Ellipsis or isinstance(i, plain)) for i in items)


def _takes_axis(item: Any) -> bool:
    """Whether an item stands for an axis of the indexed array."""
    return item is not None and item is not Ellipsis


def expand(trace: Trace, x: Node, key: Any) -> list[Any]:
    """One item for each axis, plus None for new axes: Ellipsis and missing items become `:`.

    An Ellipsis that stands for no axis is kept: it still separates index arrays.
    """
    parts = [_known(trace, item) for item in (key if isinstance(key, tuple) else (key,))]
    widths = [item.ndim if _is_mask(item) else int(_takes_axis(item)) for item in parts]
    used, ellipses = sum(widths), sum(item is Ellipsis for item in parts)
    if used > x.ndim or ellipses > 1:
        what = "more than one Ellipsis" if ellipses > 1 else f"too many indices: {used}"
        raise ShapeError(
            f"{what} for {trace.show(x)}, which has {x.ndim} axes",
            where=trace.where(),
            hint="use at most one index for each axis, and one Ellipsis",
        )
    missing = [slice(None)] * (x.ndim - used)
    items: list[Any] = []
    for item in parts if ellipses else [*parts, *missing]:
        if item is Ellipsis:
            items.extend(missing or [Ellipsis])
        elif _is_mask(item):
            _check_mask(trace, x, sum(map(_takes_axis, items)), item)
            items.extend(np.nonzero(item))  # a mask known while tracing has known places
        else:
            items.append(item)
    return items


def _known(trace: Trace, item: Any) -> Any:
    """The item with lists as arrays; what cannot be an index is refused."""
    if isinstance(item, np.ndarray) and type(item) is not np.ndarray:
        refuse_subclass(item, "an index", trace.where())
    if isinstance(item, list) and not any(hasattr(i, "node") for i in item):
        item = np.asarray(item)
        item = item if item.size else item.astype(np.int64)  # [] holds no index, of no dtype
    dtype = getattr(item, "dtype", None)
    is_boolean = isinstance(item, bool) or (dtype is not None and np.dtype(dtype).kind == "b")
    if is_boolean and (hasattr(item, "node") or np.ndim(item) == 0):
        _refuse_mask(trace, item)
    if isinstance(item, (float, complex, str, bytes, np.inexact, dict, set)):
        raise ShapeError(
            f"an index must be an integer, slice, None, Ellipsis or array, got {item!r}",
            where=trace.where(),
            hint="convert it with int(...)" if isinstance(item, float) else "use integers",
        )
    return item


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def _check_mask(trace: Trace, x: Node, first: int, mask: np.ndarray) -> None:
    """The mask has the sizes of the axes that it covers, or it is refused."""
    for axis, length in enumerate(mask.shape, first):
        difference = x.type.shape[axis] - length
        text = f"a boolean mask of length {length} must fit axis {axis} of {trace.show(x)}"
        if isinstance(difference, Size) and sizes.is_positive(difference) is None:
            trace.require(difference, True, text)
        elif difference != 0:
            raise ShapeError(
                text, where=trace.where(), hint="a mask must have the shape of the array"
            ).resting_on((difference, 0))


def _refuse_mask(trace: Trace, mask: Any) -> NoReturn:
    if not hasattr(mask, "node"):
        raise UnsupportedError(
            f"the boolean {mask} as an index is not traced",
            where=trace.where(),
            hint="use x[None] for a new axis, or an array of booleans as a mask",
        )
    from chainrule.frontend.hints.numbers import instead_of_writing  # if refused

    raise UnsupportedError(
        "a traced boolean mask as an index would give an array whose shape depends on its values",
        where=trace.where(),
        hint=instead_of_writing(sys._getframe(1))
        or "keep the shape and choose with np.where(mask, x, 0)",
    )


def _count(trace: Trace, value: Any, what: str) -> Count:
    """A size or an integer; anything else is refused by what it was to be."""
    if isinstance(value, Size) or hasattr(value, "node"):
        return value if isinstance(value, Size) else operator.index(value)
    try:
        return operator.index(value)
    except TypeError:
        raise ShapeError(
            f"{what} must be an integer, got {value!r}",
            where=trace.where(),
            hint="use an integer, or a size such as x.shape[0]",
        ) from None


def place_on(trace: Trace, x: Node, axis: int, index: Any) -> Count:
    """A non-negative position on an axis, with a condition where it cannot be proved inside."""
    size, given = x.type.shape[axis], _count(trace, index, "an index")
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


def _bound(trace: Trace, value: Any, size: Count, default: Count, low: int) -> Count:
    """One end of a slice, counted from the front and clipped to [low, size + low].

    A named size whose sign is not known counts from the front, which becomes a condition.
    """
    if value is None:
        return default
    given = _count(trace, value, "the end of a slice")
    from_front = sizes.is_nonnegative(given)
    if from_front is False:
        return sizes.maximum(given + size, low)
    if from_front is None:
        trace.require(given, False, f"the end {given} of a slice must not be negative")
    return sizes.minimum(given, size + low)


def _slice(trace: Trace, item: slice, size: Count) -> tuple[Count, int, Count]:
    """start, step and number of elements of a slice of an axis of `size` elements."""
    step = 1 if item.step is None else _count(trace, item.step, "the step of a slice")
    if isinstance(step, Size) or step == 0:
        raise ShapeError(
            f"the step of a slice must be an integer other than 0, got {step}",
            where=trace.where(),
            hint="use 1, or -1 to reverse",
        )
    if step > 0:
        start = _bound(trace, item.start, size, 0, 0)
        stop = _bound(trace, item.stop, size, size, 0)
        length = sizes.maximum(stop - start, 0)
    else:
        start = _bound(trace, item.start, size, size - 1, -1)
        stop = -1 if item.stop is None else _bound(trace, item.stop, size, -1, -1)
        length = sizes.maximum(start - stop, 0)
    stride = abs(step)
    count = length if stride == 1 else (length + (stride - 1)) // stride
    return (0 if isinstance(count, int) and count == 0 else start), step, count


class Part(NamedTuple):
    """What integers, slices and new axes choose: a slice of these counts, reshaped to `final`."""

    starts: tuple[Count, ...]
    steps: tuple[int, ...]
    counts: tuple[Count, ...]
    final: tuple[Count, ...]


def part_of(trace: Trace, x: Node, items: list[Any]) -> Part:
    """The part of x that integers, slices and new axes choose, index arrays standing for `:`."""
    starts: list[Count] = []
    steps: list[int] = []
    counts: list[Count] = []
    final: list[Count] = []
    for item in items:
        axis = len(starts)
        if item is Ellipsis:
            continue
        if item is None:
            final.append(1)
        elif isinstance(item, slice):
            start, step, count = _slice(trace, item, x.type.shape[axis])
            starts.append(start)
            steps.append(step)
            counts.append(count)
            final.append(count)
        else:
            starts.append(place_on(trace, x, axis, item))
            steps.append(1)
            counts.append(1)
    return Part(tuple(starts), tuple(steps), tuple(counts), tuple(final))


def is_whole(x: Node, part: Part) -> bool:
    """Whether the part is all of x, in its order."""
    return part.counts == x.type.shape and all(step == 1 for step in part.steps)


def read_part(trace: Trace, x: Node, part: Part) -> Node:
    """The elements of a part: a slice, then a reshape."""
    out = x
    if not is_whole(x, part):
        out = trace.build(slice_, x, start=part.starts, step=part.steps, shape=part.counts)
    return out if part.final == part.counts else trace.build(reshape, out, shape=part.final)


class Places(NamedTuple):
    """What index arrays choose of an array: its axes in this order, the first of them at the
    indices; then the axes of the result in the order `after`."""

    indices: tuple[Node, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def places_of(trace: Trace, items: list[Any]) -> Places:
    """The places that index arrays choose; slices and new axes stand for whole axes."""
    indices = [_index_node(trace, item) for item in items if _is_index(item)]
    shape = common_shape(trace, indices, "the index arrays")
    indices = [to_shape(trace, to_dtype(trace, i, i.type.dtype), shape) for i in indices]
    places = [place for place, item in enumerate(items) if _is_index(item)]
    adjacent = places == list(range(places[0], places[0] + len(places)))
    is_indexed = [_is_index(item) for item in items if item is not Ellipsis]
    front = [axis for axis, indexed in enumerate(is_indexed) if indexed]
    rest = [axis for axis, indexed in enumerate(is_indexed) if not indexed]
    wide, ahead = len(shape), front[0] if adjacent else 0
    after = (
        *range(wide, wide + ahead),
        *range(wide),
        *range(wide + ahead, wide + len(rest)),
    )
    return Places(tuple(indices), (*front, *rest), after)


def permuted(trace: Trace, x: Node, permutation: tuple[int, ...]) -> Node:
    """The axes in this order."""
    if permutation == tuple(range(x.ndim)):
        return x
    return trace.build(transpose, x, permutation=permutation)


def whole_axes(items: list[Any]) -> list[Any]:
    """The items with `:` in place of what chooses positions."""
    return [slice(None) if _is_index(item) else item for item in items]


def _advanced(trace: Trace, x: Node, items: list[Any]) -> Node:
    """Index arrays: slice the other axes, bring the indexed ones to the front, gather, put back."""
    places = places_of(trace, items)
    x = read_part(trace, x, part_of(trace, x, whole_axes(items)))
    out = trace.build(gather, permuted(trace, x, places.before), *places.indices, wrap=True)
    return permuted(trace, out, places.after)


def _is_index(item: Any) -> bool:
    """Whether an item chooses positions: an integer or an array of them."""
    return _takes_axis(item) and not isinstance(item, slice)


def _index_node(trace: Trace, item: Any) -> Node:
    node = as_node(trace, item)
    if node.type.dtype.kind not in "iu":
        raise ShapeError(
            f"an index must be of integers, got {trace.show(node)}",
            where=trace.where(),
            hint="convert it with .astype(np.int64)",
        )
    return node
