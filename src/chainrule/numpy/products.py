"""Products under NumPy's names: outer, inner, dot, tensordot, kron, cross and others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.explain_errors import shown
from chainrule.frontend.functions.elementwise import as_node, to_dtype
from chainrule.frontend.traced import Traced


def shape_error(what: str, *arrays: Any, hint: str) -> ShapeError:
    """An error about the shapes of arrays, traced or not."""
    trace = trace_of(arrays)
    if trace is None:
        return ShapeError(f"{what}: {' and '.join(shown(None, one) for one in arrays)}", hint=hint)
    of_nodes = " and ".join(trace.show(as_node(trace, array)) for array in arrays)
    return ShapeError(f"{what}: {of_nodes}", where=trace.where(), hint=hint)


def strong(a: Any) -> Any:
    """A Python number as NumPy's functions take it, an array that widens others; else a itself.

    Numbers of the traced program, its arguments or closed over, are such numbers, too."""
    if isinstance(a, Traced) and a.node.type.weak:
        return Traced(to_dtype(a.program, a.node, a.node.type.dtype), a.program)
    return np.asarray(a) if isinstance(a, (bool, int, float)) else a


def dot(a: Any, b: Any) -> Any:
    """np.dot: times a number, or summed over the last axis of a and the second-last of b."""
    a, b = strong(a), strong(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    if np.ndim(b) <= 2:
        return a @ b
    return np.tensordot(a, b, axes=((-1,), (-2,)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """np.tensordot, by way of einsum."""
    left, right = np.ndim(a), np.ndim(b)
    ours, theirs = _summed_axes(a, b, axes)
    if len(ours) != len(theirs):
        raise shape_error(
            f"np.tensordot: {len(ours)} axes of the first array, {len(theirs)} of the second",
            a,
            b,
            hint="name the axes in pairs: axes=([0, 1], [1, 0])",
        )
    for one, two in zip(ours, theirs, strict=True):
        _refuse_one("np.tensordot", a, one, b, two)
    letters = [*range(left)]
    others = [*range(left, left + right)]
    for one, two in zip(ours, theirs, strict=True):
        others[two] = letters[one]
    rest = [label for i, label in enumerate(letters) if i not in ours]
    rest += [label for i, label in enumerate(others) if i not in theirs]
    return np.einsum(a, letters, b, others, rest)


def _refuse_one(what: str, a: Any, left: int, b: Any, right: int) -> None:
    """Refuse to sum an axis of size 1 with a longer one, to which np.einsum would broadcast it."""
    if (np.shape(a)[left] == 1) != (np.shape(b)[right] == 1):
        raise shape_error(
            f"{what} sums axes of different sizes",
            a,
            b,
            hint=f"axis {left} of the first array and {right} of the second must be equal",
        ).resting_on((np.shape(a)[left], np.shape(b)[right]))


def _summed_axes(a: Any, b: Any, axes: Any) -> tuple[list[int], list[int]]:
    left, right = np.ndim(a), np.ndim(b)
    try:
        one, two = axes
    except TypeError:
        count = operator.index(axes)
        if not 0 <= count <= min(left, right):
            raise shape_error(
                f"np.tensordot(axes={count}) needs as many axes of each array",
                a,
                b,
                hint="no more axes can be summed than each array has",
            ) from None
        return [*range(left - count, left)], [*range(count)]
    return _axes(one, a), _axes(two, b)


def _axes(axes: Any, of: Any) -> list[int]:
    ndim = np.ndim(of)
    given = [operator.index(one) for one in (axes if np.iterable(axes) else (axes,))]
    places = [one + ndim if one < 0 else one for one in given]
    if any(not 0 <= place < ndim for place in places) or len(set(places)) != len(places):
        raise shape_error(
            f"np.tensordot: {given} are no axes of an array of {ndim}",
            of,
            hint="give each axis once; -1 is the last",
        )
    return places


def inner(a: Any, b: Any) -> Any:
    """np.inner: the sum over the last axes."""
    a, b = strong(a), strong(b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return np.tensordot(a, b, axes=((-1,), (-1,)))


def outer(a: Any, b: Any) -> Any:
    """np.outer: all products of two flattened arrays."""
    return np.einsum("i,j->ij", np.reshape(strong(a), -1), np.reshape(strong(b), -1))


def vdot(a: Any, b: Any) -> Any:
    """np.vdot: the sum of the products of all elements."""
    return np.reshape(strong(a), -1) @ np.reshape(strong(b), -1)


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """np.vecdot: the sum of products along one axis, which counts after broadcasting."""
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    _refuse_one("np.vecdot", x1, -1, x2, -1)
    return np.einsum("...i,...i->...", x1, x2)


def matvec(x1: Any, x2: Any) -> Any:
    """np.matvec: matrices times vectors, which broadcast as stacks."""
    if np.ndim(x2) == 1:
        return x1 @ x2
    _refuse_one("np.matvec", x1, -1, x2, -1)
    return np.einsum("...ij,...j->...i", x1, x2)


def vecmat(x1: Any, x2: Any) -> Any:
    """np.vecmat: vectors times matrices, which broadcast as stacks."""
    if np.ndim(x2) == 2:
        return x1 @ x2
    _refuse_one("np.vecmat", x1, -1, x2, -2)
    return np.einsum("...i,...ij->...j", x1, x2)


def kron(a: Any, b: Any) -> Any:
    """np.kron: each element of a times the whole of b."""
    a, b = strong(a), strong(b)
    left, right = np.ndim(a), np.ndim(b)
    if left == 0 or right == 0:
        return a * b
    one = (*(1,) * (right - left), *np.shape(a))
    two = (*(1,) * (left - right), *np.shape(b))
    a = np.reshape(a, [size for n in one for size in (n, 1)])
    b = np.reshape(b, [size for n in two for size in (1, n)])
    return np.reshape(a * b, [m * n for m, n in zip(one, two, strict=True)])


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """np.cross of vectors with three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if (np.shape(a)[-1], np.shape(b)[-1]) != (3, 3):
        raise shape_error(
            "np.cross needs vectors with three elements",
            a,
            b,
            hint="np.concatenate a 0 to vectors with two, or write x[0] * y[1] - x[1] * y[0]",
        )
    a0, a1, a2 = (a[..., i] for i in range(3))
    b0, b1, b2 = (b[..., i] for i in range(3))
    parts = (a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0)
    return np.stack(parts, axis=-1) if axisc == -1 else np.moveaxis(np.stack(parts), 0, axisc)


def polyval(p: Any, x: Any) -> Any:
    """np.polyval: p[0] x**(n-1) + ... + p[n-1], by Horner's rule."""
    if isinstance(p, (list, tuple)) and trace_of(p) is None:
        p = np.asarray(p)
    x = strong(x)
    y = np.zeros_like(x)
    for coefficient in p:
        y = y * x + coefficient
    return y


PRODUCTS: dict[Any, Callable[..., Any]] = {
    np.dot: dot,
    np.tensordot: tensordot,
    np.inner: inner,
    np.outer: outer,
    np.vdot: vdot,
    np.vecdot: vecdot,
    np.kron: kron,
    np.cross: cross,
    np.polyval: polyval,
}
for _name, _function in (("matvec", matvec), ("vecmat", vecmat)):
    if hasattr(np, _name):  # from NumPy 2.2 on
        PRODUCTS[getattr(np, _name)] = _function
