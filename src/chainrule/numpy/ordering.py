"""NumPy's sorting functions: all gather elements at the indices that `argsort` gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError, UnsupportedError
from chainrule.frontend.composite import composite
from chainrule.frontend.functions.elementwise import as_node, common_shape
from chainrule.frontend.functions.shapes import axis_index
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes import sizes
from chainrule.graph.types import Shape
from chainrule.numpy.of_arrays import (
    array_of,
    broadcast,
    positions_of,
    trace_among,
)
from chainrule.numpy.rearranging import require_length
from chainrule.primitives import sorting
from chainrule.primitives.sources import uniform


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """The places of the elements from the smallest to the largest; equal ones keep their order."""
    trace = trace_among(a)
    if order is not None:
        raise UnsupportedError(
            f"sorting with order={order!r} is not traced",
            where=trace.where(),
            hint="leave order= out: traced arrays have no fields",
        )
    if axis is None:
        a, axis = np.reshape(a, -1), -1
    x = as_node(trace, a)
    return array_of(trace.build(sorting.argsort, x, axis=axis_index(trace, axis, x)), trace)


@composite(symbol="sort", latex=r"\operatorname{sort}", module="np")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The elements from the smallest to the largest along an axis, NaN last."""
    if axis is None:
        a, axis = np.reshape(a, -1), -1
    places = argsort(a, axis, kind, order, stable=stable)
    return take_along_axis(a, places, axis)


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Along an axis, the elements at the places given for each position on the other axes."""
    trace = trace_among(arr, indices)
    if axis is None:
        arr, axis = np.reshape(arr, -1), -1
    x, index = (array_of(as_node(trace, value), trace) for value in (arr, indices))
    axis = axis_index(trace, axis, x.node)
    if index.dtype.kind not in "iu" or index.ndim != x.ndim:
        raise ShapeError(
            f"np.take_along_axis of {trace.show(x.node)} at {trace.show(index.node)}",
            where=trace.where(),
            hint="give integer indices, in an array with as many axes as the first",
        )
    x, index = np.moveaxis(x, axis, -1), np.moveaxis(index, axis, -1)
    if x.ndim == 1:
        return x[index]
    others = _common(trace, x.shape[:-1], index.shape[:-1])
    rows = sizes.product(others)
    flat = np.reshape(broadcast(x, (*others, x.shape[-1])), (rows, x.shape[-1]))
    places = np.reshape(broadcast(index, (*others, index.shape[-1])), (rows, index.shape[-1]))
    taken = flat[np.expand_dims(positions_of(trace, rows), 1), places]
    return np.moveaxis(np.reshape(taken, (*others, index.shape[-1])), -1, axis)


def _common(trace: Trace, *shapes: Shape) -> Shape:
    """The shape to which all of them broadcast."""
    nodes = [uniform(0.0, np.dtype(np.float64), shape) for shape in shapes]
    return common_shape(trace, nodes, "np.take_along_axis")


def _checked(trace: Trace, a: Any, kth: Any, axis: Any) -> None:
    """Refuse a place at which nothing can stand, as NumPy does."""
    x = as_node(trace, a)
    length = x.type.shape[axis_index(trace, axis, x)]
    for given in np.ravel(kth).tolist() if not isinstance(kth, Traced) else [kth]:
        one = operator.index(given)
        if isinstance(length, int) and length and not -length <= one < length:
            raise ShapeError(
                f"kth={one} is no place on an axis of length {length} of {trace.show(x)}",
                where=trace.where(),
                hint=f"give an integer from {-length} to {length - 1}",
            )
        if isinstance(length, sizes.Size):
            require_length(trace, length, one + 1 if one >= 0 else -one, f"np.partition(kth={one})")


def _partitioned(by_sorting: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def function(
        a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
    ) -> Any:
        if axis is None:
            a, axis = np.reshape(a, -1), -1
        _checked(trace_among(a), a, kth, axis)
        return by_sorting(a, axis, order=order)

    function.__doc__ = doc
    return function


def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The places that sort by the last key, equal ones by the one before it, and so on."""
    trace = trace_among(*keys)
    first, *others = [array_of(as_node(trace, key), trace) for key in keys]
    places = argsort(first, axis)
    for key in others:
        places = take_along_axis(places, argsort(take_along_axis(key, places, axis), axis), axis)
    return places


ORDERING: dict[Any, Callable[..., Any]] = {
    np.argsort: argsort,
    np.sort: sort,
    np.take_along_axis: take_along_axis,
    np.partition: _partitioned(sort, "By sorting: the elements before and after kth are in order."),
    np.argpartition: _partitioned(argsort, "By sorting: all the places are in order."),
    np.lexsort: lexsort,
}
