"""NumPy functions that change shapes and axes of traced arrays, or join them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, ShapeError, UnsupportedError
from chainrule.frontend.errors.types_shown import declared_size, show_shape
from chainrule.frontend.functions.elementwise import (
    as_node,
    kind_of,
    resolve,
    resolved_or_refused,
    to_dtype,
    to_shape,
)
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import as_dtype, is_bfloat16
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import Shape
from chainrule.primitives.movement import (
    broadcast_to,
    concatenate,
    reshape,
    transpose,
)

Axes = Any


def axis_index(trace: Trace, axis: Any, x: Node, what: str = "axis", new: int = 0) -> int:
    """A non-negative axis of x (with `new` more), or an error that says which axes there are."""
    ndim = x.ndim + new
    try:
        index = operator.index(axis)
    except TypeError:
        index = None
    if index is None or not -ndim <= index < ndim:
        raise ShapeError(
            f"{what}={axis!r} does not exist: {trace.show(x)} has {ndim} axes"
            + (", with the new ones" if new else ""),
            where=trace.where(),
            hint=f"give an integer from {-ndim} to {ndim - 1}" if ndim else "a number has no axes",
        ).resting_on()
    return index % ndim


def axes_of(trace: Trace, axis: Axes, x: Node) -> tuple[int, ...]:
    """The axes of x that `axis=` means (all for None), increasing."""
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(axis_index(trace, one, x) for one in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(
            f"axis={axis!r} names an axis of {trace.show(x)} twice",
            where=trace.where(),
            hint="name each axis once",
        )
    return tuple(axes)


def keep_axes(trace: Trace, out: Node, shape: Shape, axes: tuple[int, ...], keep: Any) -> Node:
    """The reduced value, with axes of length 1 in place of the reduced ones where asked."""
    if not keep or not axes:
        return out
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return trace.build(reshape, out, shape=kept)


def traced_reshape(trace: Trace, a: Any, shape: Any, order: str = "C") -> Node:
    """np.reshape; -1 stands for what is left, also among named sizes.

    Traced arrays are in C order, so A and K mean C.
    """
    if order not in ("C", "F", "A", "K"):
        raise UnsupportedError(
            f"np.reshape(order={order!r})", where=trace.where(), hint='use order="C" or "F"'
        )
    x = as_node(trace, a)
    given = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    if order == "F":
        turned = traced_reshape(trace, traced_transpose(trace, x), given[::-1])
        return traced_transpose(trace, turned)
    wanted = [declared_size(size) if not isinstance(size, Size) else size for size in given]
    total = x.type.size
    numbers = [size for size in wanted if not isinstance(size, Size)]
    if any(size < -1 for size in numbers):
        _refuse_reshape(trace, x, given)
    if -1 in numbers:
        place = wanted.index(-1)
        rest = sizes.product(tuple(size for i, size in enumerate(wanted) if i != place))
        exact = sizes.divide_exactly(total, rest) if rest != 0 else None
        if exact is None:
            if rest == 0 or (isinstance(total, int) and isinstance(rest, int)):
                _refuse_reshape(trace, x, given)
            exact = total // rest
        wanted[place] = exact
    target = tuple(wanted)
    _require_same_size(trace, x, target, given)
    return x if target == x.type.shape else trace.build(reshape, x, shape=target)


def _require_same_size(trace: Trace, x: Node, target: Shape, given: tuple) -> None:
    difference = sizes.product(target) - x.type.size
    if isinstance(difference, int):
        impossible = difference != 0
    else:
        impossible = sizes.is_positive(difference) or sizes.is_positive(-difference)
    if impossible or any(size < 0 for size in target if not isinstance(size, Size)):
        _refuse_reshape(trace, x, given)
    if not isinstance(difference, int):
        text = f"reshape of {trace.show(x)} to {show_shape(target)} needs equal numbers of elements"
        trace.require(difference, True, text)


def _refuse_reshape(trace: Trace, x: Node, given: tuple) -> None:
    raise ShapeError(
        f"cannot reshape {trace.show(x)} to {show_shape(given)}: it has {x.type.size} elements",
        where=trace.where(),
        hint="the products of the sizes must be equal; one size may be -1",
    ).resting_on()


def traced_transpose(trace: Trace, a: Any, axes: Any = None) -> Node:
    """np.transpose."""
    x = as_node(trace, a)
    if axes is None:
        permutation = tuple(reversed(range(x.ndim)))
    else:
        permutation = tuple(axis_index(trace, axis, x) for axis in axes)
        if sorted(permutation) != list(range(x.ndim)):
            raise ShapeError(
                f"axes={tuple(axes)} is no permutation of the {x.ndim} axes of {trace.show(x)}",
                where=trace.where(),
                hint="name each axis once",
            )
    if permutation == tuple(range(x.ndim)):
        return x
    return trace.build(transpose, x, permutation=permutation)


def traced_swapaxes(trace: Trace, a: Any, axis1: int, axis2: int) -> Node:
    """np.swapaxes."""
    x = as_node(trace, a)
    order = list(range(x.ndim))
    one, two = axis_index(trace, axis1, x), axis_index(trace, axis2, x)
    order[one], order[two] = order[two], order[one]
    return traced_transpose(trace, a, tuple(order))


def traced_moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> Node:
    """np.moveaxis."""
    x = as_node(trace, a)
    sources = source if isinstance(source, (tuple, list)) else (source,)
    places = destination if isinstance(destination, (tuple, list)) else (destination,)
    from_ = [axis_index(trace, axis, x, "source") for axis in sources]
    to = [axis_index(trace, axis, x, "destination") for axis in places]
    if len(from_) != len(to):
        raise ShapeError(
            f"np.moveaxis: {len(from_)} axes have {len(to)} destinations",
            where=trace.where(),
            hint="give one destination for each source",
        )
    order = [axis for axis in range(x.ndim) if axis not in from_]
    for place, axis in sorted(zip(to, from_, strict=True)):
        order.insert(place, axis)
    return traced_transpose(trace, a, tuple(order))


def traced_expand_dims(trace: Trace, a: Any, axis: Any) -> Node:
    """np.expand_dims."""
    x = as_node(trace, a)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = x.ndim + len(given)
    new = {axis_index(trace, one, x, new=len(given)) for one in given}
    rest = iter(x.type.shape)
    shape = tuple(1 if place in new else next(rest) for place in range(ndim))
    return trace.build(reshape, x, shape=shape)


def traced_squeeze(trace: Trace, a: Any, axis: Any = None) -> Node:
    """np.squeeze; that the named sizes it keeps are not 1 becomes a condition."""
    x = as_node(trace, a)
    ones = {i for i, size in enumerate(x.type.shape) if isinstance(size, int) and size == 1}
    gone = ones if axis is None else set(axes_of(trace, axis, x))
    if not gone <= ones:
        raise ShapeError(
            f"cannot squeeze axis {sorted(gone - ones)[0]} of {trace.show(x)}: its size is not 1",
            where=trace.where(),
            hint="only axes of literal size 1 can be squeezed; index the others, x[0]",
        ).resting_on((x.type.shape[min(gone - ones)], 1))
    if axis is None:
        for i, size in enumerate(x.type.shape):
            if isinstance(size, Size) and not sizes.is_positive(size - 1):
                text = f"np.squeeze of {trace.show(x)} keeps axis {i}, which is not 1"
                trace.assume_not_zero(size - 1, text)
    shape = tuple(size for i, size in enumerate(x.type.shape) if i not in gone)
    return trace.build(reshape, x, shape=shape)


def traced_broadcast_to(trace: Trace, array: Any, shape: Any) -> Node:
    """np.broadcast_to."""
    x = as_node(trace, array)
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    target = tuple(declared_size(size) for size in given)
    try:
        broadcast_to.result_type(x.type, shape=target)
    except TypeError:
        pairs = zip(reversed(x.type.shape), reversed(target), strict=False)
        unlike = [(old, new) for old, new in pairs if old != new and old != 1]
        raise ShapeError(
            f"cannot broadcast {trace.show(x)} to {show_shape(target)}",
            where=trace.where(),
            hint="from the last axis on, the sizes must be equal or a literal 1",
        ).resting_on(*[(old, one) for old, new in unlike[:1] for one in (new, 1)]) from None
    return to_shape(trace, to_dtype(trace, x, x.type.dtype), target)


def common_dtype(trace: Trace, nodes: list[Any]) -> list[Node]:
    """The operands in the dtype that np.add would compute in."""
    pair = nodes[:2] * (1 + (len(nodes) == 1))
    found = resolved_or_refused(trace, np.maximum, pair, "dtypes differ")
    dtype = found[0] if found else nodes[0].type.dtype
    for node in nodes[2:]:
        step = resolve(np.maximum, (dtype, kind_of(node)))
        if step is None and is_bfloat16(dtype):
            resolved_or_refused(trace, np.maximum, [nodes[0], node], "dtypes differ")
        dtype = step[0] if step else dtype
    return [to_dtype(trace, node, dtype) for node in nodes]


def traced_concatenate(trace: Trace, arrays: Any, axis: Any = 0, dtype: Any = None) -> Node:
    """np.concatenate."""
    _refuse_second_array(trace, "np.concatenate", axis)
    given = [as_node(trace, array) for array in arrays]
    nodes = common_dtype(trace, given) if dtype is None else _cast(trace, given, dtype)
    if not nodes:
        raise ShapeError(
            "np.concatenate of no arrays", where=trace.where(), hint="give at least one array"
        )
    if axis is None:
        nodes = [traced_reshape(trace, node, -1) for node in nodes]
        axis = 0
    if not nodes[0].ndim:
        raise ShapeError(
            "np.concatenate of numbers, which have no axis",
            where=trace.where(),
            hint="give a list of arrays: np.concatenate([x, y]); "
            "np.stack makes an array of numbers",
        )
    index = axis_index(trace, axis, nodes[0])
    first = nodes[0].type.shape
    for node in nodes:
        pairs = enumerate(zip(first, node.type.shape, strict=False))
        unlike = [pair for i, pair in pairs if i != index and pair[0] != pair[1]]
        if node.ndim != len(first) or unlike:
            raise ShapeError(
                f"np.concatenate along axis {index}: {trace.show(nodes[0])} and {trace.show(node)} "
                "differ in another axis",
                where=trace.where(),
                hint="all axes but the joined one must be equal",
            ).resting_on(*unlike[: node.ndim == len(first)])
    return nodes[0] if len(nodes) == 1 else trace.build(concatenate, *nodes, axis=index)


def _refuse_second_array(trace: Trace, function: str, axis: Any) -> None:
    if hasattr(axis, "shape") and axis.shape:
        raise ShapeError(
            f"{function} takes the arrays as one list; its second argument, the axis, is an array",
            where=trace.where(),
            hint=f"{function}([x, y])",
        )


def _cast(trace: Trace, nodes: list[Node], dtype: Any) -> list[Node]:
    """The nodes in a dtype to which their own may be cast without losing their kind."""
    wanted = as_dtype(dtype)
    for node in nodes:
        if not np.can_cast(node.type.dtype, wanted, "same_kind"):
            raise DTypeError(
                f"{trace.show(node)} is not joined as {wanted}",
                where=trace.where(),
                hint="convert the arrays with .astype(...) first",
            )
    return [to_dtype(trace, node, wanted) for node in nodes]


def traced_stack(trace: Trace, arrays: Any, axis: int = 0, dtype: Any = None) -> Node:
    """np.stack."""
    _refuse_second_array(trace, "np.stack", axis)
    nodes = [as_node(trace, array) for array in arrays]
    widened = [traced_expand_dims(trace, node, axis) for node in nodes]
    return traced_concatenate(trace, widened, axis, dtype)
