"""Packs several arrays into one flat array, and unpacks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from chainrule.graph.body import Body
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.rebuild import resting_on
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.arithmetic import add, identity
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import concatenate, pad, reshape, slice_
from chainrule.primitives.sources import full, full_like, is_uniform
from chainrule.transforms.selected import Selections


def packed_type(dtype: np.dtype, types: Iterable[ArrayType]) -> ArrayType:
    """The type of the flat array of values of these types, all of one dtype."""
    total: int | Size = 0
    for type_ in types:
        total = total + type_.size
    return array_type(dtype, (total,))


def unpacked(flat: Node, types: Sequence[ArrayType]) -> list[Any]:
    """The values that a flat array holds: slices of it, in their shapes."""
    found = []
    start: int | Size = 0
    for type_ in types:
        part: Any = flat
        if flat.type.shape != (type_.size,):
            part = slice_(flat, start=(start,), step=(1,), shape=(type_.size,))
        found.append(_shaped(part, type_))
        start = start + type_.size
    return found


def part_of(view: Node, parts: Sequence[Any]) -> Any:
    """The part that a slice of the flat result is; None where it is another one."""
    start = 0
    for part in parts:
        if view.primitive is slice_ and (view.param("start")[0], view.shape[0]) == (
            start,
            part.type.size,
        ):
            return reshape(part, shape=view.shape)
        start += part.type.size
    return None


def some_rows(rows: Node, start: int | Size, stop: int | Size) -> Any:
    """Those from `start` on, before `stop`."""
    shape = (stop - start, *rows.type.shape[1:])
    if shape == rows.type.shape:
        return rows
    others = (0,) * (rows.ndim - 1)
    return slice_(rows, start=(start, *others), step=(1,) * rows.ndim, shape=shape)


def taken_apart(
    g: Node, types: Sequence[ArrayType], selections: Selections | None = None
) -> list[Any]:
    """As `unpacked`, of a cotangent: a sum of what the parts got, each on zeros, is taken apart
    without being computed; parts that got nothing are uniform zeros.  What `selections` knows of g
    and its pieces it knows of the parts, then."""
    selections = Selections() if selections is None else selections
    found = _pieces(g, types, selections)
    if found is None:
        parts = unpacked(g, types)
        for part in parts:
            selections.moved(g, part)
        return parts
    parts = []
    for place, type_ in enumerate(types):
        if place not in found:
            parts.append(full(value=full_like(g, 0).param("value"), type=type_))
            continue
        parts.append(_shaped(found[place], type_))
        selections.moved(found[place], parts[-1])
    return parts


def _pieces(g: Node, types: Sequence[ArrayType], selections: Selections) -> dict[int, Node] | None:
    """What the parts got, by their numbers; None where g is no sum of such pieces."""
    starts: dict[Any, int] = {}
    start: int | Size = 0
    for place, type_ in enumerate(types):
        starts.setdefault((start, type_.size), place)
        start = start + type_.size
    found: dict[int, Any] = {}
    pending = [g]
    while pending:
        node = pending.pop()
        if node.primitive is add:
            pending += node.inputs[::-1]
            continue
        if node.primitive is not pad or node.param("step") != (1,):
            return None
        (piece,) = node.inputs
        place = starts.get((node.param("start")[0], piece.type.size))
        if place is None:
            return None
        if place in found:
            total = add(found[place], piece)
            selections.added([found[place], piece], total)
            piece = total
        found[place] = piece
    return found


def is_zero(part: Node) -> bool:
    """Whether a part of what `taken_apart` gives got nothing."""
    return is_uniform(part) and part.param("value") == 0


def _shaped(flat: Any, type_: ArrayType) -> Any:
    part = flat if flat.type.shape == type_.shape else reshape(flat, shape=type_.shape)
    return cast(part, dtype=type_.dtype, weak=True) if type_.weak else part


def packed(values: Sequence[Node], dtype: np.dtype, selections: Selections | None = None) -> Any:
    """The flat array of the values, all of this dtype.  What `selections` knows of the values
    (tangents), it knows of the whole, then."""
    if not values:
        return full(value=0, type=array_type(dtype, (0,)))
    flat = [_raveled(value) for value in values]
    whole = flat[0] if len(flat) == 1 else concatenate(*flat, axis=0)
    if selections is not None:
        for value, one in zip(values, flat, strict=True):
            selections.moved(value, one)
        if len(flat) > 1:
            selections.joined(whole, flat, whole)
    return whole


def packed_batch(values: Iterable[Node], sizes: Iterable[int | Size]) -> Any:
    """As `packed`, for each example: values with an axis of examples in front, and how many
    elements each has without."""
    flat = [
        reshape(value, shape=(value.shape[0], size))
        for value, size in zip(values, sizes, strict=True)
    ]
    return flat[0] if len(flat) == 1 else concatenate(*flat, axis=1)


def _raveled(value: Any) -> Any:
    if value.type.weak:
        value = cast(value, dtype=value.type.dtype, weak=False)
    return value if value.ndim == 1 else reshape(value, shape=(value.type.size,))


def matched(value: Any, type_: ArrayType) -> Any:
    """The value with this type's weakness: all else is the same."""
    return value if value.type == type_ else cast(value, dtype=type_.dtype, weak=type_.weak)


def zeros_like(reference: Node, *axes: int | Size) -> Any:
    """Zeros of the type of `reference`, with further axes in front."""
    if not axes:
        return full_like(reference, 0)
    type_ = array_type(reference.dtype, (*axes, *reference.shape))
    return full(value=full_like(reference, 0).param("value"), type=type_)


def stacked_type(type_: ArrayType, length: int | Size) -> ArrayType:
    """The type of `length` values of this type, along a new first axis."""
    return array_type(type_.dtype, (length, *type_.shape))


def result_types(
    body: Body, carries: int, dtype: np.dtype, length: int | Size
) -> tuple[ArrayType, ...]:
    """What a scan gives, one after another: final carries of the dtype, then stacked outputs."""
    types = [node.type for _, node in body.graph.outputs]
    return (
        *(one for one in types[:carries] if one.dtype == dtype),
        *(stacked_type(one, length) for one in types[carries:]),
    )


def strong(type_: ArrayType) -> ArrayType:
    """The type, no longer that of a Python number."""
    return array_type(type_.dtype, type_.shape)


def in_parts(
    graph: Graph,
    parts_of: Callable[[Node, tuple[Node, ...], Mapping[Node, Node]], Sequence[Any] | None],
) -> tuple[Graph, dict[Node, Node]]:
    """The graph in which flat arrays are made of parts, and what each of its nodes became.

    `parts_of(node, inputs, new)` gives those of a node on its new inputs, None where it stays one
    array; `new` has what all nodes before it became.  What is computed of a part reads it by way of
    `identity`: so no plan folds a sum of products into other sums, product by product, which would
    have other bits.
    """
    views: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    parts: dict[Node, Sequence[Any]] = {}
    for node in graph.nodes:
        inputs = tuple([views.get(parent, new[parent]) for parent in node.inputs])
        whole = node.inputs[0] if node.inputs else None
        some = parts_of(node, inputs, new)
        if some is not None:
            parts[node], new[node] = some, packed(some, node.dtype)
        elif whole in parts and (part := part_of(node, parts[whole])) is not None:
            new[node] = part
        elif whole in parts and (within := _several(node, parts[whole])):
            parts[node], new[node] = within, packed(within, node.dtype)
        elif inputs == node.inputs:
            new[node] = node
        elif node.primitive is reshape and is_view_of(inputs[0], node.type):
            new[node] = inputs[0].inputs[0]
            views[node] = identity(new[node])
            stamp([views[node]], node.origin)
        else:
            new[node] = node.with_inputs(inputs)
    return (resting_on(graph, new) if parts else graph), new


def _several(view: Node, parts: Sequence[Any]) -> Sequence[Any]:
    """The parts, one after another, that a slice of the flat result is; none where it is not."""
    if view.primitive is not slice_:
        return ()
    edges = [0, *accumulate(part.type.size for part in parts)]
    begin = view.param("start")[0]
    end = begin + view.type.size
    if begin not in edges or end not in edges:
        return ()
    return parts[edges.index(begin) : edges.index(end)]


def is_view_of(view: Node, type_: ArrayType) -> bool:
    """Whether it is a flat view of something of this type."""
    return view.primitive is reshape and view.inputs[0].type == type_
