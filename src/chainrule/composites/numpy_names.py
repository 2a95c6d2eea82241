"""NumPy functions that are composites, and the whole table of what is traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.composites import statistics
from chainrule.errors import InputError, ShapeError
from chainrule.frontend.functions import FUNCTIONS
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced, wrap
from chainrule.graph.node import Node


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """a limited to [a_min, a_max]; where it equals a limit both share the derivative."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if low is None and high is None:
        raise InputError("np.clip needs a lower or an upper limit", hint="np.clip(x, 0, 1)")
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def dot(a: Any, b: Any) -> Any:
    """np.dot: times a number, or summed over the last axis of a and the second-last of b."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    if np.ndim(b) <= 2:
        return a @ b
    return np.tensordot(a, b, axes=((-1,), (-2,)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """np.tensordot, by way of einsum."""
    left, right = np.ndim(a), np.ndim(b)
    if isinstance(axes, int):
        if axes > min(left, right):
            raise ShapeError(
                f"np.tensordot(axes={axes}): the arrays have {left} and {right} axes",
                hint="no more axes can be summed than each array has",
            )
        pairs = ([*range(left - axes, left)], [*range(axes)])
    else:
        pairs = tuple([*one] if isinstance(one, (tuple, list)) else [one] for one in axes)
    letters = [chr(97 + i) for i in range(left)]
    others = [chr(65 + i) for i in range(right)]
    used_left = [axis % left for axis in pairs[0]]
    used_right = [axis % right for axis in pairs[1]]
    for one, two in zip(used_left, used_right, strict=True):
        others[two] = letters[one]
    rest = [c for i, c in enumerate(letters) if i not in used_left]
    rest += [c for i, c in enumerate(others) if i not in used_right]
    return np.einsum(f"{''.join(letters)},{''.join(others)}->{''.join(rest)}", a, b)


def inner(a: Any, b: Any) -> Any:
    """np.inner: the sum over the last axes."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return np.tensordot(a, b, axes=((-1,), (-1,)))


def outer(a: Any, b: Any) -> Any:
    """np.outer: all products of two flattened arrays."""
    return np.einsum("i,j->ij", np.reshape(a, -1), np.reshape(b, -1))


def vdot(a: Any, b: Any) -> Any:
    """np.vdot: the sum of the products of all elements."""
    return np.reshape(a, -1) @ np.reshape(b, -1)


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    """np.take: the elements at `indices` along an axis."""
    if axis is None:
        return np.reshape(a, -1)[indices]
    first = np.moveaxis(a, axis, 0)[indices]  # moveaxis refuses an axis that is not there
    count, place = np.ndim(indices), axis % np.ndim(a)
    return np.moveaxis(first, [*range(count)], [*range(place, place + count)])


def logaddexp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    x1, x2 = x1 + 0.0, x2 + 0.0  # integers and booleans become floats, as NumPy has it
    first = x1 > x2
    high, low = np.where(first, x1, x2), np.where(first, x2, x1)
    shift = np.where(np.abs(high) < np.inf, high, 0)  # inf - inf would be NaN
    return high + np.log1p(np.exp(low - shift))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """np.split: consecutive parts along an axis."""
    length = np.shape(ary)[axis]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        ends = [*indices_or_sections, length]
    else:
        part, rest = divmod(length, indices_or_sections)
        if rest:
            raise InputError(
                f"np.split: an axis of length {length} has no {indices_or_sections} equal parts",
                hint="give the positions at which to split",
            )
        ends = [part * (i + 1) for i in range(indices_or_sections)]
    before = (slice(None),) * (axis % np.ndim(ary))
    starts = [0, *ends[:-1]]
    return [ary[(*before, slice(a, b))] for a, b in zip(starts, ends, strict=True)]


def hstack(tup: Any) -> Any:
    """np.hstack: along the second axis, or the first of arrays that have one axis or none."""
    parts = [np.reshape(x, -1) if np.ndim(x) == 0 else x for x in tup]
    return np.concatenate(parts, axis=min(1, np.ndim(parts[0]) - 1))


COMPOSITES: dict[Any, Callable[..., Any]] = {
    np.mean: statistics.mean,
    np.var: statistics.var,
    np.std: statistics.std,
    np.linalg.norm: statistics.norm,
    np.clip: clip,
    np.dot: dot,
    np.tensordot: tensordot,
    np.inner: inner,
    np.outer: outer,
    np.vdot: vdot,
    np.take: take,
    np.split: split,
    np.logaddexp: logaddexp,
    np.square: lambda x: x**2,
    np.reciprocal: lambda x: 1 / x,
    np.log2: lambda x: np.log(x) * (1 / math.log(2)),
    np.log10: lambda x: np.log(x) * (1 / math.log(10)),
    np.exp2: lambda x: np.exp(x * math.log(2)),
    np.hstack: hstack,
    np.vstack: lambda tup: np.concatenate(
        [np.reshape(x, (1, -1)) if np.ndim(x) < 2 else x for x in tup]
    ),
}


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Traced):
        return value.node
    if isinstance(value, (list, tuple)):
        return type(value)([_unwrapped(item) for item in value])
    return value


def _on_nodes(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        given = [wrap(trace, arg) if isinstance(arg, Node) else arg for arg in args]
        return _unwrapped(function(*given, **kwargs))

    return traced


TABLE: dict[Any, Callable[..., Any]] = {
    **FUNCTIONS,
    **{name: _on_nodes(function) for name, function in COMPOSITES.items()},
}
