"""NumPy functions that move or repeat the elements of an array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError, UnsupportedError
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.functions.shapes import axes_of, axis_index
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.of_arrays import (
    array_of,
    broadcast,
    count_of,
    shape_of,
    trace_among,
)


def along(x: Any, axis: int, chosen: slice) -> Any:
    """A slice of one axis."""
    return x[(slice(None),) * axis + (chosen,)]


def require_length(trace: Trace, length: Any, least: Any, what: str) -> None:
    """Note that an axis has to be this long, where a named size decides it."""
    if sizes.is_nonnegative(length - least) is None:
        trace.require(length - least, False, f"{what} needs an axis of at least {least} elements")


def axis_of(x: Any, axis: Any, what: str = "axis") -> int:
    """A non-negative axis of a traced array, or a refusal."""
    trace = trace_among(x)
    return axis_index(trace, axis, as_node(trace, x), what)


def _shifted(x: Any, shift: Any, axis: int) -> Any:
    trace, length = trace_among(x), x.shape[axis]
    shift = count_of(shift)
    if isinstance(length, int) and isinstance(shift, int):
        shift = shift % length if length else 0
    if isinstance(shift, int) and shift == 0:
        return x
    if sizes.is_nonnegative(shift) is False:
        require_length(trace, length, -shift, "np.roll")
        shift = length + shift
    require_length(trace, length, shift, "np.roll")
    first = along(x, axis, slice(length - shift, length))
    return np.concatenate([first, along(x, axis, slice(0, length - shift))], axis)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements moved on by `shift` places, from the end of an axis to its beginning."""
    if axis is None:
        return np.reshape(roll(np.reshape(a, -1), shift, 0), a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = [*shift] if isinstance(shift, (tuple, list, np.ndarray)) else [shift]
    if len(shifts) == 1 or len(axes) == 1:
        count = max(len(shifts), len(axes))
        shifts, axes = shifts * (count // len(shifts)), [*axes] * (count // len(axes))
    if len(shifts) != len(axes):
        raise ShapeError(
            f"np.roll: {len(shifts)} shifts of {len(axes)} axes",
            where=trace_among(a).where(),
            hint="give one shift for each axis",
        )
    for one, place in zip(shifts, axes, strict=True):
        a = _shifted(a, one, axis_of(a, place))
    return a


def flip(m: Any, axis: Any = None) -> Any:
    """The elements in reverse order along axes."""
    trace = trace_among(m)
    axes = axes_of(trace, axis, as_node(trace, m))
    return m[tuple(slice(None, None, -1 if i in axes else None) for i in range(m.ndim))]


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """An array turned by 90 degrees in the plane of two axes, k times."""
    first, second = (axis_of(m, axis, "axes") for axis in axes)
    if first == second:
        raise ShapeError(
            f"np.rot90: axes={tuple(axes)} are one axis",
            where=trace_among(m).where(),
            hint="name two axes",
        )
    turns = operator.index(k) % 4
    if turns == 0:
        return m
    if turns == 2:
        return flip(m, (first, second))
    turned = flip(m, second) if turns == 1 else m
    turned = np.swapaxes(turned, first, second)
    return turned if turns == 1 else flip(turned, second)


def tile(A: Any, reps: Any) -> Any:
    """The array laid side by side, `reps` times along each axis."""
    counts = shape_of(reps)
    shape = (1,) * (len(counts) - A.ndim) + A.shape
    counts = (1,) * (len(shape) - len(counts)) + counts
    pairs = [*zip(counts, shape, strict=True)]
    once = np.reshape(A, tuple(size for _, length in pairs for size in (1, length)))
    many = broadcast(once, tuple(size for pair in pairs for size in pair))
    return np.reshape(many, tuple(count * length for count, length in pairs))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element, or each row along an axis, as often as `repeats` says."""
    if isinstance(repeats, Traced) and repeats.node not in repeats.program.scalars:
        raise UnsupportedError(
            "np.repeat with traced repeats would give an array whose shape depends on its values",
            where=repeats.program.where(),
            hint="use a number or a NumPy array of numbers that is known while tracing",
        )
    if axis is None:
        a, axis = np.reshape(a, -1), 0
    place = axis_of(a, axis)
    if not isinstance(repeats, (Size, Traced)) and np.size(repeats) != 1:
        return np.take(a, _repeated(a, repeats, place), axis=place)
    one = repeats if isinstance(repeats, (Size, Traced)) else np.ravel(repeats)[0]
    count = count_of(one)
    if isinstance(count, int) and count < 0:
        raise InputError(
            f"np.repeat: {count} times", where=a.program.where(), hint="give a number from 0 on"
        )
    before, length, after = a.shape[:place], a.shape[place], a.shape[place + 1 :]
    many = broadcast(np.expand_dims(a, place + 1), (*before, length, count, *after))
    return np.reshape(many, (*before, length * count, *after))


def _repeated(a: Any, repeats: Any, axis: int) -> np.ndarray:
    length = a.shape[axis]
    if len(repeats) != length:
        raise ShapeError(
            f"np.repeat: {len(repeats)} repeats for an axis of {length} elements",
            where=a.program.where(),
            hint="give one number, or one for each element of an axis of known length",
        )
    return np.repeat(np.arange(length), repeats)


def resize(a: Any, new_shape: Any) -> Any:
    """An array of another shape, filled with the elements of `a` over and over."""
    shape = shape_of(new_shape)
    flat, size = np.reshape(a, -1), sizes.product(shape)
    if isinstance(flat.size, int) and flat.size == 0:
        return np.zeros_like(a, shape=shape)
    return np.reshape(tile(flat, -(-size // flat.size))[:size], shape)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved to stand before the one at `start`."""
    place, count, start = axis_of(a, axis), np.ndim(a), operator.index(start)
    first = start + count if start < 0 else start
    if not 0 <= first <= count:
        raise ShapeError(
            f"np.rollaxis: start={start} for an array of {count} axes",
            where=trace_among(a).where(),
            hint=f"give an integer from {-count} to {count}",
        )
    return np.moveaxis(a, place, first - 1 if place < first else first)


def _at_least(widen: Callable[[Any], Any], doc: str) -> Callable[..., Any]:
    def function(*arys: Any) -> Any:
        trace = trace_among(*arys)
        wide = tuple(widen(array_of(as_node(trace, one), trace)) for one in arys)
        return wide[0] if len(wide) == 1 else wide

    function.__doc__ = doc
    return function


def _three(x: Any) -> Any:
    if x.ndim == 2:
        return np.expand_dims(x, 2)
    return np.reshape(x, (1, -1, 1)) if x.ndim < 2 else x


atleast_1d = _at_least(lambda x: np.reshape(x, (1,)) if x.ndim == 0 else x, "Numbers as vectors.")
atleast_2d = _at_least(
    lambda x: np.reshape(x, (1, -1)) if x.ndim < 2 else x, "Numbers and vectors as one row."
)
atleast_3d = _at_least(_three, "Arrays of fewer axes with further ones of length 1.")

REARRANGING: dict[Any, Callable[..., Any]] = {
    np.roll: roll,
    np.flip: flip,
    np.fliplr: lambda m: flip(m, axis_of(m, 1)),
    np.flipud: lambda m: flip(m, axis_of(m, 0)),
    np.rot90: rot90,
    np.tile: tile,
    np.repeat: repeat,
    np.resize: resize,
    np.rollaxis: rollaxis,
    np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d,
    np.atleast_3d: atleast_3d,
}
