"""Cuts the graph of a step into a chain of elements, and finds those that repeat: its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass
from chainrule.devices.parts import Parts
from chainrule.devices.pieces import is_everywhere
from chainrule.graph.node import Node, topological
from chainrule.primitives.sources import input_

Signature = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Element:
    """A part of the chain: its nodes of the two passes, in order.

    `awaited` are those of the backward pass that elements before it wait for.  `entering` are the
    values of the forward pass that it reads from elements before it, `leaving` is the last of its
    own, `parameters` are those that no element before it reads.  Elements with the same `signature`
    compute the same of arrays with the same types.
    """

    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    awaited: frozenset[Node]
    entering: tuple[Node, ...]
    leaving: Node
    parameters: tuple[Node, ...]
    signature: Signature

    @property
    def kept(self) -> tuple[Node, ...]:
        """The values of the forward pass that its backward pass reads."""
        return self.read_by(self.backward)

    def read_by(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The values of the forward pass that some nodes read."""
        known = {*self.forward, *self.entering}
        return tuple(dict.fromkeys(one for node in nodes for one in node.inputs if one in known))


@dataclass(frozen=True, eq=False)
class Chain:
    """The elements one after the other; `layers` says which are the repeated ones: from where to
    where, or an empty range."""

    elements: tuple[Element, ...]
    layers: range

    def name(self, at: int) -> str:
        """`before`, `layer 3` or `after`; `part 2` where nothing repeats."""
        if not self.layers:
            return f"part {at}"
        if at in self.layers:
            return f"layer {at - self.layers.start}"
        return "before" if at < self.layers.start else "after"


def chain_of(parts: Parts, parameters: Sequence[str]) -> Chain:
    """The chain of a step's passes at some sizes.

    It is cut wherever one value alone goes on.  Parts that repeat become one element for each
    layer, and what is before or after them one each.
    """
    graph = parts.summing
    inputs = {item.name: item.node for item in graph.inputs}
    trained = {inputs[name] for name in parameters}
    everywhere = is_everywhere(graph.nodes)
    forward = [
        node
        for node in topological([graph.names[parts.objective]])
        if node not in everywhere and node.primitive is not input_
    ]
    atoms = _atoms(forward)
    backward = _backward(parts, forward, everywhere, atoms)
    alike = _signatures(atoms, trained)
    start, period, count = _repeats(alike, [len(one) for one in atoms])
    if count < 2:
        groups = [[at] for at in range(len(atoms))]
        layers = range(0)
    else:
        ends = [start + period * number for number in range(count + 1)]
        groups = [list(range(a, b)) for a, b in pairwise(ends)]
        before, after = list(range(start)), list(range(ends[-1], len(atoms)))
        groups = [*([before] if before else []), *groups, *([after] if after else [])]
        layers = range(bool(before), bool(before) + count)
    forward_of = [[node for at in group for node in atoms[at]] for group in groups]
    backward_of = [[node for at in group for node in backward[at]] for group in groups]
    return Chain(_elements(forward_of, backward_of, trained), layers)


def _atoms(forward: Sequence[Node]) -> list[list[Node]]:
    """The forward pass, cut after each value that alone goes on."""
    place = {node: at for at, node in enumerate(forward)}
    last = dict.fromkeys(forward, -1)
    for node in forward:
        for one in node.inputs:
            if one in last:
                last[one] = max(last[one], place[node])
    found: list[list[Node]] = [[]]
    alive: set[Node] = set()
    ending: dict[int, list[Node]] = {}
    for at, node in enumerate(forward):
        found[-1].append(node)
        alive.difference_update(ending.pop(at, ()))
        if last[node] > at:
            alive.add(node)
            ending.setdefault(last[node], []).append(node)
        if alive == {node}:
            found.append([])
    return [one for one in found if one]


def _backward(
    parts: Parts,
    forward: Sequence[Node],
    everywhere: set[Node],
    atoms: Sequence[Sequence[Node]],
) -> list[list[Node]]:
    """The backward pass of each atom: a node is where the value is for which it is made, and not
    behind what it reads; sums are where what they add is."""
    place = {node: at for at, atom in enumerate(atoms) for node in atom}
    found: dict[Node, int] = {}
    made: list[list[Node]] = [[] for _ in atoms]
    known = set(forward)
    for node in parts.summing.nodes:
        if node in known or node in everywhere or node.primitive is input_:
            continue
        source = node.origin.node
        at = len(atoms) - 1 if source is None else place.get(source, len(atoms) - 1)
        found[node] = min([at, *(found[one] for one in node.inputs if one in found)])
        made[found[node]].append(node)
    return made


def _signatures(groups: Sequence[Sequence[Node]], trained: set[Node]) -> list[Signature]:
    """What each group of nodes computes, of which kinds of values."""
    found: list[Signature] = []
    for nodes in groups:
        number = {node: at for at, node in enumerate(nodes)}

        def read(one: Node, number: Mapping[Node, int] = number) -> object:
            return number.get(one, (one.type, one in trained))

        found.append(
            tuple(
                (node.primitive.name, node.params, node.type, *map(read, node.inputs))
                for node in nodes
            )
        )
    return found


def _repeats(signatures: Sequence[Signature], sizes: Sequence[int]) -> tuple[int, int, int]:
    """Where the longest repetition begins, how many atoms repeat, and how often.

    It is the one that covers most nodes, of the shortest period.
    """
    numbers: dict[Signature, int] = {}
    names = [numbers.setdefault(one, len(numbers)) for one in signatures]
    best, most = (0, len(names), 1), 0
    for period in range(1, len(names) // 2 + 1):
        at = 0
        while at + period < len(names):
            end = at
            while end + period < len(names) and names[end] == names[end + period]:
                end += 1
            count = (end - at) // period + 1
            covered = sum(sizes[at : at + count * period])
            if count > 1 and covered > most:
                best, most = (at, period, count), covered
            at = max(end, at + 1)
    return best if 2 * most >= sum(sizes) else (0, len(names), 1)


def _elements(
    forward: Sequence[Sequence[Node]], backward: Sequence[Sequence[Node]], trained: set[Node]
) -> tuple[Element, ...]:
    everyone = {node for nodes in forward for node in nodes}
    place = {node: at for at, nodes in enumerate(backward) for node in nodes}
    sent = {one for node, at in place.items() for one in node.inputs if place.get(one, at) != at}
    signatures = _signatures([(*a, *b) for a, b in zip(forward, backward, strict=True)], trained)
    found, taken = [], set[Node]()
    for nodes, back, signature in zip(forward, backward, signatures, strict=True):
        own = set(nodes)
        read = list(dict.fromkeys(one for node in (*nodes, *back) for one in node.inputs))
        new = tuple(one for one in read if one in trained and one not in taken)
        taken.update(new)
        awaited = {node for node in back if node in sent}
        for node in reversed(back):
            if node in awaited:
                awaited.update(node.inputs)
        awaited.intersection_update(back)
        found.append(
            Element(
                tuple(nodes),
                tuple(back),
                frozenset(awaited),
                tuple(one for one in read if one in everyone and one not in own),
                nodes[-1],
                new,
                (len(new), len(awaited), *signature),
            )
        )
    return tuple(found)
