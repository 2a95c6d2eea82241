"""NumPy functions that split arrays along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.rearranging import along, axis_of

MOST_PARTS = 2**16


def _parts(ary: Any, ends: Any, axis: int) -> list[Any]:
    starts = [0, *ends[:-1]]
    return [along(ary, axis, slice(a, b)) for a, b in zip(starts, ends, strict=True)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Consecutive parts along an axis: as many equal ones, or those between positions."""
    place = axis_of(ary, axis)
    length = ary.shape[place]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        return _parts(ary, [*indices_or_sections, length], place)
    count = operator.index(indices_or_sections)
    if not 0 < count <= MOST_PARTS:
        raise InputError(
            f"np.split into {count} parts",
            where=ary.program.where(),
            hint=f"each part is a node of the graph: from 1 to {MOST_PARTS}",
        )
    part = length // count
    rest = length - part * count
    trace, text = ary.program, f"np.split: an axis of length {length} has no {count} equal parts"
    if isinstance(rest, Size):
        trace.require(rest, True, text)
    elif rest:
        raise InputError(text, where=trace.where(), hint="give the positions at which to split")
    return _parts(ary, [*(part * (i + 1) for i in range(count - 1)), length], place)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """As np.split; the first of several parts may be longer by one element."""
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        return split(ary, indices_or_sections, axis)
    place = axis_of(ary, axis)
    length, count = ary.shape[place], operator.index(indices_or_sections)
    if isinstance(length, Size) or not 0 < count <= MOST_PARTS:
        return split(ary, indices_or_sections, axis)
    part, rest = divmod(length, count)
    ends = [part * (i + 1) + min(i + 1, rest) for i in range(count)]
    return _parts(ary, ends, place)


def _split_along(name: str, axis: int, least: int) -> Callable[[Any, Any], Any]:
    def function(ary: Any, indices_or_sections: Any) -> Any:
        place = 0 if axis == 1 and ary.ndim == 1 else axis
        if ary.ndim < least:
            raise InputError(
                f"np.{name} of {ary.program.show(ary.node)}, which has {ary.ndim} axes",
                where=ary.program.where(),
                hint=f"it takes arrays of {least} or more axes",
            )
        return split(ary, indices_or_sections, place)

    function.__doc__ = f"np.{name}: np.split along the axis {axis}."
    return function


def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The parts of length 1 along an axis, without this axis."""
    return tuple(np.moveaxis(x, axis, 0))


SPLITTING: dict[Any, Callable[..., Any]] = {
    np.split: split,
    np.array_split: array_split,
    np.hsplit: _split_along("hsplit", 1, 1),
    np.vsplit: _split_along("vsplit", 0, 2),
    np.dsplit: _split_along("dsplit", 2, 3),
    np.unstack: unstack,
}
