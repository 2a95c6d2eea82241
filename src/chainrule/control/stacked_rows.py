"""Finds which rows of a scan a view is: of which scan, and which value of its iteration."""

from __future__ import annotations

from typing import Any, NamedTuple

from chainrule.control.loops import Loop
from chainrule.control.packing import stacked_type
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.graph.node import Node
from chainrule.primitives.movement import concatenate, reshape, slice_


class Stacked(NamedTuple):
    """Rows of the `value` that an iteration of the scan `whole` stacks; `views` lead to them from
    its result, the rows themselves first."""

    whole: Node
    value: Node
    views: tuple[Node, ...]


def origin_of(rows: Node) -> tuple[Node, Node] | None:
    """The scan that stacks these rows, and the value of its iteration that they are; also where
    the rows are the initial value of a carry and then what it became."""
    found = stacked_by(rows)
    if found is not None:
        return found.whole, found.value
    if rows.primitive is not concatenate or len(rows.inputs) != 2:
        return None
    for others, first in (rows.inputs, rows.inputs[::-1]):
        found = stacked_by(others.inputs[0]) if others.primitive is slice_ else None
        if found is None:
            continue
        whole, value, _ = found
        loop = loop_of(whole, whole.inputs)
        for one in loop.carries:
            begins = _unshaped(first) is _unshaped(one.initial) and one.after is value
            if begins and _is_shifted(rows, others, loop):
                return whole, one.before
    return None


def _is_shifted(rows: Node, others: Node, loop: Loop) -> bool:
    """Whether rows are one, and then all but the last of a loop's (of a reversed loop's, all but
    the first, and then one)."""
    start = (int(loop.reverse), *(0,) * (others.ndim - 1))
    return (
        rows.param("axis") == 0
        and (rows.inputs[0] is others) is loop.reverse
        and others.param("start") == start
        and set(others.param("step")) == {1}
        and others.shape[1:] == others.inputs[0].shape[1:]
        and rows.shape == others.inputs[0].shape
    )


def _unshaped(node: Node) -> Node:
    """What a node has the elements of, in the same order."""
    while node.primitive is reshape:
        node = node.inputs[0]
    return node


def stacked_by(rows: Node) -> Stacked | None:
    """The scan that stacks these rows; None where they are something else."""
    views = [rows]
    while views[-1].primitive in (reshape, slice_):
        views.append(views[-1].inputs[0])
    whole = views.pop()
    slices = [one for one in views if one.primitive is slice_]
    if whole.primitive is not scan or any(one.param("step") != (1,) for one in slices):
        return None
    loop = loop_of(whole, whole.inputs)
    start: Any = sum((one.param("start")[0] for one in slices), 0)
    place = sum((loop.carries[i].before.type.size for i in shown_carries(whole, loop)), 0)
    for value in loop.stacked:
        type_ = stacked_type(value.type, loop.length)
        if place == start and type_.shape == rows.shape:
            return Stacked(whole, value, tuple(views))
        place = place + type_.size
    return None
