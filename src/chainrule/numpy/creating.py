"""NumPy functions that make arrays: between traced ends, or like another array."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, UnsupportedError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import as_node, kind_of, lift
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import as_dtype, dtype_kind, promoted
from chainrule.graph.plain import refuse_among
from chainrule.numpy.of_arrays import (
    array_of,
    broadcast,
    positions_of,
    shape_of,
    trace_among,
)
from chainrule.numpy.rearranging import axis_of
from chainrule.tracebacks import entry


def _count(trace: Trace, num: Any) -> int:
    count = operator.index(num)
    if count < 0:
        raise InputError(
            f"num={count} samples",
            where=trace.where(),
            hint="give a number of samples from 0 on",
        )
    return count


def _float_of(trace: Trace, values: tuple[Any, ...], dtype: Any) -> np.dtype:
    """The dtype of samples between these values."""
    if dtype is not None:
        wanted = as_dtype(dtype)
        if dtype_kind(wanted) == "f":
            return wanted
        raise UnsupportedError(
            f"samples of dtype {wanted} between traced ends",
            where=trace.where(),
            hint="take floats, and convert them with .astype(...)",
        )
    kinds = [kind_of(lift(trace, value)) for value in values]
    strong = [kind for kind in kinds if isinstance(kind, np.dtype)]
    found = promoted(*strong, 0.0) if strong else np.dtype(np.float64)
    return found if dtype_kind(found) == "f" else np.dtype(np.float64)


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers at equal distances from start to stop."""
    trace = trace_among(start, stop)
    count = _count(trace, num)
    wanted = _float_of(trace, (start, stop), dtype)
    inside = _float_of(trace, (start, stop), None)
    first, last = (array_of(as_node(trace, end), trace).astype(inside) for end in (start, stop))
    delta, parts = last - first, count - 1 if endpoint else count
    shape = np.broadcast_arrays(first, last)[0].shape
    places = np.reshape(positions_of(trace, count), (count, *(1,) * len(shape))).astype(inside)
    if parts > 0:
        step = delta / parts
        out = places * step + first
        if endpoint and count > 1:
            end = broadcast(np.expand_dims(last, 0), (1, *shape))
            out = np.concatenate([out[: count - 1], end])
    else:
        step = np.full_like(delta, np.nan)
        out = places * delta + first
    out = np.moveaxis(out, 0, axis).astype(wanted)
    return (out, step) if retstep else out


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from base**start to base**stop, whose logarithms have equal distances."""
    trace = trace_among(start, stop, base)
    if np.ndim(base) > 0:
        given = [array_of(as_node(trace, one), trace) for one in (start, stop, base)]
        start, stop, base = np.broadcast_arrays(*given)
        base = np.expand_dims(base, axis_of(np.expand_dims(base, 0), axis))
    if isinstance(start, Traced) or isinstance(stop, Traced):
        exponents = linspace(start, stop, num, endpoint, axis=axis)
    else:
        exponents = np.linspace(start, stop, num, endpoint, axis=axis)
    return np.power(base, exponents).astype(_float_of(trace, (start, stop, base), dtype))


def geomspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from start to stop, each the same multiple of the one before it."""
    trace = trace_among(start, stop)
    count = _count(trace, num)
    wanted = np.dtype(np.float64) if dtype is None else _float_of(trace, (), dtype)
    inside = promoted(_float_of(trace, (start, stop), None), wanted)
    ends = [array_of(as_node(trace, end), trace).astype(inside) for end in (start, stop)]
    first, last = np.broadcast_arrays(*ends)
    sign = np.sign(first)
    out = logspace(np.log10(first * sign), np.log10(last * sign), count, endpoint)
    rows = [np.expand_dims(first * sign, 0), out[1 : count - endpoint]]
    if endpoint:
        rows.append(np.expand_dims(last * sign, 0))
    out = np.concatenate(rows) if count > 1 else rows[0][:count]
    out = np.moveaxis(out * sign, 0, axis)
    return out.astype(wanted)


def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """One value in the shape and dtype of an array, or in others that are named."""
    trace = trace_among(a, fill_value)
    like = as_node(trace, a).type
    wanted = like.dtype if dtype is None else as_dtype(dtype)
    target = like.shape if shape is None else shape_of(shape)
    if type(fill_value) is int and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if not limits.min <= fill_value <= limits.max:
            raise DTypeError(
                f"np.full_like: the number {fill_value} does not fit {wanted}",
                where=trace.where(),
                hint=f"{wanted} holds {limits.min} to {limits.max}; give a wider dtype=",
            )
    value = array_of(as_node(trace, fill_value), trace).astype(wanted)
    return broadcast(value, target)


def _filled(value: float, doc: str) -> Callable[..., Any]:
    def function(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
        return full_like(a, value, dtype, shape=shape)

    function.__doc__ = doc
    return function


@entry
def array(object: Any, dtype: Any = None) -> Any:
    """`np.array` of nested lists in which traced arrays and numbers stand; else `np.array` itself.

    NumPy's own function takes no traced arrays: there is nothing by which it could ask them.
    """
    trace = trace_of([object])
    if trace is None:
        refuse_among([object], "cr.array")
        return np.array(object, dtype)
    outer = trace.site
    frame = trace.enter(sys._getframe(2)) if outer is None else None
    try:
        result = _nested(trace, object)
        result = result if dtype is None else result.astype(dtype)
    finally:
        trace.site = outer
    if outer is None:
        trace.name_result(result.node, frame)
    return result


def _nested(trace: Trace, value: Any) -> Any:
    if isinstance(value, Traced):
        return value
    if trace_of([value]) is None:
        refuse_among([value], "cr.array", trace.where())
        return array_of(as_node(trace, np.asarray(value)), trace)
    return np.stack([_nested(trace, one) for one in value])


CREATING: dict[Any, Callable[..., Any]] = {
    np.linspace: linspace,
    np.logspace: logspace,
    np.geomspace: geomspace,
    np.full_like: full_like,
    np.zeros_like: _filled(0, "Zeros in the shape of an array."),
    np.ones_like: _filled(1, "Ones in the shape of an array."),
    np.empty_like: _filled(0, "Zeros in the shape of an array."),
}
