"""Searching, interpolating and counting with sorted values: `digitize`, `interp`, `bincount`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError, UnsupportedError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.functions.shapes import common_dtype
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.averages import dtype_of
from chainrule.numpy.rearranging import require_length
from chainrule.numpy.statistics import as_array
from chainrule.primitives import searching
from chainrule.primitives.indexing import scatter_add


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """np.searchsorted: of a sorted array; it is not looked at whether it is."""
    trace = trace_of((a, v, sorter))
    assert trace is not None
    if sorter is not None:
        a = np.take(a, sorter)
    if side not in ("left", "right") or np.ndim(a) != 1:
        refuse(
            InputError,
            (a, v),
            f"np.searchsorted(side={side!r}) among {shown(a)}",
            "the sorted array has one axis, and side is 'left' or 'right'",
        )
    one, other = common_dtype(trace, [as_node(trace, a), as_node(trace, v)])
    return Traced(trace.build(searching.searchsorted, one, other, side=side), trace)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """np.digitize: the bin of each element; the edges are known while tracing."""
    if isinstance(bins, Traced):
        refuse(
            UnsupportedError,
            (x, bins),
            f"np.digitize with the edges {shown(bins)}",
            "it must be known whether they rise or fall; for rising edges use np.searchsorted",
        )
    edges = np.asarray(bins)
    steps = np.diff(edges)
    if edges.ndim != 1 or not (np.all(steps >= 0) or np.all(steps <= 0)):
        refuse(
            InputError,
            (x,),
            f"np.digitize: the edges {shown(edges)} are not monotonic",
            "sort them",
        )
    side = "left" if right else "right"
    if np.all(steps >= 0):
        return searchsorted(edges, x, side)
    return len(edges) - searchsorted(edges[::-1].copy(), x, side)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """np.interp: linear between rising points xp; at a point its slope is that to the right."""
    if period is not None:
        refuse(
            UnsupportedError,
            (x, xp, fp),
            f"np.interp(period={period!r}) is not traced",
            "leave period= out, and repeat the points on both sides",
        )
    x, xp, fp = (_in_double(one) for one in (x, xp, fp))
    count = np.shape(xp)[0] if np.ndim(xp) == 1 else None
    if count is None or np.shape(fp) != np.shape(xp) or count == 0:
        refuse(
            ShapeError,
            (x, xp, fp),
            f"np.interp between {shown(xp)} with the values {shown(fp)}",
            "one value for each of one or more points",
        )
    first, last = fp[0], fp[-1]
    left, right = (first if left is None else left), (last if right is None else right)
    found = np.zeros_like(x) + first
    if isinstance(count, Size) or count > 1:
        trace = trace_of((x, xp, fp))
        assert trace is not None
        require_length(trace, count, 2, "np.interp")
        found = _between_points(np.where((xp[0] <= x) & (x <= xp[-1]), x, xp[0]), xp, fp)
    found = np.where(x == xp[-1], last, found)
    found = np.where(x < xp[0], left, np.where(x > xp[-1], right, found))
    return np.where(x == x, found, x)


def _between_points(x: Any, xp: Any, fp: Any) -> Any:
    """The lines between two or more points, at numbers between the first and the last of them."""
    trace = trace_of((x, xp, fp))
    assert trace is not None
    points, values = (Traced(as_node(trace, one), trace) for one in (xp, fp))
    place = searchsorted(points, x, "right") - 1
    place = np.minimum(np.maximum(place, 0), np.shape(xp)[0] - 2)
    start, low = points[place], values[place]
    width = points[place + 1] - start
    width = np.where(width == 0, 1, width)  # of two equal points at the end
    return (values[place + 1] - low) / width * (x - start) + low


def _in_double(x: Any) -> Any:
    x = as_array(x)
    return x if x.dtype == np.float64 else x.astype(np.float64)


def bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """np.bincount: of a traced x the result has `minlength` numbers; a larger x is an error."""
    if not isinstance(x, Traced):
        x = np.asarray(x)
        minlength = max(operator.index(minlength), int(x.max(initial=-1)) + 1)
    length = minlength if isinstance(minlength, Size) else operator.index(minlength)
    if np.ndim(x) != 1 or dtype_of(x).kind not in "biu":
        refuse(
            ShapeError,
            (x, weights),
            f"np.bincount of {shown(x)}",
            "integers of 0 or more, one axis",
        )
    if isinstance(length, int) and length < 1:
        refuse(
            UnsupportedError,
            (x, weights),
            f"np.bincount of {shown(x)}, whose largest element is not known",
            "give the length of the result, such as minlength=10",
        )
    trace = trace_of((x, weights))
    assert trace is not None
    added = np.ones_like(x, dtype=np.int64) if weights is None else _in_double(weights)
    if np.shape(added) != np.shape(x):
        refuse(
            ShapeError,
            (x, weights),
            f"np.bincount of {shown(x)} with the weights {shown(weights)}",
            "one weight for each element",
        )
    places = x.astype(np.int64) if dtype_of(x).kind == "b" else x
    nodes = as_node(trace, added), as_node(trace, places)
    return Traced(trace.build(scatter_add, *nodes, shape=(length,), wrap=False), trace)


BINNING: dict[Any, Callable[..., Any]] = {
    np.searchsorted: searchsorted,
    np.digitize: digitize,
    np.interp: interp,
    np.bincount: bincount,
}
