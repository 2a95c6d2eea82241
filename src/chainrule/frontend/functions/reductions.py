"""NumPy's reductions and cumulative functions on traced arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, ShapeError
from chainrule.frontend.functions.dispatch import dispatch
from chainrule.frontend.functions.elementwise import apply, as_node, lift, literal, to_dtype
from chainrule.frontend.functions.shapes import (
    Axes,
    axes_of,
    axis_index,
    keep_axes,
    traced_broadcast_to,
    traced_concatenate,
    traced_reshape,
)
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import as_dtype, dtype_kind
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, cumulative, logic, reduce
from chainrule.primitives.movement import reshape
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products_of_elements import prod
from chainrule.primitives.sources import uniform

BOOL = np.dtype(np.bool_)


def strong(trace: Trace, a: Any) -> Node:
    """The operand as a node whose dtype is not weak: a number is an array here."""
    x = as_node(trace, a)
    return to_dtype(trace, x, x.type.dtype)


def reduced_axes(trace: Trace, axis: Axes, x: Node) -> tuple[int, ...]:
    """The axes of x that a reduction takes; an array without axes has axis 0, as in NumPy."""
    return () if x.ndim == 0 and axis in (0, -1) else axes_of(trace, axis, x)


def in_accumulator(trace: Trace, a: Any, dtype: Any) -> Node:
    """The operand in `dtype`, or in that in which NumPy sums: the platform's for small integers."""
    x = as_node(trace, a)
    wanted = x.type.dtype
    if dtype is not None:
        wanted = as_dtype(dtype)
    elif wanted.kind in "biu":
        wanted = np.sum(np.zeros(0, wanted)).dtype
    if dtype is not None and wanted.kind == "b" != x.type.dtype.kind:
        return truth(trace, x)
    return to_dtype(trace, x, wanted)


def truth(trace: Trace, a: Any) -> Node:
    """Whether each element is not 0."""
    x = as_node(trace, a)
    if x.type.dtype == BOOL:
        return x
    zero = 0.0 if dtype_kind(x.type.dtype) == "f" else 0
    return apply(trace, logic.not_equal, "!=", [x, zero], x.type.dtype, x.type.weak)


def filled(trace: Trace, value: Any, dtype: np.dtype, shape: Any = ()) -> Node:
    """A uniform array in this trace."""
    node = uniform(value, dtype, shape)
    return trace.build(node.primitive, **dict(node.params))


def chosen(trace: Trace, x: Node, where: Any, neutral: Any) -> Node:
    """x where the mask holds, else what changes nothing in the reduction."""
    if where is True or where is np._NoValue:
        return x
    mask = as_node(trace, where)
    if mask.type.dtype != BOOL:
        raise DTypeError(
            f"where= is {trace.show(mask)}",
            where=trace.where(),
            hint="give a mask of booleans, for instance where=x > 0",
        )
    mask = traced_broadcast_to(trace, mask, x.type.shape)
    other = filled(trace, neutral, x.type.dtype)
    return trace.functions[np.where](trace, mask, x, other)


def with_initial(trace: Trace, primitive: Primitive, out: Node, initial: Any) -> Node:
    """The result together with one more operand, which takes its dtype."""
    if initial is None or initial is np._NoValue:
        return out
    dtype = out.type.dtype
    given = lift(trace, initial)
    more = (
        to_dtype(trace, given, dtype)
        if isinstance(given, Node)
        else literal(trace, given, dtype, (), False)
    )
    return apply(trace, primitive, "initial=", [out, more], dtype, False)


def _folded(primitive: Primitive, step: Primitive, neutral: int) -> Callable[..., Node]:
    def traced(
        trace: Trace,
        a: Any,
        axis: Axes = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Node:
        x = chosen(trace, in_accumulator(trace, a, dtype), where, neutral)
        axes = reduced_axes(trace, axis, x)
        result = with_initial(trace, step, trace.build(primitive, x, axes=axes), initial)
        return keep_axes(trace, result, x.type.shape, axes, keepdims)

    return traced


def _least(dtype: np.dtype) -> Any:
    kind = dtype_kind(dtype)
    return {"f": -np.inf, "b": False}.get(kind) if kind in "fb" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype) -> Any:
    kind = dtype_kind(dtype)
    return {"f": np.inf, "b": True}.get(kind) if kind in "fb" else np.iinfo(dtype).max


def _extreme(
    primitive: Primitive, step: Primitive, neutral: Callable[[np.dtype], Any]
) -> Callable[..., Node]:
    def traced(
        trace: Trace,
        a: Any,
        axis: Axes = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Node:
        x = strong(trace, a)
        begins = initial is not None and initial is not np._NoValue
        if where is not True and not begins:
            raise ShapeError(
                f"np.{primitive.name}(where=...) of {trace.show(x)} without initial=",
                where=trace.where(),
                hint="the mask may select no element: give the result for that with initial=",
            )
        x = chosen(trace, x, where, neutral(x.type.dtype))
        axes = reduced_axes(trace, axis, x)
        kept = tuple(size for i, size in enumerate(x.type.shape) if i not in axes)
        empty = [i for i in axes if x.type.shape[i] == 0]
        if empty and not begins:
            raise ShapeError(
                f"np.{primitive.name} over axis {empty[0]} of {trace.show(x)}, which has no "
                "elements",
                where=trace.where(),
                hint="the largest and smallest of nothing do not exist",
            )
        if empty:
            result = filled(trace, neutral(x.type.dtype), x.type.dtype, kept)
        else:
            result = trace.build(primitive, x, axes=axes)
        result = with_initial(trace, step, result, initial)
        return keep_axes(trace, result, x.type.shape, axes, keepdims)

    return traced


def _truths(primitive: Primitive, neutral: bool) -> Callable[..., Node]:
    def traced(
        trace: Trace,
        a: Any,
        axis: Axes = None,
        out: None = None,
        keepdims: bool = False,
        where: Any = True,
    ) -> Node:
        x = chosen(trace, truth(trace, a), where, neutral)
        axes = reduced_axes(trace, axis, x)
        result = trace.build(primitive, x, axes=axes)
        return keep_axes(trace, result, x.type.shape, axes, keepdims)

    return traced


def traced_count_nonzero(trace: Trace, a: Any, axis: Axes = None, *, keepdims: bool = False) -> Any:
    """np.count_nonzero."""
    return _folded(reduce.sum_, arithmetic.add, 0)(trace, truth(trace, a), axis, keepdims=keepdims)


def _placed(primitive: Primitive) -> Callable[..., Node]:
    def traced(
        trace: Trace, a: Any, axis: Any = None, out: None = None, *, keepdims: bool = False
    ) -> Node:
        x = as_node(trace, a)
        axis = None if x.ndim == 0 and axis in (0, -1) else axis
        index = 0 if axis is None else axis_index(trace, axis, x)
        if x.type.size == 0 and (axis is None or x.type.shape[index] == 0):
            raise ShapeError(
                f"np.{primitive.name} of {trace.show(x)}, which has no elements",
                where=trace.where(),
                hint="the largest and smallest of nothing do not exist",
            )
        if axis is None:
            flat = trace.build(reshape, x, shape=(x.type.size,))
            found = trace.build(primitive, flat, axis=0)
            return trace.build(reshape, found, shape=(1,) * x.ndim) if keepdims else found
        found = trace.build(primitive, x, axis=index)
        return keep_axes(trace, found, x.type.shape, (index,), keepdims)

    return traced


# Along an axis ------------------------------------------------------------------------------


def _row(trace: Trace, x: Node, axis: Any) -> tuple[Node, int]:
    """What is walked, and along which axis: without one, all elements in C order."""
    if axis is None or x.ndim == 0:
        flat = x if x.ndim == 1 else trace.build(reshape, x, shape=(x.type.size,))
        return flat, 0 if axis is None else axis_index(trace, axis, flat)
    return x, axis_index(trace, axis, x)


def _running(primitive: Primitive) -> Callable[..., Node]:
    def traced(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Node:
        x, index = _row(trace, in_accumulator(trace, a, dtype), axis)
        return trace.build(primitive, x, axis=index, reverse=False)

    return traced


def _running_from(shown: str, primitive: Primitive, first: int) -> Callable[..., Node]:
    """NumPy 2's name for it: an axis is needed, and the neutral element may stand in front."""

    def traced(
        trace: Trace,
        x: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        include_initial: bool = False,
    ) -> Node:
        given = in_accumulator(trace, x, dtype)
        if axis is None and given.ndim > 1:
            raise ShapeError(
                f"np.{shown} of {trace.show(given)} without axis=",
                where=trace.where(),
                hint=f"an array of {given.ndim} axes needs axis=",
            )
        row, index = _row(trace, given, axis)
        found = trace.build(primitive, row, axis=index, reverse=False)
        if not include_initial:
            return found
        edge = tuple(1 if i == index else size for i, size in enumerate(row.type.shape))
        start = filled(trace, first, row.type.dtype, edge)
        return traced_concatenate(trace, [start, found], index)

    return traced


def _extreme_so_far(primitive: Primitive) -> Callable[..., Node]:
    def traced(trace: Trace, array: Any, axis: Any = 0, dtype: Any = None) -> Node:
        x = strong(trace, array)
        x = x if dtype is None else to_dtype(trace, x, as_dtype(dtype))
        return trace.build(primitive, x, axis=axis_index(trace, axis, x), reverse=False)

    return traced


def traced_outer(trace: Trace, ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    """ufunc.outer: the ufunc of each element of a with each of b."""
    x, y = as_node(trace, a), as_node(trace, b)
    if y.ndim:
        x = traced_reshape(trace, x, (*x.type.shape, *(1,) * y.ndim))
    return dispatch(trace, ufunc, (x, y), options)


traced_sum = _folded(reduce.sum_, arithmetic.add, 0)
REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: traced_sum,
    np.prod: _folded(prod, arithmetic.multiply, 1),
    np.max: _extreme(reduce.max_, arithmetic.maximum, _least),
    np.min: _extreme(reduce.min_, arithmetic.minimum, _greatest),
    np.amax: _extreme(reduce.max_, arithmetic.maximum, _least),
    np.amin: _extreme(reduce.min_, arithmetic.minimum, _greatest),
    np.any: _truths(reduce.any_, False),
    np.all: _truths(reduce.all_, True),
    np.count_nonzero: traced_count_nonzero,
    np.argmax: _placed(reduce.argmax),
    np.argmin: _placed(reduce.argmin),
    np.cumsum: _running(cumulative.cumsum),
    np.cumprod: _running(cumulative.cumprod),
    np.cumulative_sum: _running_from("cumulative_sum", cumulative.cumsum, 0),
    np.cumulative_prod: _running_from("cumulative_prod", cumulative.cumprod, 1),
    "maximum.accumulate": _extreme_so_far(cumulative.cummax),
    "minimum.accumulate": _extreme_so_far(cumulative.cummin),
    "outer": traced_outer,
}
