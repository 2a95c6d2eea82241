"""`np.pad`: a border of constants, or of elements chosen by the mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError, UnsupportedError
from chainrule.frontend.functions.elementwise import as_node, to_dtype
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.numpy.of_arrays import (
    array_of,
    broadcast,
    count_of,
    trace_among,
)
from chainrule.numpy.rearranging import along, require_length
from chainrule.primitives.movement import pad as pad_with_zeros

OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
}
MOST_PLACES = 2**24
EXTREMES = {"maximum": np.max, "minimum": np.min, "mean": np.mean}


def pairs_of(x: Any, values: Any, count: int, what: str) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, from a number, a pair, or a pair for each axis."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, (tuple, list)):
        return [(values, values)] * count
    if not any(isinstance(one, (tuple, list, np.ndarray)) for one in values):
        rows = [tuple(values) * (2 if len(values) == 1 else 1)]
    else:
        rows = [(*row,) * (2 if len(row) == 1 else 1) for row in values]
    if any(len(row) != 2 for row in rows) or len(rows) not in (1, count):
        raise ShapeError(
            f"np.pad: {what}={values!r} for an array of {count} axes",
            where=x.program.where(),
            hint="give a number, a pair, or a pair for each axis",
        )
    return [(row[0], row[1]) for row in rows] * (count if len(rows) == 1 else 1)


def _widths(x: Any, pad_width: Any) -> list[tuple[Any, Any]]:
    count = x.ndim
    if isinstance(pad_width, dict):
        given = {
            axis % count: pairs_of(x, one, 1, "pad_width")[0] for axis, one in pad_width.items()
        }
        pad_width = [given.get(axis, (0, 0)) for axis in range(count)]
    widths = [
        (count_of(before), count_of(after))
        for before, after in pairs_of(x, pad_width, count, "pad_width")
    ]
    if any(isinstance(one, int) and one < 0 for pair in widths for one in pair):
        raise InputError(
            f"np.pad: pad_width={pad_width!r} has a negative number",
            where=x.program.where(),
            hint="remove elements with a slice, x[1:]",
        )
    return widths


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The array with a border around it: numbers, or elements as the mode says."""
    x = array_of(as_node(trace_among(array), array), array.program)
    widths = _widths(x, pad_width)
    known = OPTIONS.get(mode, "") if isinstance(mode, str) else ""
    for option in kwargs:
        if option != known:
            raise UnsupportedError(
                f"np.pad(mode={mode!r}, {option}=...) is not traced",
                where=x.program.where(),
                hint=f"leave {option}= out",
            )
    if mode == "constant":
        return _with_numbers(x, widths, pairs_of(x, kwargs.get(known, 0), x.ndim, known))
    if mode == "linear_ramp":
        ends = pairs_of(x, kwargs.get(known, 0), x.ndim, known)
        return _by_axis(x, widths, lambda axis, x: _ramp(x, axis, widths[axis], ends[axis]))
    if mode in EXTREMES:
        reduce = EXTREMES[mode]
        return _by_axis(x, widths, lambda axis, x: _level(x, axis, widths[axis], reduce))
    if mode in BORDERS and kwargs.get("reflect_type", "even") == "even":
        return _by_axis(x, widths, lambda axis, x: _mirrored(x, axis, widths[axis], mode))
    raise UnsupportedError(
        f"np.pad(mode={mode!r}{', reflect_type=...' if kwargs else ''}) is not traced",
        where=x.program.where(),
        hint="use constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum or mean",
    )


def _by_axis(x: Any, widths: Any, widen: Callable[[int, Any], Any]) -> Any:
    for axis, pair in enumerate(widths):
        if pair != (0, 0):
            x = widen(axis, x)
    return x


def _with_numbers(x: Any, widths: Any, values: Any) -> Any:
    if all(not isinstance(one, Traced) and one == 0 for pair in values for one in pair):
        shape = tuple(a + size + b for size, (a, b) in zip(x.shape, widths, strict=True))
        start = tuple(before for before, _ in widths)
        node = x.program.build(pad_with_zeros, x.node, start=start, step=(1,) * x.ndim, shape=shape)
        return array_of(node, x.program)

    def widen(axis: int, x: Any) -> Any:
        return _between(x, axis, widths[axis], values[axis])

    return _by_axis(x, widths, widen)


def _between(x: Any, axis: int, widths: Any, values: Any) -> Any:
    """x between blocks of these widths, to whose shape the values broadcast."""
    blocks = []
    for width, value in zip(widths, values, strict=True):
        node = to_dtype(x.program, as_node(x.program, value), x.dtype)
        shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        blocks.append(broadcast(array_of(node, x.program), shape))
    kept = [one for one, width in zip(blocks, widths, strict=True) if width != 0]
    parts = [x] if not kept else [blocks[0], x, blocks[1]]
    return np.concatenate([one for one in parts if one is x or any(one is k for k in kept)], axis)


def _level(x: Any, axis: int, widths: Any, reduce: Callable[..., Any]) -> Any:
    if reduce is np.mean and dtype_kind(x.dtype) != "f":
        raise UnsupportedError(
            f'np.pad(mode="mean") of {x.program.show(x.node)}',
            where=x.program.where(),
            hint="convert it with .astype(float) first",
        )
    level = reduce(x, axis=axis, keepdims=True)
    return _between(x, axis, widths, (level, level))


def _ramp(x: Any, axis: int, widths: Any, ends: Any) -> Any:
    first, last = along(x, axis, slice(0, 1)), along(x, axis, slice(-1, None))
    blocks = []
    for edge, width, end in zip((first, last), widths, ends, strict=True):
        start = broadcast(array_of(as_node(x.program, end), x.program), edge.shape)
        ramp = np.linspace(start, edge, width, endpoint=False, axis=axis)
        ramp = np.squeeze(ramp, axis + 1)
        blocks.append((np.floor(ramp) if x.dtype.kind in "iu" else ramp).astype(x.dtype))
    after = blocks[1][(slice(None),) * axis + (slice(None, None, -1),)]
    return np.concatenate([blocks[0], x, after], axis)


BORDERS = {  # mode -> how much longer than the border an axis has to be
    "edge": None,
    "reflect": 1,
    "symmetric": 0,
    "wrap": 0,
}


def _mirrored(x: Any, axis: int, widths: Any, mode: str) -> Any:
    length = x.shape[axis]
    if isinstance(length, int) and all(isinstance(one, int) for one in widths):
        if max(widths) > MOST_PLACES:
            raise InputError(
                f"np.pad(mode={mode!r}) by {max(widths)} elements",
                where=x.program.where(),
                hint=f"their indices are a constant of the graph: at most {MOST_PLACES} on a side",
            )
        # NumPy's stubs want the mode as a literal; it is one of BORDERS.
        places = np.pad(np.arange(length), widths, mode=mode)  # type: ignore[call-overload]
        return np.take(x, places, axis=axis)
    least, (before, after) = BORDERS[mode], widths
    if least is None:
        first, last = along(x, axis, slice(0, 1)), along(x, axis, slice(length - 1, length))
        return _between(x, axis, widths, (first, last))
    for width in widths:
        require_length(x.program, length, width + least, f"np.pad(mode={mode!r})")
    if mode == "wrap":
        first, last = slice(length - before, length), slice(0, after)
        ends = along(x, axis, first), along(x, axis, last)
    else:
        first, last = slice(least, least + before), slice(length - least - after, length - least)
        ends = np.flip(along(x, axis, first), axis), np.flip(along(x, axis, last), axis)
    return np.concatenate([ends[0], x, ends[1]], axis)


PADDING: dict[Any, Callable[..., Any]] = {np.pad: pad}
