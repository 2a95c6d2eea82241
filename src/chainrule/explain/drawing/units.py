"""Which nodes share a circle: a named value and the unnamed nodes that compute it, or one node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.expressions import is_silent, symbol_scopes
from chainrule.explain.drawing.lanes import Lanes
from chainrule.explain.reading.statements import (
    GENERATED,
    Direction,
    Pass,
    Reading,
    Statement,
    is_repeated,
)
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.primitive import Contract
from chainrule.primitives.sources import constant

HIDDEN = (*GENERATED, cast, broadcast_to)  # never a circle of its own, unless it is named


@dataclass(frozen=True, eq=False)
class Unit:
    """The nodes of one circle, in topological order; the last one is its value.

    `name` is '' for a value that has none: arrows then go from circle to circle.  `reads` are
    values of other units and sources, in order of first use.  `alone`: one primitive by itself.
    """

    key: str
    name: str
    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]
    statement: Statement
    alone: bool

    @property
    def value(self) -> Node:
        """What the circle computes."""
        return self.nodes[-1]

    @property
    def during(self) -> Pass:
        """The pass in which it is computed."""
        return self.statement.during


class Units:
    """The statements of a graph as units; whose each node is; which sources are drawn."""

    def __init__(
        self,
        reading: Reading,
        detail: str,
        expand: Collection[str] = (),
        lanes: Lanes | None = None,
    ) -> None:
        self.reading, self.lanes = reading, lanes
        self.detail = detail
        self.expanded = set(expand)
        self.sources: Mapping[Node, str] = self._drawn_sources()
        self.owners: dict[Node, list[Unit]] = {}
        self.all: tuple[Unit, ...] = tuple(self._units())

    def _drawn_sources(self) -> dict[Node, str]:
        """Array inputs and constants, and scalars that are differentiated or have no default."""
        graph = self.reading.graph
        wrt = {one.wrt for one in graph.gradients if one.value in graph.name_of}
        inside = {
            item.node
            for item in graph.inputs
            if not item.node.ndim
            and (item.default is not None or item.node.type.weak)
            and item.node not in wrt
        }
        return {
            node: name
            for node, name in self.reading.sources.items()
            if node not in inside and (node.primitive is not constant or node.ndim or name)
        }

    def _units(self) -> Iterator[Unit]:
        shared = self._shared()
        for number, statement in enumerate(self.reading.statements):
            for place, nodes in enumerate(self._split(statement, shared)):
                name = statement.name if nodes[-1] is statement.value else ""
                key = name or f"{number}.{place}"
                alone = self._is_opened(statement)
                unit = Unit(key, name, nodes, self._reads(nodes), statement, alone)
                for node in nodes:
                    self.owners.setdefault(node, []).append(unit)
                yield unit

    def _is_opened(self, statement: Statement) -> bool:
        return self.detail == "primitives" or statement.name in self.expanded

    def _shared(self) -> set[Node]:
        """Unnamed values inside one statement that another of the same direction reads too, or
        another lane."""
        lanes = self.lanes
        sent = {
            read
            for statement in self.reading.statements
            for node in (statement.nodes if lanes is not None else ())
            for read in node.inputs
            if lanes is not None and lanes.crosses(node, read)
            if read in statement.inside and not is_repeated(read)
        }
        return sent | {
            node
            for statement in self.reading.statements
            for node in statement.reads
            if node not in self.reading.names
            and node not in self.reading.sources
            and self.reading.statement_of[node].during == statement.during
            and statement.during.direction is not Direction.BACKWARD
        }

    def _of_sums(self, statement: Statement) -> set[Node]:
        """The matrix products that a sum in a statement adds, and the sum where more follows."""
        found: set[Node] = set()
        if statement.during.direction is not Direction.FORWARD:
            return found
        inside = set(statement.inside)
        sums: set[Node] = set()
        for node in statement.nodes:
            if node.primitive is not add or not node.ndim or symbol_scopes(node):
                continue
            for operand in node.inputs:
                while operand in inside and is_silent(operand):
                    operand = operand.inputs[0]
                if operand in sums:
                    sums.add(node)
                elif operand in inside and isinstance(operand.primitive.kernel, Contract):
                    if not symbol_scopes(operand):
                        found.add(operand)
                        sums.add(node)
        added = {one for node in sums for one in node.inputs}
        return found | {node for node in sums if node in inside and node not in added}

    def _split(self, statement: Statement, shared: set[Node]) -> Iterator[tuple[Node, ...]]:
        """The nodes of a statement as units: the value with what it needs, and each shared one."""
        if self._is_opened(statement):
            for node in statement.inside:
                if node.primitive not in HIDDEN and node not in self.owners:
                    yield (node,)
            yield (statement.value,)
            return
        apart = shared | self._of_sums(statement)
        roots = [node for node in statement.inside if node in apart]
        if not roots:
            yield statement.nodes
            return
        inside = set(statement.inside)
        taken: set[Node] = set(roots)
        for root in (*roots, statement.value):
            stack, found = [root], {root}
            while stack:
                for parent in stack.pop().inputs:
                    if parent in inside and parent not in taken and parent not in found:
                        found.add(parent)
                        stack.append(parent)
            taken.update(node for node in found if not is_repeated(node))
            yield tuple(node for node in statement.nodes if node in found)

    def _reads(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        own = set(nodes)
        found: dict[Node, None] = {}
        for node in nodes:
            for parent in node.inputs:
                origin = self.resolved(parent, own)
                if origin is not None and origin not in own:
                    found[origin] = None
        return tuple(found)

    def resolved(self, node: Node, own: Collection[Node] = ()) -> Node | None:
        """The drawn value that a node stands for: itself, or what it is a cast or a view of.

        None for what is drawn nowhere: scalars without a box, uniform constants.
        """
        while node not in own:
            if node in self.sources:
                return node
            if node in self.reading.names and node not in self.reading.sources:
                return node
            if node in self.reading.sources or node.primitive in GENERATED:
                return None
            if node in self.owners and not self._passes(node):
                return node
            if not node.inputs:
                return None
            node = node.inputs[0]
        return node

    def _passes(self, node: Node) -> bool:
        """Whether an unnamed node is looked through: its elements are those of its input."""
        if self.detail == "primitives":
            return False
        owner = self.owners[node][0]
        return is_repeated(node) and not (len(owner.nodes) == 1 and owner.value is node)
