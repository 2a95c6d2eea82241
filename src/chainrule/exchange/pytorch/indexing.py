"""PyTorch's operators that read and change elements by index, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.values import at_axis, dtype_of, with_axis
from chainrule.frontend.traced import Traced


def _at(x: Any) -> Any:
    """x.at, which only traced arrays have: of a constant, after it is changed by nothing."""
    return x.at


def _like(x: Any, value: Any) -> Any:
    return np.reshape(value, np.shape(x))


def _along(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The key of x at `index` along one axis, and at its own place along the others."""
    places = np.indices(np.shape(index), sparse=True)
    return tuple(index if axis == dim % np.ndim(x) else p for axis, p in enumerate(places))


def _gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    one, places = with_axis(x), with_axis(index)
    if np.shape(places) and 0 in np.shape(places):
        return np.zeros(np.shape(index), dtype_of(x))
    return _like(index, one[_along(one, dim, places)])


_METHODS = {"sum": "add", "add": "add", "multiply": "multiply", "prod": "multiply"}
_METHODS |= {"mean": "add", "amin": "min", "amax": "max"}


def _scatter(x: Any, dim: int, index: Any, value: Any, *, reduce: str | None = None) -> Any:
    method = "set" if reduce is None else _METHODS[reduce]
    one, places = with_axis(x), with_axis(index)
    part = with_axis(value)[_corner(places)] if np.ndim(value) else value
    return _like(x, getattr(_at(one)[_along(one, dim, places)], method)(part))


def _corner(places: Any) -> tuple[slice, ...]:
    return tuple(slice(length) for length in np.shape(places))


def _changed(x: Any, key: Any, value: Any, reduce: str, include_self: bool) -> Any:
    """x with the values at key joined: the rule of scatter_reduce and index_reduce."""
    zeros: Any = np.zeros_like(x)
    count = zeros.at[key].add(np.ones_like(value))
    rest = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amin": np.inf, "amax": -np.inf}[reduce]
    base: Any = x if include_self else np.where(count > 0, rest, x)
    found = getattr(base.at[key], _METHODS[reduce])(value)
    if reduce == "mean":
        found = found / np.maximum(count + (1 if include_self else 0), 1)
    return found


def _scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    one, places = with_axis(x), with_axis(index)
    part = with_axis(src)[_corner(places)]
    return _like(x, _changed(one, _along(one, dim, places), part, reduce, include_self))


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    one = with_axis(x)
    key = at_axis(one, dim, index)
    return _like(x, _changed(one, key, with_axis(source), reduce, include_self))


def _index_select(x: Any, dim: int, index: Any) -> Any:
    return np.take(x, np.atleast_1d(index), axis=dim) if np.ndim(x) else np.reshape(x, ())


def _index(x: Any, indices: Any) -> Any:
    return x[tuple(slice(None) if one is None else one for one in indices)]


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if len(indices) == 1 and indices[0] is not None and dtype_of(indices[0]).kind == "b":
        return _put_where(x, indices[0], values, accumulate)
    key = tuple(slice(None) if one is None else one for one in indices)
    element = _at(x)[key]
    return element.add(values) if accumulate else element.set(values)


def _put_where(x: Any, mask: Any, values: Any, accumulate: bool) -> Any:
    """The i-th of the values goes where the mask holds for the i-th time."""
    rest = np.ndim(x) - np.ndim(mask)
    chosen = values
    if np.ndim(values) > rest and np.shape(values)[0] != 1:
        places = np.reshape(np.cumsum(np.ravel(mask)), np.shape(mask)) - 1
        chosen = np.take(values, np.clip(places, 0, np.shape(values)[0] - 1), axis=0)
    mask = np.reshape(mask, (*np.shape(mask), *(1,) * rest))
    return np.where(mask, x + chosen if accumulate else chosen, x)


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    one = with_axis(x)
    value = with_axis(source)
    value = value if isinstance(alpha, int) and alpha == 1 else alpha * value
    return _like(x, _at(one)[at_axis(one, dim, index)].add(value))


def _index_set(x: Any, dim: int, index: Any, value: Any) -> Any:
    one = with_axis(x)
    part = with_axis(value) if np.ndim(value) else value
    return _like(x, _at(one)[at_axis(one, dim, index)].set(part))


def _put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    element = _at(np.ravel(x))[np.ravel(index)]
    values = np.ravel(source)
    return _like(x, element.add(values) if accumulate else element.set(values))


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    shape = np.broadcast_shapes(np.shape(x), np.shape(mask))
    x, mask = np.broadcast_to(x, shape), np.broadcast_to(mask, shape)
    places = np.reshape(np.cumsum(np.ravel(mask)), shape) - 1
    return np.where(mask, np.take(np.ravel(source), np.maximum(places, 0)), x)


def _masked_select(x: Any, mask: Any) -> Any:
    if isinstance(mask, Traced):
        raise UnsupportedError(
            "masked_select: the length of its result depends on the values of the mask",
            hint="write torch.where(mask, x, 0), which keeps the shape",
        )
    shape = np.broadcast_shapes(np.shape(x), np.shape(mask))
    return np.broadcast_to(x, shape)[np.nonzero(np.broadcast_to(mask, shape))]


def _masked_index(x: Any, mask: Any, indices: Any, fill: Any) -> Any:
    """_unsafe_masked_index: x[indices] where the mask holds, whatever stands elsewhere."""
    given = (
        slice(None) if i is None else np.clip(i, 0, n - 1)
        for i, n in zip(indices, np.shape(x), strict=False)
    )
    return np.where(mask, x[tuple(given)], fill)


def _masked_put(x: Any, mask: Any, indices: Any, values: Any) -> Any:
    """_unsafe_masked_index_put_accumulate: adds the values where the mask holds."""
    given = tuple(
        slice(None) if i is None else np.clip(i, -n, n - 1)
        for i, n in zip(indices, np.shape(x), strict=False)
    )
    return _at(x)[given].add(np.where(mask, values, 0))


def _bounds(start: Any, end: Any) -> tuple[Any, Any]:
    """PyTorch writes the largest integer for the end of an axis."""
    return start, None if isinstance(end, int) and end >= 2**62 else end


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[at_axis(x, dim, slice(*_bounds(start, end), step))]


def _slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return _at(x)[at_axis(x, dim, slice(*_bounds(start, end), step))].set(src)


def _narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    start = int(start) if isinstance(start, np.ndarray) else start
    if isinstance(start, int) and start < 0:
        start = start + np.shape(x)[dim]
    return x[at_axis(x, dim, slice(start, start + length))]


def _diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    rows, columns = (np.shape(x)[d] for d in (dim1, dim2))
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    down, across = np.arange(length) - min(offset, 0), np.arange(length) + max(offset, 0)
    moved = _at(np.moveaxis(x, (dim1, dim2), (-2, -1)))[..., down, across].set(src)
    return np.moveaxis(moved, (-2, -1), (dim1, dim2))


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, x)


def _searchsorted(
    sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    if np.ndim(sequence) != 1:  # as many as there are smaller ones
        sequence = sequence if sorter is None else np.take_along_axis(sequence, sorter, -1)
        is_right = right or side == "right"
        lines = sequence[..., None, :]
        return np.sum(lines <= values[..., None] if is_right else lines < values[..., None], -1)
    given: Any = side or ("right" if right else "left")
    return np.searchsorted(sequence, values, given, sorter)


def _bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return np.searchsorted(boundaries, x, side="right" if right else "left")


INDEXING: dict[str, Any] = {
    "gather": _gather,
    "scatter": _scatter,
    "scatter_add": lambda x, dim, index, src: _scatter(x, dim, index, src, reduce="add"),
    "scatter_reduce": _scatter_reduce,
    "index_reduce": _index_reduce,
    "index_add": _index_add,
    "index_copy": _index_set,
    "index_fill": _index_set,
    "index_put": _index_put,
    "_index_put_impl": lambda x, i, v, accumulate=False, unsafe=False: _index_put(
        x, i, v, accumulate
    ),
    "_unsafe_index_put": _index_put,
    "put": _put,
    "index": _index,
    "_unsafe_index": _index,
    "index_select": _index_select,
    "take": lambda x, index: np.take(np.ravel(x), index),
    "masked_scatter": _masked_scatter,
    "masked_select": _masked_select,
    "masked_fill": _masked_fill,
    "_unsafe_masked_index": _masked_index,
    "_unsafe_masked_index_put_accumulate": _masked_put,
    "narrow": _narrow,
    "narrow_copy": _narrow,
    **dict.fromkeys(("select", "select_copy"), lambda x, dim, index: x[at_axis(x, dim, index)]),
    "select_scatter": lambda x, src, dim, index: _at(x)[at_axis(x, dim, index)].set(src),
    **dict.fromkeys(("slice", "slice_copy"), _slice),
    "slice_scatter": _slice_scatter,
    "diagonal_scatter": _diagonal_scatter,
    "searchsorted": _searchsorted,
    "bucketize": _bucketize,
}
