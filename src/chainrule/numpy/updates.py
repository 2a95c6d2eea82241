"""The updates behind `x.at[key]`: copies of an array with some elements changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import DTypeError, ShapeError, UnsupportedError
from chainrule.frontend.errors.types_shown import show_shape
from chainrule.frontend.functions.elementwise import as_node, kind_of, lift, literal, to_dtype
from chainrule.frontend.functions.indexing import (
    Part,
    Places,
    expand,
    has_arrays,
    is_whole,
    part_of,
    permuted,
    places_of,
    read_part,
    whole_axes,
)
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.types import Shape
from chainrule.numpy.of_arrays import array_of, broadcast, positions_of
from chainrule.numpy.ordering import argsort
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.movement import inverse, pad
from chainrule.primitives.sources import uniform


@dataclass(frozen=True)
class _Change:
    """`of(x, value)` for elements that change; `rest` is the value that leaves x as it is, None
    for x itself; `joined(value, value)` makes one of two values for the same place, None where
    the last one stays."""

    of: Callable[[Any, Any], Any]
    rest: float | None = None
    joined: Callable[[Any, Any], Any] | None = None


CHANGES = {
    "set": _Change(lambda x, value: value),
    "add": _Change(lambda x, value: x + value, 0, np.add),
    "subtract": _Change(lambda x, value: x - value, 0, np.add),
    "multiply": _Change(lambda x, value: x * value, 1, np.multiply),
    "divide": _Change(lambda x, value: x / value, 1, np.multiply),
    "min": _Change(np.minimum, None, np.minimum),
    "max": _Change(np.maximum, None, np.maximum),
}


def _fitting(trace: Trace, how: str, x: Any, value: Any) -> Any:
    """The value in the dtype of x, or a refusal."""
    operand = lift(trace, value)
    kind = kind_of(operand)
    if kind is int or kind is float:  # which takes the dtype of the array, if that is of its kind
        suits = dtype_kind(x.dtype) in ("f" if kind is float else "iuf")
        kind = x.dtype if suits else np.dtype(kind)
    logical = x.dtype.kind == "b" and how != "set"
    if (
        logical
        or not np.can_cast(kind, x.dtype, "same_kind")
        or (how == "divide" and dtype_kind(x.dtype) != "f")
    ):
        shown = trace.show(operand) if isinstance(operand, Node) else repr(operand)
        raise DTypeError(
            f".at[...].{how}: {shown} cannot change elements of {trace.show(x.node)}",
            where=trace.where(),
            hint="convert one of them with .astype(...) first",
        )
    if not isinstance(operand, Node):
        return array_of(literal(trace, operand, x.dtype, (), False), trace)
    return array_of(to_dtype(trace, operand, x.dtype), trace)


def _spread(trace: Trace, x: Node, value: Any, shape: Shape) -> Any:
    """The value broadcast to the shape of the elements; further leading axes of 1 are left away."""
    given = value
    while value.ndim > len(shape) and isinstance(value.shape[0], int) and value.shape[0] == 1:
        value = np.reshape(value, value.shape[1:])
    try:
        return broadcast(value, shape)
    except ShapeError as error:
        raise ShapeError(
            f"the value {trace.show(given.node)} does not broadcast to the elements of "
            f"{trace.show(x)} that change, of shape {show_shape(shape)}",
            where=trace.where(),
            hint="from the last axis on, the sizes must be equal or a literal 1",
        ).resting_on(*error.rests_on or ()) from None


def _kept(change: _Change, x: Any, written: Any, value: Any) -> Any:
    """x with the change where `written` is true."""
    rest = x if change.rest is None else np.asarray(change.rest, x.dtype)
    return change.of(x, np.where(written, value, rest))


def changed(how: str) -> Callable[[Any, Any, Any], Any]:
    """The function behind a method of `x.at[key]`."""
    change = CHANGES[how]

    def function(x: Any, key: Any, value: Any) -> Any:
        trace = x.program
        value = _fitting(trace, how, x, value)
        if _is_traced_mask(key):
            return _kept(change, x, _mask(trace, x, key, value), value)
        items = expand(trace, x.node, key)
        part = part_of(trace, x.node, whole_axes(items) if has_arrays(items) else items)
        inside = array_of(read_part(trace, x.node, part), trace)
        if has_arrays(items):
            places = places_of(trace, items)
            value = _spread(trace, x.node, value, _shape_at(inside, places))
            new = _at_places(trace, change, inside, places, _static(items), value)
        else:
            new = change.of(inside, _spread(trace, x.node, value, inside.shape))
        return _put_back(trace, x, part, new)

    function.__doc__ = f"x.at[key].{how}(value)."
    return function


def _put_back(trace: Trace, x: Any, part: Part, new: Any) -> Any:
    """x with the new elements in place of a part."""
    new: Any = np.reshape(new, part.counts)
    if is_whole(x.node, part):
        return new
    place = dict(start=part.starts, step=part.steps, shape=x.shape)
    true = uniform(True, np.dtype(np.bool_), part.counts)
    written = trace.build(pad, trace.build(true.primitive, **dict(true.params)), **place)
    return np.where(
        array_of(written, trace), array_of(trace.build(pad, new.node, **place), trace), x
    )


def _is_traced_mask(key: Any) -> bool:
    return isinstance(key, Traced) and key.dtype.kind == "b"


def _mask(trace: Trace, x: Any, mask: Any, value: Any) -> Any:
    """A traced mask of the first axes of x, with axes of 1 for the others."""
    if x.shape[: mask.ndim] != mask.shape or value.ndim:
        raise UnsupportedError(
            f"a traced mask {trace.show(mask.node)} of {trace.show(x.node)} with the value "
            f"{trace.show(value.node)}",
            where=trace.where(),
            hint="a traced mask has the first axes of the array, and takes one number;\n"
            "choose among arrays with np.where(mask, value, x)",
        )
    return np.reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))


def _static(items: list[Any]) -> tuple[Any, ...] | None:
    """The indices, where all are known while tracing."""
    chosen = [one for one in items if not (one is None or one is Ellipsis or type(one) is slice)]
    if all(isinstance(one, (int, np.integer, np.ndarray)) for one in chosen):
        return tuple(np.broadcast_arrays(*chosen))
    return None


def _shape_at(x: Any, places: Places) -> Shape:
    """The shape of the elements that index arrays choose of x."""
    first = places.indices[0].type.shape
    found = (*first, *(x.shape[axis] for axis in places.before[len(places.indices) :]))
    return tuple(found[axis] for axis in places.after)


def _at_places(
    trace: Trace, change: _Change, x: Any, places: Places, known: Any, value: Any
) -> Any:
    """x with the elements changed at which index arrays point."""
    count, wide = len(places.indices), places.indices[0].ndim
    front = array_of(permuted(trace, x.node, places.before), trace)
    leading, others = front.shape[:count], front.shape[count:]
    value = array_of(permuted(trace, value.node, inverse(places.after)), trace)
    rows, writes = sizes.product(leading), sizes.product(value.shape[:wide])
    if isinstance(writes, int) and writes == 0:
        return x
    values = np.reshape(value, (writes, *others))
    numbers = np.reshape(positions_of(trace, rows), leading)
    targets = np.reshape(numbers[tuple(array_of(one, trace) for one in places.indices)], writes)
    if change.joined is np.add:
        summed = [as_node(trace, x) for x in (values, targets)]
        node = trace.build(scatter_add, *summed, shape=(rows, *others), wrap=False)
        new = change.of(front, np.reshape(array_of(node, trace), front.shape))
    else:
        last = None
        if not _once(writes, known, leading):
            targets, values, last = _in_order(trace, change, targets, values)
        writer = _writer(trace, targets, last, rows)
        column = (rows, *(1,) * len(others))
        latest = values[np.maximum(writer, 0)]
        flat = np.reshape(front, (rows, *others))
        new = _kept(change, flat, np.reshape(writer >= 0, column), latest)
        new = np.reshape(new, front.shape)
    return array_of(permuted(trace, as_node(trace, new), inverse(places.before)), trace)


def _once(writes: Any, known: Any, leading: Shape) -> bool:
    """Whether it is known that no place is named twice."""
    if isinstance(writes, int) and writes == 1:
        return True
    if known is None or not all(isinstance(size, int) for size in leading):
        return False
    rows = np.stack([index.reshape(-1) % size for index, size in zip(known, leading, strict=True)])
    return np.unique(rows, axis=1).shape == rows.shape


def _in_order(trace: Trace, change: _Change, targets: Any, values: Any) -> tuple[Any, Any, Any]:
    """Values sorted by their places, these places, and whether a value is the last of its place."""
    order = argsort(targets)
    targets, values = targets[order], values[order]
    if change.joined is not None:
        values = _joined(trace, change, targets, values)
    return targets, values, np.concatenate([targets[1:] != targets[:-1], np.ones(1, bool)])


def _joined(trace: Trace, change: _Change, targets: Any, values: Any) -> Any:
    """Each value joined with those before it that have the same place, by doubling distances."""
    writes = targets.shape[0]
    if not isinstance(writes, int):
        raise UnsupportedError(
            f"values for {writes} places, of which some may be the same, cannot be joined",
            where=trace.where(),
            hint="bind the size to a number, or use .set or .add",
        )
    assert change.joined is not None
    column = (writes, *(1,) * (values.ndim - 1))
    distance = 1
    while distance < writes:
        same = targets[distance:] == targets[:-distance]
        same = np.reshape(np.concatenate([np.zeros(distance, bool), same]), column)
        before = np.concatenate([values[:distance], values[:-distance]])
        rest = values if change.rest is None else np.asarray(change.rest, values.dtype)
        values = change.joined(values, np.where(same, before, rest))
        distance *= 2
    return values


def _writer(trace: Trace, targets: Any, last: Any, rows: Any) -> Any:
    """For each row which value it takes, -1 for none."""
    numbers = positions_of(trace, targets.shape[0]) + 1
    if last is not None:
        numbers = np.where(last, numbers, 0)
    summed = [as_node(trace, x) for x in (numbers, targets)]
    return array_of(trace.build(scatter_add, *summed, shape=(rows,), wrap=False), trace) - 1


def _power(x: Any, key: Any, value: Any) -> Any:
    """x.at[key].power(value): of a place that is named twice, the last value stays."""
    if not _is_traced_mask(key):
        return changed("set")(x, key, x[key] ** value)
    mask = _mask(x.program, x, key, _fitting(x.program, "power", x, value))
    return np.where(mask, np.where(mask, x, np.asarray(1, x.dtype)) ** value, x)


def _apply(x: Any, key: Any, function: Any) -> Any:
    """x.at[key].apply(function), which is called once, on x[key]."""
    return changed("set")(x, key, function(x[key]))


UPDATES: dict[Any, Callable[..., Any]] = {
    **{f"at.{how}": changed(how) for how in CHANGES},
    "at.power": _power,
    "at.apply": _apply,
}
