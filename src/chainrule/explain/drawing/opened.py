"""Iterations of loops and branches of choices, which are drawn as bands of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from chainrule.control import cond_primitive, scan_primitive, unwind
from chainrule.dataclass import dataclass
from chainrule.explain.drawing.expressions import constant_text, short_expression
from chainrule.explain.drawing.lettering import LOWERED_LETTERS, lowered
from chainrule.explain.reading.bodies import inner_graphs, is_loop_or_choice, results
from chainrule.explain.reading.iterations import Iteration
from chainrule.explain.reading.statements import Reading
from chainrule.explain.reading.symbols import Notation
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.types import array_type
from chainrule.primitives.sources import input_

LONGEST_CONDITION = 30  # characters
MOST_NODES = 120  # of all bodies that are drawn without being asked for


@dataclass(frozen=True)
class Sketch:
    """One body that is drawn: its title, a line about it, its nodes in the graph of the drawing.

    `is_derived` says whether a transform has made it.
    """

    title: str
    note: str
    nodes: frozenset[Node]
    is_derived: bool


@dataclass(frozen=True)
class Opened:
    """A graph that has the nodes of bodies, too; the bodies; how their values are written.

    `closed` are the loops and choices of which no body is drawn.
    """

    graph: Graph
    sketches: Sequence[Sketch]
    symbols: Mapping[str, str]
    closed: Sequence[Node]


def opened(
    reading: Reading, notation: Notation, expand: Collection[str], fold: str | Collection[str]
) -> Opened:
    """The graph with the bodies that are drawn: of the program's own loops and choices, where they
    are few and not folded, and of those that compute the values in `expand`."""
    asked = {
        node
        for statement in reading.statements
        if statement.name in expand
        for node in statement.nodes
    }
    opening = _Opening(reading.graph, notation)
    closed: list[Node] = []
    rest = MOST_NODES
    queue = [(node, 0) for node in reading.graph.nodes if is_loop_or_choice(node)]
    for holder, depth in queue:
        bodies = [body.graph for body in bodies_of(holder)]
        count = sum(len(body.nodes) for body in bodies)
        is_folded = fold == "all" or any(body.name in _names(fold) for body in bodies)
        is_small = not holder.origin.transform and count <= rest
        if holder in asked or fold == "none" or (is_small and not is_folded):
            rest -= count
            queue += [(node, depth + 1) for node in opening.add(holder, depth)]
        else:
            closed.append(holder)
    return Opened(opening.graph(), opening.sketches, opening.symbols, closed)


def without_bodies(reading: Reading, fold: str | Collection[str]) -> str | Collection[str]:
    """What is left to fold: names of functions that are no bodies."""
    if fold in ("auto", "none", "all"):
        return fold
    names = {body.graph.name for node in reading.graph.nodes for body in bodies_of(node)}
    rest = tuple(name for name in _names(fold) if name not in names)
    return rest or "none"


def _names(fold: str | Collection[str]) -> tuple[str, ...]:
    return (fold,) if isinstance(fold, str) else tuple(fold)


class _Opening:
    """Collects the nodes of bodies, with names that say which iteration they belong to."""

    def __init__(self, graph: Graph, notation: Notation) -> None:
        self.outer, self.notation = graph, notation
        self.sketches: list[Sketch] = []
        self.symbols: dict[str, str] = {}
        self.names = dict(graph.names)
        self.named = set(self.names.values())
        self.inputs = list(graph.inputs)
        self.nodes = list(graph.nodes)
        self.iterations: dict[Node, Iteration] = {}
        self.results: dict[Node, dict[int, str]] = {}  # their names, by loop and place
        for node, one in results(graph).items():
            if node in graph.name_of:
                self.results.setdefault(one.holder, {})[one.place] = graph.name_of[node]
        loops = filter(is_loop_or_choice, graph.nodes)
        self.outer_loops = {one for one in loops if one.primitive is not cond_primitive}
        self.titles: set[str] = set()
        self.inside = {name for body in inner_graphs(graph) for name in body.names}

    def graph(self) -> Graph:
        """The graph with all that was added."""
        if not self.sketches:
            return self.outer
        inputs, nodes = tuple(self.inputs), tuple(self.nodes)
        return self.outer.replace(inputs=inputs, nodes=nodes, names=self.names)

    def add(self, holder: Node, depth: int) -> list[Node]:
        """Add the bodies of a node; the loops and choices in them."""
        first = len(self.nodes)
        if holder.primitive is cond_primitive:
            condition = self._condition(holder.inputs[0])
            for key, words in (("if_true", "holds"), ("if_false", "does not hold")):
                body: Graph = holder.param(key).graph
                outside = dict(zip(_inner(body), holder.inputs[1:], strict=True))
                note = f"{{title}}, where {condition} {words} →"
                self._sketch(holder, body, outside, {}, note)
        else:
            self._loop(holder, depth)
        return [node for node in self.nodes[first:] if is_loop_or_choice(node)]

    def _condition(self, node: Node) -> str:
        """What decides a choice: `large > 1`."""
        names = {one: name for name, one in self.outer.names.items()}
        own = {one for one in self.outer.nodes if one not in names}

        def name(one: Node) -> str:
            return self.notation.text(names[one]) if one in names else constant_text(one)

        text = short_expression(node, own, name, LONGEST_CONDITION)
        return (text or "").replace("{", "").replace("}", "") or "the condition of cond"

    def _loop(self, holder: Node, depth: int) -> None:
        step = self._step(holder)
        letter = self._letter(depth)
        outside = {one.inner: one.outer for one in step.loop.constants}
        at = {node: (stem, letter, offset) for node, (stem, offset) in step.at.items()}
        loop = step.loop
        if holder.primitive is scan_primitive:
            ends = f"{loop.length}, …, 1" if loop.reverse else f"1, …, {loop.length}"
            self._sketch(
                holder, step.graph, outside, at, f"each iteration of {{title}}, {letter} = {ends} →"
            )
            return
        if holder.primitive is unwind:
            note = f"each iteration of {{title}}, from the last one back to {letter} = 1 →"
            self._sketch(holder, step.graph, outside, at, note)
            return
        self._sketch(holder, step.graph, outside, at, "each iteration of {title} →")
        condition: Graph = holder.param("condition").graph
        same = dict(zip(_inner(condition), _inner(step.graph), strict=True))
        outside = {node: outside[old] for node, old in same.items() if old in outside}
        at = {node: at[old] for node, old in same.items() if old in at}
        limit = holder.param("limit")
        most = "" if limit is None else f", for at most {limit:,} iterations"
        note = f"{{title}}: the loop goes on as long as this holds{most} →"
        self._sketch(holder, condition, outside, at, note)

    def _step(self, holder: Node) -> Iteration:
        found = self.iterations.get(holder)
        if found is None:
            before = holder.origin.node
            is_loop = before in self.outer_loops
            first = self._step(before) if before is not None and is_loop else None
            names = self.results.get(holder, {})
            found = self.iterations[holder] = Iteration(holder, self.outer, names, first)
        return found

    def _letter(self, depth: int) -> str:
        taken = {*self.outer.names, *self.outer.sizes, *self.inside}
        free = [one for one in LOWERED_LETTERS if one not in taken]
        return free[min(depth, len(free) - 1)] if free else "t"

    def _sketch(
        self,
        holder: Node,
        body: Graph,
        outside: Mapping[Node, Node],
        at: Mapping[Node, tuple[str, str, int]],
        note: str,
    ) -> None:
        """The nodes of one body: what it is given is read where it is, or is an input."""
        title, number = body.name, 1
        while title in self.titles:
            number += 1
            title = f"{body.name}_{number}"
        self.titles.add(title)
        new = dict(outside)
        made: list[Node] = []
        read = {one for node in body.nodes for one in node.inputs}
        read |= {node for _, node in body.outputs}
        for item in body.inputs:
            if item.node not in new and item.node in read:
                type_ = array_type(item.type.dtype, item.type.shape)
                new[item.node] = input_(index=-1, type=type_)
                name = self._name(title, at.get(item.node, (item.name, "", 0)), new[item.node])
                self.inputs.append(Input(name, new[item.node]))
                made.append(new[item.node])
        for node in body.nodes:
            if node not in new and (node.inputs or node in read):
                inputs = tuple([new[one] for one in node.inputs])
                new[node] = Node(node.primitive, inputs, node.params, node.type, node.origin)
                made.append(new[node])
                if node in at or node in body.name_of:
                    self._name(title, at.get(node, (body.name_of.get(node, ""), "", 0)), new[node])
        inside = frozenset(made)
        for name, node in body.outputs:
            if new[node] in inside and new[node] not in self.named:
                self._name(title, (name, "", 0), new[node])
        self.nodes += made
        is_derived = bool(holder.origin.transform)
        self.sketches.append(Sketch(title, note.format(title=title), inside, is_derived))

    def _name(self, title: str, at: tuple[str, str, int], node: Node) -> str:
        """Give a value a name in the drawing, by the body that it is in."""
        stem, letter, offset = at
        sign = {0: "", 1: "+1", -1: "−1"}[offset]
        wish = f"{title}.{stem}" + (
            f"_{{{letter}{sign}}}" if sign else f"_{letter}" if letter else ""
        )
        name, number = wish, 1
        while name in self.names:
            number += 1
            name = f"{wish}#{number}"
        self.names[name] = node
        self.named.add(node)
        self.symbols[name] = self.notation.text(stem) + lowered(letter + sign)
        return name


def _inner(body: Graph) -> list[Node]:
    return [item.node for item in body.inputs]
