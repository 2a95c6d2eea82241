"""Functions that read and change elements by index, with PyTorch's signatures."""

from __future__ import annotations

import numpy as np
from opinfo_movement import size_of


def lined(x):
    """PyTorch lets an axis of an array without axes be named."""
    return np.reshape(x, (1,)) if np.ndim(x) == 0 else x


def like(x, value):
    return np.reshape(value, np.shape(x))


def along(x, dim, index):
    """The key of x at `index` along one axis, and at its own place along the others."""
    places = np.indices(np.shape(index), sparse=True)
    return tuple(index if a == dim % np.ndim(x) else p for a, p in enumerate(places))


def at_axis(x, dim, index):
    return (*(slice(None),) * (dim % np.ndim(x)), index)


def gather(x, dim, index, sparse_grad=False):
    return like(index, lined(x)[along(lined(x), dim, lined(index))])


def scatter(x, dim, index, value, reduce=None):
    method = {None: "set", "add": "add", "multiply": "multiply"}[reduce]
    one, places = lined(x), lined(index)
    part = lined(value)[tuple(slice(n) for n in np.shape(places))] if np.ndim(value) else value
    return like(x, getattr(one.at[along(one, dim, places)], method)(part))


def scatter_add(x, dim, index, value):
    return scatter(x, dim, index, value, "add")


def changed(x, key, value, reduce, include_self):
    """x with the values at key joined: the rule of scatter_reduce and index_reduce."""
    touched = np.zeros(np.shape(x)).astype(x.dtype)
    count = np.where(touched == 0, x * 0, x * 0).at[key].add(np.ones(np.shape(value)))
    rest = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amin": np.inf, "amax": -np.inf}[reduce]
    base = x if include_self else np.where(count > 0, rest, x)
    method = {"sum": "add", "mean": "add", "prod": "multiply", "amin": "min", "amax": "max"}
    found = getattr(base.at[key], method[reduce])(value)
    if reduce == "mean":
        found = found / np.maximum(count + (1 if include_self else 0), 1)
    return found


def scatter_reduce(x, dim, index, value, reduce, include_self=True):
    one, places = lined(x), lined(index)
    part = lined(value)[tuple(slice(n) for n in np.shape(places))]
    return like(x, changed(one, along(one, dim, places), part, reduce, include_self))


def index_reduce(x, dim, index, value, reduce, include_self=True):
    one = lined(x)
    return like(x, changed(one, at_axis(one, dim, index), lined(value), reduce, include_self))


def index_add(x, dim, index, value, alpha=1):
    one = lined(x)
    return like(x, one.at[at_axis(one, dim, index)].add(alpha * lined(value)))


def index_copy(x, dim, index, value):
    one = lined(x)
    return like(x, one.at[at_axis(one, dim, index)].set(lined(value)))


def index_fill(x, dim, index, value):
    one = lined(x)
    return like(x, one.at[at_axis(one, dim, index)].set(value))


def index_put(x, indices, values, accumulate=False):
    if indices[0].dtype == bool:
        indices = np.nonzero(indices[0])
    element = x.at[tuple(indices)]
    return element.add(values) if accumulate else element.set(values)


def put(x, index, values, accumulate=False):
    element = np.ravel(x).at[np.ravel(index)]
    values = np.ravel(values)
    return like(x, element.add(values) if accumulate else element.set(values))


def masked_scatter(x, mask, source):
    shape = np.broadcast_shapes(np.shape(x), np.shape(mask))
    x, mask = np.broadcast_to(x, shape), np.broadcast_to(mask, shape)
    places = np.reshape(np.cumsum(np.ravel(mask)), shape) - 1
    return np.where(mask, np.take(np.ravel(source), np.maximum(places, 0)), x)


def masked_index(x, mask, indices, fill):
    given = (
        slice(None) if i is None else np.clip(i, 0, n - 1)
        for i, n in zip(indices, x.shape, strict=True)
    )
    return np.where(mask, x[tuple(given)], fill)


def narrow(x, dim, start, length):
    start = int(start)
    start += np.shape(x)[dim] if start < 0 else 0
    return x[at_axis(x, dim, slice(start, start + length))]


def part(x, dim=0, start=None, end=None, step=1):
    return x[at_axis(x, dim, slice(start, end, step))]


def part_scatter(x, source, dim=0, start=None, end=None, step=1):
    return x.at[at_axis(x, dim, slice(start, end, step))].set(source)


def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    rows, columns = (np.shape(x)[d] for d in (dim1, dim2))
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    down, across = np.arange(length) - min(offset, 0), np.arange(length) + max(offset, 0)
    moved = np.moveaxis(x, (dim1, dim2), (-2, -1)).at[..., down, across].set(source)
    return np.moveaxis(moved, (-2, -1), (dim1, dim2))


def strided(size, stride, offset):
    places = np.full(tuple(size), offset or 0)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [n if a == axis else 1 for a in range(len(size))]
        places = places + step * np.reshape(np.arange(n), shape)
    return places


def as_strided(x, size, stride, storage_offset=None):
    return np.ravel(x)[strided(size, stride, storage_offset)]


def sorted_by(x, dim, descending=False):
    places = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, places, dim), places


def topk(x, k, dim=-1, largest=True, sorted=True):
    if np.ndim(x) == 0:
        return x, np.zeros((), np.int64)
    values, places = sorted_by(x, dim, largest)
    return narrow(values, dim, 0, k), narrow(places, dim, 0, k)


def kthvalue(x, k, dim=-1, keepdim=False):
    if np.ndim(x) == 0:
        return x, np.zeros((), np.int64)
    values, places = sorted_by(x, dim)
    key = at_axis(x, dim, slice(k - 1, k) if keepdim else k - 1)
    return values[key], places[key]


def median_of(function, quantile):
    """np.median of an odd number of elements; of an even one the lower of the middle two."""

    def median(x, dim=None, keepdim=False):
        one = lined(x)
        count = int(np.prod(np.shape(one))) if dim is None else np.shape(one)[dim]
        if count % 2:
            middle = function(one, axis=dim, keepdims=True)
        else:
            middle = quantile(one, 0.5, axis=dim, method="lower", keepdims=True)
        shape = np.shape(np.sum(one, axis=dim, keepdims=keepdim)) if np.ndim(x) else ()
        if dim is None:
            return np.reshape(middle, ())
        place = np.argmax(one == middle, axis=dim)
        return np.reshape(middle, shape), np.reshape(place, shape)

    return median


def running(function):
    """cummax and cummin: the values, and the last place where each one stood."""

    def cumulated(x, dim):
        one = lined(x)
        values = function.accumulate(one, axis=dim)
        shape = [-1 if a == dim % one.ndim else 1 for a in range(one.ndim)]
        own = np.reshape(np.arange(np.shape(one)[dim]), shape)
        places = np.maximum.accumulate(np.where(one == values, own, 0), axis=dim)
        return like(x, values), like(x, places)

    return cumulated


def aminmax(x, dim=None, keepdim=False):
    if np.ndim(x) == 0:
        return np.min(x), np.max(x)
    return np.min(x, axis=dim, keepdims=keepdim), np.max(x, axis=dim, keepdims=keepdim)


def windows(x, dim, size, step):
    if np.ndim(x) == 0:
        return np.reshape(x, (1,))[:size]
    starts = np.arange(0, np.shape(x)[dim] - size + 1, step)
    moved = np.moveaxis(x, dim, -1)[..., starts[:, None] + np.arange(size)]
    return np.moveaxis(moved, -2, dim % np.ndim(x))


def sum_to_size(x, *shape):
    shape = size_of(shape)
    extra = np.ndim(x) - len(shape)
    x = np.sum(x, axis=tuple(range(extra)))
    axes = tuple(a for a, n in enumerate(shape) if n == 1 and np.shape(x)[a] != 1)
    return np.sum(x, axis=axes, keepdims=True)


TABLE = {
    "gather": gather,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "index_reduce": index_reduce,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_fill,
    "index_put": index_put,
    "put": put,
    "masked_scatter": masked_scatter,
    "_unsafe_masked_index": masked_index,
    "narrow": narrow,
    "narrow_copy": narrow,
    "select": lambda x, dim, index: x[at_axis(x, dim, index)],
    "select_scatter": lambda x, source, dim, index: x.at[at_axis(x, dim, index)].set(source),
    "slice": part,
    "slice_scatter": part_scatter,
    "diagonal_scatter": diagonal_scatter,
    "as_strided": as_strided,
    "as_strided_copy": as_strided,
    "topk": topk,
    "kthvalue": kthvalue,
    "median": median_of(np.median, np.quantile),
    "nanmedian": median_of(np.nanmedian, np.nanquantile),
    "cummax": running(np.maximum),
    "cummin": running(np.minimum),
    "aminmax": aminmax,
    "unfold": windows,
    "unfold_copy": windows,
    "sum_to_size": sum_to_size,
}
