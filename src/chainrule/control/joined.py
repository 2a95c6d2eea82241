"""Does iterations once that several loops do: a loop, and that which stacks its states for the way
back.

A backward pass reads the states that a loop's iterations began with.  Its rule gives them by a loop
of their own, so that a forward pass alone keeps nothing; where both are in a graph, one of them
does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from chainrule.control.bodies import between
from chainrule.control.loops import Loop
from chainrule.control.packing import packed, part_of, stacked_type, unpacked
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.dataclass import dataclass, field, replace
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.rebuild import resting_on
from chainrule.primitives.arithmetic import add, multiply
from chainrule.primitives.movement import slice_
from chainrule.primitives.sources import full
from chainrule.transforms.simplify import simplified

COMMUTATIVE = (add, multiply)


@dataclass(frozen=True, eq=False)
class Match:
    """A loop `other` whose iterations another one does: by its numbers, which carry of that loop
    each of its own is, and by the place, which value in an iteration there it stacks."""

    other: Node
    carries: tuple[int, ...]
    stacked: tuple[Node, ...]


def joined(graph: Graph) -> Graph:
    """The graph in which such loops are one; values have the same bits."""
    matches = _matches(graph)
    if not matches:
        return graph
    of_other = {match.other for found in matches.values() for match in found}
    new: dict[Node, Node] = {}
    parts: dict[Node, list[Any]] = {}
    for node in graph.nodes:
        if node in of_other:  # made where its iterations are done
            continue
        inputs = tuple([new[parent] for parent in node.inputs])
        whole = node.inputs[0] if node.inputs else None
        if node in matches:
            _do_once(node, inputs, matches[node], new, parts)
        elif whole in parts and (part := part_of(node, parts[whole])) is not None:
            new[node] = part
        elif inputs == node.inputs:
            new[node] = node
        else:
            new[node] = node.with_inputs(inputs)
    return resting_on(graph, new)


def _do_once(
    node: Node,
    inputs: tuple[Node, ...],
    found: list[Match],
    new: dict[Node, Node],
    parts: dict[Node, list[Any]],
) -> None:
    """Puts the loop that gives the values of all of them in their place."""
    loop = loop_of(node.with_inputs(inputs), inputs)
    shown = shown_carries(node, loop)
    extra = list(dict.fromkeys(one for match in found for one in match.stacked))
    extra = [one for one in extra if one not in loop.stacked]
    stacked = (*loop.stacked, *extra)
    finals, rows = replace(loop, stacked=stacked).run(scan, shown, range(len(stacked)))
    whole = next(one for one in (*finals.values(), *rows.values()))
    while whole.primitive is not scan:
        whole = whole.inputs[0]
    whole = from_line_of(node, whole)
    types = [loop.carries[i].before.type for i in shown]
    types += [stacked_type(one.type, loop.length) for one in stacked]
    values = unpacked(whole, types)
    new[node] = whole
    if node.type != whole.type:
        new[node] = from_line_of(node, slice_(whole, start=(0,), step=(1,), shape=node.shape))
    for match in found:
        there = [i for i in match.carries if i in shown]
        parts[match.other] = [
            *(values[shown.index(i)] for i in there),
            *(values[len(shown) + stacked.index(one)] for one in match.stacked),
        ]
        new[match.other] = packed(parts[match.other], node.dtype)


def from_line_of(node: Node, made: Node) -> Node:
    """What was made, from the user's line of `node`."""
    return type(made)(made.primitive, made.inputs, made.params, made.type, node.origin)


# Which loops do the same -------------------------------------------------------------------------


def done_by(node: Node, others: Sequence[Node]) -> list[Match]:
    """Those of other loops that do nothing which the loop of a node does not do, too."""
    numbers, loop = Numbers(), loop_of(node, node.inputs)
    known = numbers.of(loop, range(len(loop.carries)))
    alike = [one for one in others if _kind(one) == _kind(node)]
    found = (_match(loop, known, one, numbers) for one in alike)
    return [match for match in found if match is not None]


def _matches(graph: Graph) -> dict[Node, list[Match]]:
    """For the first of several loops that do the same, the others."""
    scans = [node for node in graph.nodes if node.primitive is scan]
    alike: dict[Any, list[Node]] = defaultdict(list)
    for node in scans:
        alike[_kind(node)].append(node)
    found: dict[Node, list[Match]] = {}
    for nodes in alike.values():
        while len(nodes) > 1:
            first, *others = nodes
            done = done_by(first, others)
            if done:
                found[first] = done
            taken = {match.other for match in done}
            nodes = [one for one in others if one not in taken]
    return found


def _kind(node: Node) -> tuple[Any, ...]:
    """In what loops are equal that may do the same."""
    return node.param("length"), node.param("reverse"), node.dtype


@dataclass
class Numbers:
    """Numbers values in iterations: those that compute the same have the same."""

    table: dict[Any, int] = field(default_factory=dict)

    def of(self, loop: Loop, carries: Any) -> dict[Node, int]:
        """The numbers in the iteration of a loop; `carries` says what number each carry is."""
        found = {one.inner: self._number("given", one.outer) for one in loop.constants}
        found |= {one.inner: self._number("row", one.outer) for one in loop.slices}
        for one, number in zip(loop.carries, carries, strict=True):
            found[one.before] = self._number("carry", number)
        return self.inside(loop, found)

    def inside(self, loop: Loop, given: Mapping[Node, int]) -> dict[Node, int]:
        """The numbers in the iteration, where what is given to it has these.

        Of integers, simpler forms compute the same (those of floats, up to the sign of a zero): the
        loop of a backward pass has them, that of a user perhaps not.
        """
        found = dict(given)
        nodes = between(loop.inner, [*(one.after for one in loop.carries), *loop.stacked])
        simple = simplified(nodes, loop.inner)
        integers = [simple[node] for node in nodes if node.dtype.kind in "iu"]
        simpler = dict(given)
        for node in between(loop.inner, integers):
            if node not in simpler:
                simpler[node] = self.number(node, [simpler[one] for one in node.inputs])
        for node in nodes:
            if node in found:
                continue
            if node.dtype.kind in "iu":
                found[node] = simpler[simple[node]]
            else:
                found[node] = self.number(node, [found[one] for one in node.inputs])
        return found

    def number(self, node: Node, operands: Sequence[int]) -> int:
        """That of what the node computes of operands that have these numbers."""
        if node.primitive in COMMUTATIVE:
            operands = sorted(operands)
        # 0.0 and -0.0 are equal and not the same: uniform constants compare by their text
        params = repr(node.param("value")) if node.primitive is full else node.params
        return self._number(node.primitive, tuple(operands), params, node.type)

    def _number(self, *key: Any) -> int:
        return self.table.setdefault(key, len(self.table))


def _match(loop: Loop, known: Mapping[Node, int], other: Node, numbers: Numbers) -> Match | None:
    """Whether the loop does all that the other one does, too."""
    there = loop_of(other, other.inputs)
    places = {(one.name, one.initial): i for i, one in enumerate(loop.carries)}
    carries = [places.get((one.name, one.initial)) for one in there.carries]
    if None in carries:
        return None
    of_other = numbers.of(there, carries)
    nodes = {known[node]: node for node in reversed([*known])}
    same = all(
        of_other[one.after] == known[loop.carries[i].after]
        for one, i in zip(there.carries, carries, strict=True)
        if i is not None
    )
    stacked = [nodes.get(of_other[one]) for one in there.stacked]
    if not same or None in stacked:
        return None
    return Match(
        other,
        tuple([i for i in carries if i is not None]),
        tuple([one for one in stacked if one is not None]),
    )
