"""NumPy's functions of diagonals and triangles."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError
from chainrule.graph.sizes import sizes
from chainrule.numpy.of_arrays import array_of, positions_of, trace_among
from chainrule.numpy.rearranging import axis_of
from chainrule.primitives.indexing import scatter_add

MOST_POWERS = 4096


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements on a diagonal of the plane of two axes, along a new last axis."""
    trace = trace_among(a)
    if a.ndim < 2:
        raise ShapeError(
            f"np.diagonal of {trace.show(a.node)}, which has {a.ndim} axes",
            where=trace.where(),
            hint="a diagonal needs two axes; np.diag makes a matrix of a vector",
        )
    first, second = axis_of(a, axis1, "axis1"), axis_of(a, axis2, "axis2")
    if first == second:
        raise ShapeError(
            f"np.diagonal: axis1={axis1} and axis2={axis2} are one axis",
            where=trace.where(),
            hint="name two axes",
        )
    x = np.moveaxis(a, (first, second), (0, 1))
    offset = operator.index(offset)
    down, right = max(-offset, 0), max(offset, 0)
    length = sizes.maximum(sizes.minimum(x.shape[0] - down, x.shape[1] - right), 0)
    places = positions_of(trace, length)
    return np.moveaxis(x[places + down, places + right], 0, -1)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum over a diagonal."""
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def diag(v: Any, k: int = 0) -> Any:
    """The matrix with this diagonal, or the diagonal of a matrix."""
    found = trace_among(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(
            f"np.diag of {found.show(v.node)}, which has {v.ndim} axes",
            where=found.where(),
            hint="give a vector or a matrix; np.diagonal takes more axes",
        )
    k = operator.index(k)
    size = v.size + abs(k)
    places = positions_of(found, v.size)
    rows, columns = places + max(-k, 0), places + max(k, 0)
    node = found.build(scatter_add, v.node, rows.node, columns.node, shape=(size, size), wrap=False)
    return array_of(node, found)


def _triangle(name: str, keep: Callable[[Any, Any, int], Any], doc: str) -> Callable[..., Any]:
    def function(m: Any, k: int = 0) -> Any:
        found = trace_among(m)
        if not m.ndim:
            raise ShapeError(
                f"np.{name} of {found.show(m.node)}, which has no axes",
                where=found.where(),
                hint="give a vector, a matrix or a stack of matrices",
            )
        rows, columns = m.shape[-2:] if m.ndim > 1 else m.shape * 2
        row = np.expand_dims(positions_of(found, rows), 1)
        column = np.expand_dims(positions_of(found, columns), 0)
        return np.where(keep(row, column, operator.index(k)), m, np.asarray(0, m.dtype))

    function.__doc__ = doc
    return function


tril = _triangle(
    "tril",
    lambda row, column, k: column <= row + k,
    "The elements on and below a diagonal, else zeros.",
)
triu = _triangle(
    "triu",
    lambda row, column, k: column >= row + k,
    "The elements on and above a diagonal, else zeros.",
)


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The powers of a vector's elements, those of the first column the highest."""
    found = trace_among(x)
    if x.ndim != 1:
        raise ShapeError(
            f"np.vander of {found.show(x.node)}, which has {x.ndim} axes",
            where=found.where(),
            hint="give a vector",
        )
    count = len(x) if N is None else operator.index(N)
    if not 0 <= count <= MOST_POWERS:
        raise InputError(
            f"np.vander of {found.show(x.node)} with {count} columns",
            where=found.where(),
            hint=f"each is a node of the graph: from 0 to {MOST_POWERS}; "
            "x[:, None] ** powers takes any number of powers at once",
        )
    wide = x.astype(np.promote_types(x.dtype, int))
    powers = [wide**i for i in range(count)]
    if not powers:
        return np.zeros_like(wide, shape=(*x.shape, 0))
    return np.stack(powers if increasing else powers[::-1], axis=1)


DIAGONALS: dict[Any, Callable[..., Any]] = {
    np.diagonal: diagonal,
    np.trace: trace,
    np.diag: diag,
    np.diagflat: lambda v, k=0: diag(np.reshape(v, -1), k),
    np.tril: tril,
    np.triu: triu,
    np.vander: vander,
}
