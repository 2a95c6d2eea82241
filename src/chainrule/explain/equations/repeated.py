"""Finds the values that the loop of a derivative recomputes from the first loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chainrule.control.loops import Given, Loop
from chainrule.graph.node import Node
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import concatenate, reshape, slice_
from chainrule.primitives.sources import full, input_

Rows = Callable[
    [Given], Node | None
]  # the value in the first loop's iteration whose rows these are


def repeated(loop: Loop, nodes: Sequence[Node], first: Loop, others: Sequence[Node], rows: Rows):
    """For each value in a loop's iteration, the equal one in the same iteration of the first loop.

    `nodes` are the loop's, `others` the first one's, inputs before users.
    """
    if loop.length != first.length:
        return {}
    same = _given(loop, first, rows)
    pairs = _carries(loop, first)
    whole = _equal(nodes, others, {**same, **{one.before: two.before for one, two in pairs}})
    if pairs and all(whole.get(one.after) is two.after for one, two in pairs):
        return whole
    return _equal(nodes, others, same)


def _given(loop: Loop, first: Loop, rows: Rows) -> dict[Node, Node]:
    """What both iterations read."""
    found: dict[Node, Node] = {}
    fixed = {one.outer: one.inner for one in first.constants}
    sliced = {one.outer: one.inner for one in first.slices}
    for one in loop.constants:
        if one.outer in fixed:
            found[one.inner] = fixed[one.outer]
    for one in loop.slices:
        other = sliced.get(one.outer) or rows(one)
        if other is not None:
            found[one.inner] = other
    return found


def _carries(loop: Loop, first: Loop) -> list:
    """The carries that begin alike, if the loops go the same way."""
    if loop.reverse != first.reverse:
        return []
    starts = {(one.name, one.initial): one for one in first.carries}
    pairs = [(one, starts.get((one.name, one.initial))) for one in loop.carries]
    return [pair for pair in pairs if pair[1] is not None]


def _equal(
    nodes: Sequence[Node], others: Sequence[Node], given: Mapping[Node, Node]
) -> dict[Node, Node]:
    known: dict[object, Node] = {}
    one_of: dict[Node, Node] = {}  # what `others` compute twice, the derivative may compute once
    for node in others:
        if node.primitive is not input_:
            inputs = tuple([one_of[one] for one in node.inputs])
            one_of[node] = known.setdefault((node.primitive, inputs, node.params), node)
        else:
            one_of[node] = node
    found = dict(given)
    for node in nodes:
        if node.primitive is input_ or node in found:
            continue
        inputs = tuple([found.get(one, one) for one in node.inputs])
        other = known.get((node.primitive, inputs, node.params))
        if other is not None:
            found[node] = other
    return found


def shifted(node: Node, loop: Loop, stacked: Callable[[Node], Node | None]) -> Node | None:
    """The carry of a loop whose values before each iteration are the rows of a node.

    They are its first value, and all but the last of those that the loop stacks after each
    iteration.
    """
    inputs = node.inputs if node.primitive is concatenate else (node,)
    if node.primitive is concatenate and len(inputs) != 2:
        return None
    start, others = (inputs[::-1] if loop.reverse else inputs) if len(inputs) == 2 else (node, None)
    for one in loop.carries:
        if not _are_equal(_bare(start), _bare(one.initial)) or start.shape != (
            1,
            *one.initial.shape,
        ):
            continue
        if others is None:
            return one.before if loop.length == 1 else None
        if others.primitive is slice_ and stacked(others.inputs[0]) is one.after:
            begins = others.param("start")[0] == (1 if loop.reverse else 0)
            return one.before if begins and others.shape[0] == loop.length - 1 else None
    return None


def _are_equal(x: Node, y: Node) -> bool:
    is_uniform = x.primitive is y.primitive is full and x.param("value") == y.param("value")
    return x is y or is_uniform


def _bare(node: Node) -> Node:
    while node.primitive in (reshape, cast):
        node = node.inputs[0]
    return node
