"""Differences along an axis, and the slopes and integrals made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind, promoted
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.averages import dtype_of
from chainrule.numpy.rearranging import along
from chainrule.numpy.statistics import as_array
from chainrule.primitives.movement import slice_


def _axis_of(x: Any, axis: Any, asked: str) -> int:
    ndim = np.ndim(x)
    if not -ndim <= axis < ndim:
        refuse(
            ShapeError,
            (x,),
            f"{asked}: axis={axis} does not exist: {shown(x)} has {ndim} axes",
            f"give an integer from {-ndim} to {ndim - 1}" if ndim else "a number has no axes",
        )
    return axis % ndim


def _edge(a: Any, axis: int, value: Any) -> Any:
    """One number as an array that fits at an end of the axis."""
    shape = tuple(1 if i == axis else size for i, size in enumerate(np.shape(a)))
    if isinstance(value, Traced) or all(isinstance(size, int) for size in shape):
        return np.broadcast_to(value, shape)
    return np.full_like(_stretch(a, axis, 0, 1), value, dtype=dtype_of(value))


def _stretch(x: Any, axis: int, start: Any, length: Any) -> Any:
    """`length` elements along an axis from `start` on, which may be named sizes."""
    if isinstance(start, int) and isinstance(length, int) and isinstance(np.shape(x)[axis], int):
        return along(x, axis, slice(start, start + length))
    begin = tuple(start if i == axis else 0 for i in range(np.ndim(x)))
    shape = tuple(length if i == axis else size for i, size in enumerate(np.shape(x)))
    node = x.program.build(slice_, x.node, start=begin, step=(1,) * x.ndim, shape=shape)
    return Traced(node, x.program)


def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue
) -> Any:
    """np.diff: each element along an axis less the one before it, n times over."""
    if n < 0:
        refuse(InputError, (a,), f"np.diff: n={n}", "the order is 0 or more")
    if n == 0:
        return a
    place = _axis_of(a, axis, "np.diff")
    parts = [
        _edge(a, place, part) if np.ndim(part) == 0 else part
        for part in (prepend, a, append)
        if part is not np._NoValue
    ]
    x = np.concatenate(parts, axis=place) if len(parts) > 1 else a
    for _ in range(n):
        if np.shape(x)[place] == 0:
            return x
        later, earlier = along(x, place, slice(1, None)), along(x, place, slice(None, -1))
        x = later != earlier if dtype_of(x).kind == "b" else later - earlier
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """np.ediff1d: the differences of all elements in C order, with more at the ends."""
    row = np.reshape(ary, -1)
    ends = [None if one is None else np.ravel(as_array(one)) for one in (to_begin, to_end)]
    parts = [ends[0], row[1:] - row[:-1], ends[1]]
    for end in ends:
        if end is not None and not np.can_cast(dtype_of(end), dtype_of(row), "same_kind"):
            refuse(
                DTypeError,
                (row, end),
                f"np.ediff1d of {shown(row)} with {shown(end)} at an end",
                "values at the ends must fit the dtype of the array",
            )
    given = [part.astype(dtype_of(row)) for part in parts if part is not None]
    return np.concatenate(given) if len(given) > 1 else given[0]


def _spacings(f: Any, distances: tuple[Any, ...], axes: list[int]) -> list[Any]:
    """For each axis a distance, or the array of distances between its points."""
    if not distances:
        return [1.0] * len(axes)
    if len(distances) == 1 and np.ndim(distances[0]) == 0:
        return [distances[0]] * len(axes)
    if len(distances) != len(axes):
        refuse(
            InputError,
            (f, *distances),
            f"np.gradient: {len(distances)} spacings for {len(axes)} axes",
            "give one for all axes, or one for each",
        )
    found = []
    for one, axis in zip(distances, axes, strict=True):
        if np.ndim(one) == 0:
            found.append(one)
            continue
        if np.ndim(one) != 1 or np.shape(one)[0] != np.shape(f)[axis]:
            refuse(
                ShapeError,
                (f, *distances),
                f"np.gradient: the coordinates {shown(one)} of axis {axis} of {shown(f)}",
                "give one coordinate for each element of the axis",
            )
        if isinstance(one, (list, tuple)):
            one = np.asarray(one)
        if dtype_of(one).kind in "biu":
            one = one.astype(np.float64)
        steps = np.diff(one)
        if isinstance(steps, np.ndarray) and (steps == steps[0]).all():
            steps = steps[0]
        found.append(steps)
    return found


def _slopes(f: Any, axis: int, step: Any, edge_order: int) -> Any:
    """Central differences, and one-sided ones of first or second order at the two ends."""
    count = np.shape(f)[axis]

    def at(start: Any, length: Any = 1) -> Any:
        return _stretch(f, axis, start, length)

    is_even = np.ndim(step) == 0
    if is_even:
        middle = (at(2, count - 2) - at(0, count - 2)) / (2.0 * step)
        first = last = step
    else:
        shape = tuple(-1 if i == axis else 1 for i in range(np.ndim(f)))
        before, after = np.reshape(step[:-1], shape), np.reshape(step[1:], shape)
        middle = (
            -(after) / (before * (before + after)) * at(0, count - 2)
            + (after - before) / (before * after) * at(1, count - 2)
            + before / (after * (before + after)) * at(2, count - 2)
        )
        first, last = step[0], step[-1]
    if edge_order == 1:
        begin, end = (at(1) - at(0)) / first, (at(count - 1) - at(count - 2)) / last
    elif is_even:
        begin = (-1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2)) / step
        end = (0.5 * at(count - 3) - 2.0 * at(count - 2) + 1.5 * at(count - 1)) / step
    else:
        h, k = step[0], step[1]
        begin = -(2.0 * h + k) / (h * (h + k)) * at(0) + (h + k) / (h * k) * at(1)
        begin = begin - h / (k * (h + k)) * at(2)
        h, k = step[-2], step[-1]
        end = k / (h * (h + k)) * at(count - 3) - (k + h) / (h * k) * at(count - 2)
        end = end + (2.0 * k + h) / (k * (h + k)) * at(count - 1)
    slopes = np.concatenate([begin, middle, end], axis=axis)
    return slopes.astype(dtype_of(f) if dtype_kind(dtype_of(f)) == "f" else np.float64)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """np.gradient: slopes by central differences; distances or coordinates may be traced too."""
    f = as_array(f)
    f = f.astype(np.float64) if dtype_of(f).kind in "iu" else f
    given = range(np.ndim(f)) if axis is None else axis
    given = given if isinstance(given, (range, tuple, list)) else (given,)
    axes = [_axis_of(f, one, "np.gradient") for one in given]
    if edge_order not in (1, 2):
        refuse(InputError, (f,), f"np.gradient: edge_order={edge_order}", "it is 1 or 2")
    spacings = _spacings(f, varargs, axes)
    for one in axes:
        room = np.shape(f)[one] - (edge_order + 1)
        text = f"np.gradient(edge_order={edge_order}) along axis {one} of {shown(f)}"
        if isinstance(room, Size):
            f.program.require(room, False, f"{text} needs at least {edge_order + 1} elements")
        elif room < 0:
            refuse(ShapeError, (f,), text, f"at least {edge_order + 1} elements are needed")
    found = [_slopes(f, one, step, edge_order) for one, step in zip(axes, spacings, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """np.trapezoid: the integral by the trapezoidal rule."""
    y = as_array(y)
    place = _axis_of(y, axis, "np.trapezoid")
    x = None if x is None else as_array(x)
    width = dx
    if x is not None and np.ndim(x) == 1:
        width = np.diff(x)
        width = np.reshape(width, tuple(-1 if i == place else 1 for i in range(np.ndim(y))))
    elif x is not None:
        width = np.diff(x, axis=axis)
    heights = along(y, place, slice(1, None)) + along(y, place, slice(None, -1))
    return np.sum(width * heights / 2.0, axis=place)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """np.unwrap: multiples of the period added, so that no step is longer than half of it."""
    place = _axis_of(p, axis, "np.unwrap")
    steps = np.diff(p, axis=place)
    dtype = promoted(dtype_of(steps), period)
    half, rest = divmod(period, 2) if dtype.kind in "iu" else (period / 2, 0)
    low = -half
    wrapped = np.remainder(steps - low, period) + low
    if rest == 0:
        wrapped = np.where((wrapped == low) & (steps > 0), half, wrapped)
    limit = half if discont is None else discont
    added = np.where(np.abs(steps) < limit, 0, wrapped - steps)
    first = along(p, place, slice(None, 1))
    later = along(p, place, slice(1, None)) + np.cumsum(added, axis=place)
    return np.concatenate([first.astype(dtype), later.astype(dtype)], axis=place)


DIFFERENCES: dict[Any, Callable[..., Any]] = {
    np.diff: diff,
    np.ediff1d: ediff1d,
    np.gradient: gradient,
    np.trapezoid: trapezoid,
    np.unwrap: unwrap,
}
