"""NumPy functions that are one primitive or a few, and the table of all traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError, UnsupportedError
from chainrule.frontend.functions.einsum import einsum
from chainrule.frontend.functions.elementwise import (
    apply,
    as_node,
    common_shape,
    elementwise,
    kind_of,
    lift,
    literal,
    resolve,
    resolved_or_refused,
    to_dtype,
    to_shape,
)
from chainrule.frontend.functions.indexing import getitem
from chainrule.frontend.functions.reductions import REDUCTIONS
from chainrule.frontend.functions.shapes import (
    common_dtype,
    traced_broadcast_to,
    traced_concatenate,
    traced_expand_dims,
    traced_moveaxis,
    traced_reshape,
    traced_squeeze,
    traced_stack,
    traced_swapaxes,
    traced_transpose,
)
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import as_dtype, dtype_kind
from chainrule.graph.node import Node
from chainrule.primitives import bits, logic
from chainrule.primitives.movement import (
    reshape,
)
from chainrule.primitives.products import matmul
from chainrule.primitives.sources import uniform


def traced_where(trace: Trace, condition: Any, x: Any = None, y: Any = None) -> Node:
    """np.where with three arguments."""
    if x is None or y is None:
        from chainrule.frontend.hints.replacements import instead_of  # if refused

        raise UnsupportedError(
            "np.where with one argument is not traced",
            where=trace.where(),
            hint=instead_of("nonzero"),
        )
    mask = as_node(trace, condition)
    if mask.type.dtype.kind != "b":
        zero = 0.0 if dtype_kind(mask.type.dtype) == "f" else 0
        dtype = mask.type.dtype
        mask = apply(trace, logic.not_equal, "where", [mask, zero], dtype, mask.type.weak)
    operands = [lift(trace, x), lift(trace, y)]
    found = resolved_or_refused(trace, np.maximum, operands, "np.where")
    dtype = found[0] if found is not None else np.dtype(np.float64)
    nodes = [operand for operand in operands if isinstance(operand, Node)]
    shape = common_shape(trace, [mask, *nodes], "np.where")
    ready = [
        to_shape(trace, to_dtype(trace, operand, dtype), shape)
        if isinstance(operand, Node)
        else literal(trace, operand, dtype, shape, False)
        for operand in operands
    ]
    return trace.build(logic.where, to_shape(trace, mask, shape), *ready)


def traced_matmul(trace: Trace, x1: Any, x2: Any) -> Node:
    """np.matmul: the @ operator."""
    x, y = common_dtype(trace, [as_node(trace, x1), as_node(trace, x2)])
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"@ needs arrays of at least one axis: {trace.show(x)} @ {trace.show(y)}",
            where=trace.where(),
            hint="multiply by a number with *",
        ).resting_on()
    inner = y.type.shape[-2] if y.ndim > 1 else y.type.shape[0]
    if x.type.shape[-1] != inner:
        raise ShapeError(
            f"{trace.show(x)} @ {trace.show(y)}: the inner sizes differ, "
            f"{x.type.shape[-1]} and {inner}",
            where=trace.where(),
            hint="the last axis of the left array must equal the second-last of the right one; "
            "perhaps one of them needs .T",
        ).resting_on((x.type.shape[-1], inner))
    if y.ndim > 2:
        return _batched_matmul(trace, x, y)
    return trace.build(matmul, x, y)


def _batched_matmul(trace: Trace, x: Node, y: Node) -> Node:
    vector = x.ndim == 1
    if vector:
        x = trace.build(reshape, x, shape=(1, *x.type.shape))
    zero = np.dtype(np.float64)
    leading = [uniform(0.0, zero, node.type.shape[:-2]) for node in (x, y)]
    try:
        batch = common_shape(trace, leading, "@")
    except ShapeError as error:
        raise ShapeError(
            f"{trace.show(x)} @ {trace.show(y)}: the axes before the last two do not broadcast",
            where=error.where,
            hint=error.hint,
        ).resting_on(*error.rests_on or ()) from None
    x = to_shape(trace, x, (*batch, *x.type.shape[-2:]))
    y = to_shape(trace, y, (*batch, *y.type.shape[-2:]))
    out = trace.build(matmul, x, y)
    if vector:
        shape = (*out.type.shape[:-2], out.type.shape[-1])
        out = trace.build(reshape, out, shape=shape)
    return out


def traced_astype(trace: Trace, a: Any, dtype: Any) -> Node:
    """x.astype(dtype)."""
    x = as_node(trace, a)
    wanted = as_dtype(dtype)
    if dtype_kind(wanted) not in "fiub":
        raise UnsupportedError(
            f"{trace.show(x)} cannot become {wanted}",
            where=trace.where(),
            hint="use real floating-point, integer or boolean dtypes",
        )
    return to_dtype(trace, x, wanted)


def _bitwise(ufunc: np.ufunc, of_booleans: np.ufunc, primitive: Any, symbol: str) -> Any:
    """The operators that NumPy calls bitwise: on booleans they are logical."""

    def traced(trace: Trace, *values: Any) -> Node:
        operands = [lift(trace, value) for value in values]
        kinds = tuple([kind_of(operand) for operand in operands])
        found = resolve(ufunc, kinds)
        if found is None:
            shown = next(one for one in operands if isinstance(one, Node))
            raise UnsupportedError(
                f"{symbol} is defined on booleans and integers only, not on {trace.show(shown)}",
                where=trace.where(),
                hint="compare first (x > 0), or convert with .astype(bool)",
            )
        if found[0].kind == "b":
            return elementwise(trace, of_booleans, values)
        return apply(trace, primitive, ufunc.__name__, operands, *found)

    return traced


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    "getitem": getitem,
    "astype": traced_astype,
    np.bitwise_and: _bitwise(np.bitwise_and, np.logical_and, bits.bitwise_and, "&"),
    np.bitwise_or: _bitwise(np.bitwise_or, np.logical_or, bits.bitwise_or, "|"),
    np.bitwise_xor: _bitwise(np.bitwise_xor, np.not_equal, bits.bitwise_xor, "^"),
    np.invert: _bitwise(np.invert, np.logical_not, bits.bitwise_not, "~"),
    **REDUCTIONS,
    np.reshape: traced_reshape,
    np.ravel: lambda trace, a, order="C": traced_reshape(trace, a, -1, order),
    np.transpose: traced_transpose,
    np.matrix_transpose: lambda trace, x: traced_swapaxes(trace, x, -1, -2),
    np.swapaxes: traced_swapaxes,
    np.moveaxis: traced_moveaxis,
    np.expand_dims: traced_expand_dims,
    np.squeeze: traced_squeeze,
    np.broadcast_to: traced_broadcast_to,
    np.concatenate: traced_concatenate,
    np.stack: traced_stack,
    np.where: traced_where,
    np.matmul: traced_matmul,
    np.einsum: einsum,
    np.copy: lambda trace, a: as_node(trace, a),
    np.positive: lambda trace, x: as_node(trace, x),
    np.shape: lambda trace, a: as_node(trace, a).type.shape,
    np.ndim: lambda trace, a: as_node(trace, a).ndim,
    np.size: lambda trace, a: as_node(trace, a).type.size,
}
