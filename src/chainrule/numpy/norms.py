"""Norms of vectors and matrices; their derivative at 0 is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite
from chainrule.frontend.functions.linalg import as_number
from chainrule.numpy.of_one_primitive import stop_gradient
from chainrule.numpy.products import shape_error
from chainrule.numpy.statistics import count_along, safe_sqrt

ORDERS_OF_MATRICES = 'None, "fro", "nuc", 1, -1, 2, -2, np.inf or -np.inf'


def _gradient(g: Any, out: Any, call: Any) -> Any:
    """In closed form, for equations: x/‖x‖, of the Euclidean norm of all elements."""
    is_plain = all(call.get(one) is None for one in ("ord", "axis"))
    return g * (call["x"] / out) if is_plain and not out.ndim else None


@composite(symbol="norm", latex=r"\operatorname{norm}", gradients={"x": _gradient})
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The Euclidean norm of all elements, or a norm of vectors or matrices along axes.

    As np.linalg.norm: `ord` is None, a number, inf, -inf or 0 (of vectors), "fro" or "nuc" (of
    matrices).  Its derivative at 0 is 0.
    """
    x, ord = _inexact(x), as_number(ord, "ord")
    if axis is None and (ord is None or _is_plain_frobenius(ord, np.ndim(x))):
        return _euclidean(x, None, keepdims)
    axes = _axes(x, tuple(range(np.ndim(x))) if axis is None else axis)
    if len(axes) == 1:
        return _of_vectors(x, ord, axes, keepdims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise shape_error(
            f"np.linalg.norm(ord={ord!r}, axis={axis!r}) takes one axis or two",
            x,
            hint="axis=-1 for vectors, axis=(-2, -1) for matrices, or leave ord= out",
        )
    return _of_matrices(x, ord, axes, keepdims)


def _is_plain_frobenius(ord: Any, ndim: int) -> bool:
    return (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)


def _inexact(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    given, ndim = axis if isinstance(axis, (tuple, list)) else (axis,), np.ndim(x)
    if any(not -ndim <= one < ndim for one in given):
        raise shape_error(
            f"axis={axis!r} is no axis of the array", x, hint=f"it has {ndim} axes; -1 is the last"
        )
    return tuple(one % ndim for one in given)


def _euclidean(x: Any, axis: Any, keepdims: bool) -> Any:
    return safe_sqrt(np.sum(x**2, axis=axis, keepdims=keepdims))


def _of_vectors(x: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    """The norm of the elements along `axes`, taken as one vector."""
    if ord is None or ord == 2:
        return _euclidean(x, axes, keepdims)
    if isinstance(ord, str):
        raise InputError(
            f"norm(ord={ord!r}) is of matrices, and the axes {axes} are of vectors",
            hint="use a number as ord, or two axes",
        )
    size = np.abs(x)
    if ord == 0:
        return np.sum((x != 0).astype(x.dtype), axis=axes, keepdims=keepdims)
    if ord == 1 or (ord == np.inf and count_along(x, axes) == 0):
        return np.sum(size, axis=axes, keepdims=keepdims)
    if ord == np.inf:
        return np.max(size, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(size, axis=axes, keepdims=keepdims)
    return _of_order(size, ord, axes, keepdims)


def _of_order(size: Any, ord: float, axes: Any, keepdims: bool) -> Any:
    """The sum of powers, to the power of one over the order; elements of 0 have derivative 0."""
    of_zero = 0.0 if ord > 0 else np.inf
    zero = size == 0
    unit = _unit(size, zero, ord, axes)
    powers = np.where(zero, of_zero, (np.where(zero, 1, size) / unit) ** ord)
    total = np.sum(powers, axis=axes, keepdims=True)
    nothing = total == 0
    root = np.where(nothing, of_zero, np.where(nothing, 1, total) ** (1 / ord)) * unit
    return root if keepdims else np.squeeze(root, axis=axes)


def _unit(size: Any, zero: Any, ord: float, axes: Any) -> Any:
    """The element that counts most, as a constant: over it no power of the others overflows."""
    if count_along(size, axes) == 0:
        return 1
    if ord > 0:
        most = np.max(size, axis=axes, keepdims=True)
    else:
        most = np.min(np.where(zero, np.inf, size), axis=axes, keepdims=True)
    most = stop_gradient(most)
    return np.where((most > 0) & (most < np.inf), most, 1)


def _of_matrices(x: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    if ord is None or ord in ("f", "fro"):
        return _euclidean(x, axes, keepdims)
    matrices = np.moveaxis(x, axes, (-2, -1))
    extreme = _largest if ord in (1, 2, np.inf) else np.min
    if ord in (1, -1):
        result = extreme(np.sum(np.abs(matrices), axis=-2), axis=-1)
    elif ord in (np.inf, -np.inf):
        result = extreme(np.sum(np.abs(matrices), axis=-1), axis=-1)
    elif ord in (2, -2):
        result = extreme(_singular_values(matrices), axis=-1)
    elif ord == "nuc":
        result = np.sum(_singular_values(matrices), axis=-1)
    else:
        raise InputError(
            f"norm(ord={ord!r}) of matrices does not exist", hint=f"use {ORDERS_OF_MATRICES}"
        )
    return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result


def _largest(values: Any, axis: int) -> Any:
    """The largest of numbers from 0 on, 0 where there are none."""
    return (np.sum if count_along(values, axis) == 0 else np.max)(values, axis=axis)


def _singular_values(matrices: Any) -> Any:
    # The absolute value changes nothing but the derivative where a singular value is 0: it is 0.
    return np.abs(np.linalg.svdvals(matrices))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """np.linalg.vector_norm: of all elements, or of those along the axes."""
    x, ord = _inexact(x), as_number(ord, "ord")
    axes = _axes(x, tuple(range(np.ndim(x))) if axis is None else axis)
    return _of_vectors(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """np.linalg.matrix_norm: of the matrices of a stack."""
    return np.linalg.norm(x, axis=(-2, -1), keepdims=keepdims, ord=ord)


def cond(x: Any, p: Any = None) -> Any:
    """np.linalg.cond: the norm of x times that of its inverse; inf for a singular x."""
    p = as_number(p, "p")
    if p is None or p in (2, -2):
        values = np.linalg.svdvals(x)
        first, last = values[..., 0], values[..., -1]
        result = last / first if p == -2 else first / last
    else:
        x, axes = _inexact(x), (-2, -1)
        singular = np.linalg.slogdet(x)[0] == 0  # which LAPACK does not invert
        inverse = np.linalg.inv(
            np.where(np.expand_dims(singular, axes), np.linalg.matrix_power(x, 0), x)
        )
        result = np.linalg.norm(x, p, axis=axes) * np.linalg.norm(inverse, p, axis=axes)
        result = np.where(singular, np.inf, result)
    given = np.sum(x != x, axis=(-2, -1)) > 0
    return np.where(given, np.nan, np.where(result != result, np.inf, result))


NORMS: dict[Any, Callable[..., Any]] = {
    np.linalg.norm: norm,
    np.linalg.vector_norm: vector_norm,
    np.linalg.matrix_norm: matrix_norm,
    np.linalg.cond: cond,
}
