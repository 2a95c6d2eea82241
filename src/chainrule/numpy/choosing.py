"""NumPy functions that choose elements by conditions or by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, UnsupportedError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import as_node, common_shape, kind_of, lift
from chainrule.frontend.functions.shapes import common_dtype
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import promoted
from chainrule.numpy.of_arrays import (
    array_of,
    broadcast,
    positions_of,
    trace_among,
)
from chainrule.primitives.indexing import gather


def _conditions(trace: Trace, condlist: Any, what: str) -> list[Any]:
    found = [array_of(as_node(trace, one), trace) for one in condlist]
    for one in found:
        if one.dtype.kind != "b":
            raise DTypeError(
                f"{what}: the condition {trace.show(one.node)} is not boolean",
                where=trace.where(),
                hint="compare first (x > 0), or convert with .astype(bool)",
            )
    return found


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Of each place, the choice whose condition is the first to hold; else the default."""
    trace = trace_among(condlist, choicelist, [default])
    if len(condlist) != len(choicelist) or not len(condlist):
        raise InputError(
            f"np.select: {len(condlist)} conditions and {len(choicelist)} choices",
            where=trace.where(),
            hint="give one choice for each condition",
        )
    conditions = _conditions(trace, condlist, "np.select")
    kinds = [kind_of(lift(trace, one)) for one in (*choicelist, default)]
    dtype = promoted(*(kind if isinstance(kind, np.dtype) else kind(0) for kind in kinds))
    out = array_of(as_node(trace, default), trace).astype(dtype)
    for condition, choice in zip(reversed(conditions), reversed([*choicelist]), strict=True):
        out = np.where(condition, array_of(as_node(trace, choice), trace).astype(dtype), out)
    return out


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Of each place, the function whose condition is the last to hold.

    One function more is that for the places where none does.  The functions have to work element
    by element: they are called with whole arrays.
    """
    trace = trace_among(x, condlist)
    x = array_of(as_node(trace, x), trace)
    if _is_one(condlist, x):
        condlist = [condlist]
    conditions = _conditions(trace, condlist, "np.piecewise")
    if len(funclist) == len(conditions) + 1:
        none = ~conditions[0]
        for one in conditions[1:]:
            none = none & ~one
        conditions.append(none)
    if len(funclist) != len(conditions):
        raise InputError(
            f"np.piecewise: {len(conditions)} conditions and {len(funclist)} functions",
            where=trace.where(),
            hint="give one function for each condition, and optionally one for all other elements",
        )
    out = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        value = function(_inside(x, condition), *args, **kw) if callable(function) else function
        out = np.where(condition, array_of(as_node(trace, value), trace).astype(x.dtype), out)
    return out


def _is_one(condlist: Any, x: Any) -> bool:
    if isinstance(condlist, Traced):
        return condlist.ndim == min(x.ndim, 1)
    if isinstance(condlist, (bool, np.bool_)):
        return True
    return not isinstance(condlist[0], (list, np.ndarray, Traced)) and x.ndim != 0


def _inside(x: Any, condition: Any) -> Any:
    """x where the condition holds; elsewhere an element for which it does, so that a function
    meets no number outside of its domain."""
    if isinstance(x.size, int) and x.size == 0:
        return x
    condition = broadcast(condition, x.shape)
    flat, marks = np.reshape(x, -1), np.reshape(condition, -1)
    first = np.argmax(marks)
    some = np.where(marks[first], flat[first], np.asarray(1, x.dtype))
    return np.where(condition, x, some)


def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """Of each place, the choice whose number stands there."""
    trace = trace_among([a], choices)
    nodes = common_dtype(trace, [as_node(trace, one) for one in choices])
    number = array_of(as_node(trace, a), trace)
    if number.dtype.kind not in "biu" or mode not in MODES:
        raise UnsupportedError(
            f"np.choose({trace.show(number.node)}, mode={mode!r}) is not traced",
            where=trace.where(),
            hint='give integers, and mode="raise", "clip" or "wrap"',
        )
    number = limited(number.astype(np.int64), len(nodes), mode)
    shape = common_shape(trace, [number.node, *nodes], "np.choose")
    arrays = [broadcast(array_of(node, trace), shape) for node in nodes]
    # The numbers are read off their own list, which refuses those for which there is no choice.
    known = positions_of(trace, len(nodes))
    checked = trace.build(gather, as_node(trace, known), as_node(trace, number), wrap=False)
    number = broadcast(array_of(checked, trace), shape)
    *others, out = arrays if len(arrays) > 1 else (arrays[0], np.zeros_like(arrays[0]))
    for place in reversed(range(len(others))):
        out = np.where(number == place, others[place], out)
    return out


MODES = ("raise", "clip", "wrap")


def limited(indices: Any, length: Any, mode: str) -> Any:
    """Indices brought into an axis of this length: the nearest place, or around it."""
    if mode == "clip":
        return np.maximum(np.minimum(indices, length - 1), 0)
    return np.remainder(indices, length) if mode == "wrap" else indices


def take(a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """The elements at `indices` along an axis."""
    trace = trace_among([a], [indices])
    if mode not in MODES:
        raise InputError(
            f"np.take(mode={mode!r})", where=trace.where(), hint='use "raise", "clip" or "wrap"'
        )
    if indices is None:
        raise InputError("np.take(indices=None)", where=trace.where(), hint="give integers")
    if not isinstance(indices, Traced) and trace_of([indices]) is None:
        indices = np.asarray(indices)  # of a tuple, too, which as a key would name several axes
        indices = indices.astype(np.int64) if indices.dtype.kind == "b" else indices
    x = array_of(as_node(trace, a), trace)
    x, axis = (np.reshape(x, -1), 0) if axis is None else (x, axis)
    first = np.moveaxis(x, axis, 0)  # which refuses an axis that is not there
    first = first[limited(indices, first.shape[0], mode)]
    count, place = np.ndim(indices), axis % x.ndim
    return np.moveaxis(first, [*range(count)], [*range(place, place + count)])


def compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """The rows along an axis for which a known condition holds."""
    trace = trace_among([condition], [a])
    if isinstance(condition, Traced):
        raise UnsupportedError(
            "a traced condition would give an array whose shape depends on its values",
            where=trace.where(),
            hint="keep the shape and choose with np.where(condition, x, 0)",
        )
    return take(a, np.nonzero(np.asarray(condition))[0], axis)


CHOOSING: dict[Any, Callable[..., Any]] = {
    np.select: select,
    np.piecewise: piecewise,
    np.choose: choose,
    np.take: take,
    np.compress: compress,
    np.extract: lambda condition, arr: compress(
        condition if isinstance(condition, Traced) else np.ravel(condition), arr
    ),
}
