"""NumPy functions that join arrays, insert rows or delete them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.frontend.functions.elementwise import as_node, common_shape, to_dtype
from chainrule.frontend.functions.indexing import place_on
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.of_arrays import array_of, broadcast, trace_among
from chainrule.numpy.rearranging import (
    along,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    axis_of,
)


def _each(function: Callable[..., Any], arrays: Any) -> list[Any]:
    """The function of each array, of which only some may be traced."""
    trace = trace_among(*arrays)
    return [function(array_of(as_node(trace, array), trace)) for array in arrays]


def hstack(tup: Any, *, dtype: Any = None) -> Any:
    """Along the second axis, or the first of arrays that have one axis or none."""
    parts = _each(atleast_1d, tup)
    return np.concatenate(parts, axis=0 if parts[0].ndim == 1 else 1, dtype=dtype)


def vstack(tup: Any, *, dtype: Any = None) -> Any:
    """Along the first axis; arrays of one axis are rows."""
    return np.concatenate(_each(atleast_2d, tup), dtype=dtype)


def dstack(tup: Any) -> Any:
    """Along the third axis."""
    return np.concatenate(_each(atleast_3d, tup), axis=2)


def column_stack(tup: Any) -> Any:
    """Along the second axis; arrays of one axis or none are columns."""
    columns = _each(lambda x: np.reshape(x, (-1, 1)) if x.ndim < 2 else x, tup)
    return np.concatenate(columns, axis=1)


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) and arrays else 0


def _leaves(arrays: Any) -> list[Any]:
    return (
        [leaf for one in arrays for leaf in _leaves(one)] if isinstance(arrays, list) else [arrays]
    )


def block(arrays: Any) -> Any:
    """Blocks joined along the last axis, their rows along the second-last, and so on."""
    leaves = _leaves(arrays)
    trace = trace_among(*leaves)
    depth = _depth(arrays)
    count = max(depth, *(np.ndim(leaf) for leaf in leaves), 0)

    def joined(nested: Any, axis: int) -> Any:
        if isinstance(nested, list):
            return np.concatenate([joined(one, axis + 1) for one in nested], axis)
        x = array_of(as_node(trace, nested), trace)
        return np.reshape(x, (1,) * (count - x.ndim) + x.shape)

    return joined(arrays, -depth)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """The values after the array: flat, or along an axis."""
    if axis is None:
        arr, values = _each(np.ravel, [arr, values])
        axis = 0
    return np.concatenate([arr, values], axis)


def _known(a: Any, obj: Any, axis: Any, what: str, *more: Any) -> tuple[Any, Any, int]:
    """The array (flat without an axis), the positions, which have to be known, and the axis."""
    trace = trace_among(a, obj, *more)
    if isinstance(obj, Traced) and obj.node not in trace.scalars:
        raise UnsupportedError(
            f"np.{what} at traced positions",
            where=trace.where(),
            hint="use positions that are known while tracing, or choose with np.where",
        )
    x = array_of(as_node(trace, a), trace)
    obj = operator.index(obj) if isinstance(obj, Traced) else obj
    return (np.reshape(x, -1), obj, 0) if axis is None else (x, obj, axis_of(x, axis))


def _refuse_positions(x: Any, place: int, what: str, hint: str) -> NoReturn:
    raise UnsupportedError(
        f"np.{what} at several positions of axis {place} of {x.program.show(x.node)}, "
        f"whose length is {x.shape[place]}",
        where=x.program.where(),
        hint=hint,
    )


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without what stands at known positions of an axis."""
    x, obj, place = _known(arr, obj, axis, "delete")
    length = x.shape[place]
    if isinstance(length, int):
        return np.take(x, np.delete(np.arange(length), obj), axis=place)
    if not isinstance(obj, (int, np.integer, Size)):
        _refuse_positions(x, place, "delete", "join the parts that stay with np.concatenate")
    first = place_on(x.program, x.node, place, obj)
    rest = along(x, place, slice(first + 1, None))
    return np.concatenate([along(x, place, slice(0, first)), rest], place)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with values before what stands at known positions of an axis."""
    x, obj, place = _known(arr, obj, axis, "insert", values)
    trace, length = x.program, x.shape[place]
    if not isinstance(length, int):
        hint = "join the parts: np.concatenate([x[:i], values, x[i:]])"
        _refuse_positions(x, place, "insert", hint)
    new = array_of(to_dtype(trace, as_node(trace, values), x.dtype), trace)
    new = np.reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        new = np.moveaxis(new, 0, place)
    named = len(np.arange(length)[obj]) if isinstance(obj, slice) else _count(obj)
    count = new.shape[place] if named == 1 else named
    new = broadcast(new, (*x.shape[:place], count, *x.shape[place + 1 :]))
    order = np.insert(np.arange(length), obj, np.arange(length, length + count))
    return np.take(np.concatenate([x, new], place), order, axis=place)


def _count(positions: Any) -> int:
    """How many positions integers or a mask name."""
    known = np.asarray(positions)
    return int(np.sum(known)) if known.dtype == bool else known.size


def broadcast_arrays(*args: Any) -> Any:
    """All arrays in the shape to which they broadcast."""
    trace = trace_among(*args)
    nodes = [as_node(trace, array) for array in args]
    shape = common_shape(trace, nodes, "np.broadcast_arrays")
    return tuple(broadcast(array_of(node, trace), shape) for node in nodes)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinates of a grid from those along its axes."""
    trace = trace_among(*xi)
    if indexing not in ("xy", "ij"):
        raise InputError(
            f"np.meshgrid(indexing={indexing!r})", where=trace.where(), hint='use "xy" or "ij"'
        )
    count = len(xi)
    axes = [*range(count)]
    if indexing == "xy" and count > 1:
        axes[:2] = [1, 0]
    flat = _each(np.ravel, xi)
    parts = [
        np.reshape(x, (1,) * axis + (-1,) + (1,) * (count - 1 - axis))
        for x, axis in zip(flat, axes, strict=True)
    ]
    if sparse or count < 2:
        return tuple(parts)
    lengths = {axis: x.size for x, axis in zip(flat, axes, strict=True)}
    shape = tuple(lengths[axis] for axis in range(count))
    return tuple(broadcast(part, shape) for part in parts)


JOINING: dict[Any, Callable[..., Any]] = {
    np.hstack: hstack,
    np.vstack: vstack,
    np.dstack: dstack,
    np.column_stack: column_stack,
    np.block: block,
    np.append: append,
    np.insert: insert,
    np.delete: delete,
    np.broadcast_arrays: broadcast_arrays,
    np.meshgrid: meshgrid,
}
