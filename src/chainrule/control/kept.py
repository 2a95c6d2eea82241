"""Keeps of each iteration of a loop what another loop would compute again from its states.

The backward pass of a loop reads the states that the iterations began with, and computes from them
what its derivatives need: the products of a cell, its functions.  Where these are stacked beside
the states, nothing dear is computed twice; what costs little is.  What an iteration made of a state
is the state of the next one, which the way back has read just before: it holds that, and no rows
are stacked for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

from chainrule.control.bodies import between, reached
from chainrule.control.joined import Numbers, from_line_of
from chainrule.control.least_cut import least_cut
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import is_view_of, packed, part_of, stacked_type, unpacked
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.control.stacked_rows import origin_of
from chainrule.dataclass import dataclass, field, replace
from chainrule.graph.body import with_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.rebuild import resting_on
from chainrule.graph.sizes.size_values import evaluate
from chainrule.plan.loops.sweeps import CHEAP, expression_cost
from chainrule.primitives.movement import reshape, slice_
from chainrule.primitives.primitive import MOVING, Gather, Generate, Library, Map

TYPICAL = 64  # a size that is not known


@dataclass(eq=False)
class _Source:
    """A loop whose rows others read, with the numbers of the values of an iteration, and by these
    the values; `extra` is what it stacks for others beside its own."""

    node: Node
    loop: Loop
    numbers: Numbers
    known: dict[Node, int]
    of_number: dict[int, Node]
    extra: list[Node] = field(default_factory=list)

    def place(self, number: int) -> int | None:
        """Which of the loop's rows has the value of that number, if one has."""
        node = self.of_number.get(number)
        stacked = (*self.loop.stacked, *self.extra)
        return stacked.index(node) if node in stacked else None

    @property
    def finals(self) -> list[int]:
        """The carries of which the node gives what they became."""
        return shown_carries(self.node, self.loop)


@dataclass(frozen=True, eq=False)
class _Held:
    """What a carry of a loop became in an iteration, on the way back: `before`, what the carry was,
    in the iteration that went before on that way; at first, the final value of the `carry`."""

    carry: int
    before: Node


@dataclass(eq=False)
class _Reader:
    """A loop that reads rows of `source` in place of its own values: which row for each; and what
    it holds in place of others."""

    source: Node
    rows: dict[Node, int]
    held: dict[Node, _Held]


def kept(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph in which loops keep it; values have the same bits.

    Of what can be kept, that is chosen which has the fewest elements, at `sizes`.
    """
    known = {name: sizes.get(name, TYPICAL) for name in graph.sizes}
    sources, readers = _found(graph, known)
    if not readers:
        return graph
    new: dict[Node, Node] = {}
    finals: dict[Node, dict[int, Any]] = {}
    rows: dict[Node, list[Any]] = {}
    parts: dict[Node, list[Any]] = {}
    for node in graph.nodes:
        inputs = tuple([new[parent] for parent in node.inputs])
        source, reader = sources.get(node), readers.get(node)
        if reader is not None or (source is not None and source.extra):
            extra = source.extra if source is not None else []
            read, held = {}, []
            if reader is not None:
                read = {one: rows[reader.source][i] for one, i in reader.rows.items()}
                held = [
                    Carry("held", finals[reader.source][one.carry], node, one.before)
                    for node, one in reader.held.items()
                ]
            whole = _with(node, inputs, read, held, extra)
            finals[node], rows[node] = _results_of(whole)
            new[node] = whole
            if held:
                own = [i for i in finals[node] if i < node.param("carries")]
                stacked = rows[node][: len(rows[node]) - len(extra)]
                parts[node] = [*(finals[node][i] for i in own), *stacked]
                new[node] = packed(parts[node], node.dtype)
            elif node.type != whole.type:
                new[node] = from_line_of(
                    node, slice_(whole, start=(0,), step=(1,), shape=node.shape)
                )
        elif node.inputs and (part := _part(node, parts)) is not None:
            new[node] = part
        elif node.primitive is reshape and is_view_of(inputs[0], node.type):
            new[node] = inputs[0].inputs[0]
        elif inputs == node.inputs:
            new[node] = node
        else:
            new[node] = node.with_inputs(inputs)
        if source is not None and node not in rows:
            finals[node], rows[node] = _results_of(new[node])
    return resting_on(graph, new)


def kept_inside(graph: Graph) -> Graph:
    """The graph in which loops keep it that bodies of its loops hold."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = tuple([new[parent] for parent in node.inputs])
        one = node if inputs == node.inputs else node.with_inputs(inputs)
        new[node] = with_bodies(one, "kept", lambda body: kept(body, {}))
    return graph if all(a is b for a, b in new.items()) else resting_on(graph, new)


def _part(view: Node, parts: Mapping[Node, Sequence[Any]]) -> Any:
    """What a slice of a result that is made of parts is; None for other nodes."""
    whole = view.inputs[0]
    return part_of(view, parts[whole]) if whole in parts else None


def _results_of(whole: Node) -> tuple[dict[int, Any], list[Any]]:
    """The final carries that a scan gives, by their numbers, and what it stacks."""
    loop = loop_of(whole, whole.inputs)
    shown = shown_carries(whole, loop)
    types = [loop.carries[i].before.type for i in shown]
    types += [stacked_type(one.type, loop.length) for one in loop.stacked]
    found = unpacked(whole, types)
    return dict(zip(shown, found, strict=False)), found[len(shown) :]


def _with(
    node: Node,
    inputs: tuple[Node, ...],
    read: Mapping[Node, Node],
    held: Sequence[Carry],
    extra: Sequence[Node],
) -> Node:
    """The scan on these inputs that reads rows in place of values, holds others, and stacks
    more."""
    loop = loop_of(node, inputs)
    slices = [*loop.slices, *(Given("kept", rows, inner) for inner, rows in read.items())]
    carries, stacked = (*loop.carries, *held), (*loop.stacked, *extra)
    loop = replace(loop, carries=carries, slices=tuple(slices), stacked=stacked)
    inside = set(between(loop.inner, _results(loop)))
    loop = replace(
        loop,
        constants=tuple([one for one in loop.constants if one.inner in inside]),
        slices=tuple([one for one in slices if one.inner in inside]),
    )
    return from_line_of(node, loop.node(scan, node.dtype))


# What is kept ------------------------------------------------------------------------------------


def _found(
    graph: Graph, sizes: Mapping[str, int]
) -> tuple[dict[Node, _Source], dict[Node, _Reader]]:
    """The loops that keep something for others, and those that read it."""
    sources: dict[Node, _Source] = {}
    readers: dict[Node, _Reader] = {}
    for node in graph.nodes:
        if node.primitive is not scan:
            continue
        loop = loop_of(node, node.inputs)
        seen: dict[Node, dict[Node, Node]] = defaultdict(dict)
        for one in loop.slices:
            origin = origin_of(one.outer)
            if origin is not None and origin[0].param("length") == loop.length:
                seen[origin[0]][one.inner] = origin[1]
        if not seen:
            continue
        for one in seen:
            if one not in sources:
                sources[one] = _source(one)
        there = max(seen, key=lambda one: len(_early(loop, sources[one].loop, seen[one])[1]))
        reader = _reader(loop, sources[there], seen[there], sizes)
        if reader.rows or reader.held:
            readers[node] = reader
    return sources, readers


def _source(node: Node) -> _Source:
    loop = loop_of(node, node.inputs)
    numbers = Numbers()
    known = numbers.of(loop, range(len(loop.carries)))
    return _Source(node, loop, numbers, known, {known[one]: one for one in reversed([*known])})


def _early(
    loop: Loop, source: Loop, seen: Mapping[Node, Node]
) -> tuple[dict[Node, Node], list[Node]]:
    """What a loop is given that its source has, too, as it is called there; and what it computes
    of that alone.  `seen` are the source's values that it reads."""
    inside = {one.outer: one.inner for one in source.constants}
    rows = {one.outer: one.inner for one in source.slices}
    there = {one.inner: inside[one.outer] for one in loop.constants if one.outer in inside}
    there |= {one.inner: rows[one.outer] for one in loop.slices if one.outer in rows}
    there |= seen
    nodes = between(loop.inner, _results(loop))
    late = reached(nodes, [one for one in loop.inner if one not in there])
    return there, [node for node in nodes if node not in late and node not in there]


def _results(loop: Loop) -> list[Node]:
    return [*(one.after for one in loop.carries), *loop.stacked]


def _reader(
    loop: Loop, source: _Source, seen: Mapping[Node, Node], sizes: Mapping[str, int]
) -> _Reader:
    """What a loop reads or holds in place of values that it computes.  Rows are put among those of
    their source where they are not there yet; `seen` are the source's values that it reads already.
    """
    there, early = _early(loop, source.loop, seen)
    results = _results(loop)
    copies = _Copies(source, dict(there))
    places = {node: source.place(copies.number(node)) for node in early}
    found = {node: place for node, place in places.items() if place is not None}
    before = _before(source, seen) if loop.reverse is not source.loop.reverse else {}
    may_hold = {
        node: before[number]
        for node in early
        if (number := copies.number(node)) in before and node.type == before[number].before.type
    }
    others = set(between(loop.inner, results)) - {*early}
    read = {parent for node in others for parent in node.inputs if node not in there}
    read |= set(results)
    held = {}
    for node in _least(early, found, may_hold, read, copies, sizes):
        if node in may_hold:
            held[node] = may_hold[node]
            continue
        copy = copies.of(node)
        source.extra.append(copy)
        found[node] = len(source.loop.stacked) + len(source.extra) - 1
    needed = set(between([*loop.inner, *found, *held], results))
    found = {node: place for node, place in found.items() if node in needed}
    return _Reader(source.node, found, {node: one for node, one in held.items() if node in needed})


def _before(source: _Source, seen: Mapping[Node, Node]) -> dict[int, _Held]:
    """For the numbers of what carries become, how a loop the other way has it that reads them."""
    carries = {source.loop.carries[i].before: i for i in source.finals}
    read = {carries[one]: inner for inner, one in seen.items() if one in carries}
    return {
        source.known[source.loop.carries[i].after]: _Held(i, inner) for i, inner in read.items()
    }


def _least(
    early: Sequence[Node],
    there: Container[Node],
    may_hold: Container[Node],
    read: Collection[Node],
    copies: _Copies,
    sizes: Mapping[str, int],
) -> list[Node]:
    """The values of the fewest elements in all from which those in `read` are computed at little
    cost; some are `there`, and of those that a loop may hold nothing is stacked.  Of those that are
    alike, what the source computes anyway."""
    weights, edges, dear = {}, [], []
    computed = {node: None for node in early if node not in there}
    for node in computed:
        if copies.may_keep(node):
            size = max(int(evaluate(node.type.size, sizes)), 1)
            weights[node] = 1 if node in may_hold else 2 * size + (not copies.is_there(node))
        if node in weights and copies.is_there(node) and not _is_cheap(node):
            dear.append(node)
        else:
            edges += [(one, node) for one in node.inputs if one in computed]
    return least_cut(weights, edges, dear, [node for node in computed if node in read])


def _is_cheap(node: Node) -> bool:
    """Whether it is as well computed again as read from memory."""
    kernel = node.primitive.kernel
    if isinstance(kernel, Map):
        return expression_cost(node) <= CHEAP
    return isinstance(kernel, (*MOVING, Generate)) or kernel == Gather()


class _Copies:
    """The values of a source's iteration that those of another loop are: its own, or copies.

    `there` has what is given to the other loop as it is called in the source.
    """

    def __init__(self, source: _Source, there: dict[Node, Node]) -> None:
        self._source = source
        self._there = there
        self._numbers = {one: source.known[copy] for one, copy in there.items()}

    def number(self, node: Node) -> int:
        """The number, in the source, of what a node computes; its operands were asked before."""
        if node not in self._numbers:
            operands = [self._numbers[one] for one in node.inputs]
            self._numbers[node] = self._source.numbers.number(node, operands)
        return self._numbers[node]

    def may_keep(self, node: Node) -> bool:
        """Whether the source may stack it: its result has one dtype, and it does no loop for that
        alone."""
        if node.type.weak or node.dtype != self._source.node.dtype:
            return False
        kernel = node.primitive.kernel
        is_loop = isinstance(kernel, Library) and bool(dict(node.params).get("body"))
        return not is_loop or self.is_there(node)

    def is_there(self, node: Node) -> bool:
        """Whether the source computes the value in any case."""
        return self.number(node) in self._source.of_number

    def of(self, node: Node) -> Node:
        """The value in the source that a node is."""
        if node not in self._there:
            number = self.number(node)
            of_number = self._source.of_number
            if number not in of_number:
                operands = tuple([self.of(one) for one in node.inputs])
                of_number[number] = node.with_inputs(operands)
            self._there[node] = of_number[number]
        return self._there[node]
