"""Parts a graph into statements: each named value, with the unnamed nodes that compute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from chainrule.dataclass import dataclass
from chainrule.explain.reading.symbols import parted
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import MOVING
from chainrule.primitives.sources import constant, full, iota, size_value

# Values without inputs: each statement that uses one has it inside.
GENERATED = (full, iota, size_value)


def is_repeated(node: Node) -> bool:
    """Whether every statement that uses the unnamed node has it inside, as if each made its own:
    uniform constants and positions, and other values cast or with their elements at other places.
    """
    if node.primitive in GENERATED or node.primitive is cast:
        return True
    return isinstance(node.primitive.kernel, MOVING) and len(node.inputs) == 1


class Direction(StrEnum):
    """Which way a pass goes through the program."""

    FORWARD = "forward"
    BACKWARD = "backward"
    TANGENT = "tangent"
    UPDATE = "update"


@dataclass(frozen=True)
class Pass:
    """One way through the program: forward (order 0), backward (1), backward again (2), ...

    Passes sort as they are run: by their order, the update after all others.
    """

    order: int
    direction: Direction

    def __lt__(self, other: Pass) -> bool:
        return self._place < other._place

    @property
    def _place(self) -> tuple[bool, int, str]:
        return self.direction is Direction.UPDATE, self.order, self.direction


PROGRAM = ("", "grad")  # what made the nodes of a program: operations, and its own derivatives
FORWARD = Pass(0, Direction.FORWARD)
UPDATE = Pass(1, Direction.UPDATE)


@dataclass(frozen=True, eq=False)
class Statement:
    """One named value: `inside` are the unnamed nodes that compute it, in topological order.

    `reads` are what these and the value itself read from elsewhere, in order of first use: named
    values, inputs, constants, and unnamed nodes inside other statements.  A node that `is_repeated`
    is inside every statement that uses it; every other unnamed node is inside exactly one, the
    first that needs it.
    """

    name: str
    value: Node
    inside: tuple[Node, ...]
    reads: tuple[Node, ...]
    during: Pass

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All that the statement computes; its value comes last."""
        return (*self.inside, self.value)

    @property
    def place(self) -> str:
        """`model.py:12`, or '' where nothing is known."""
        return self.value.origin.short()


@dataclass(frozen=True, eq=False)
class Contribution:
    """What the gradient of one value gets from `consumer`, a statement that reads that value.

    `upstream` is the gradient of the consumer's value, `terms` are the nodes that are added for
    it (one for each place where the consumer reads the value).
    """

    consumer: Statement
    upstream: Node | None
    terms: tuple[Node, ...]


class Reading:
    """The statements of a graph, and whose each node is."""

    def __init__(self, graph: Graph, names: Mapping[Node, str] | None = None) -> None:
        self.graph = graph
        self.names: Mapping[Node, str] = graph.name_of if names is None else names
        self.sources: Mapping[Node, str] = _sources(graph)
        self.statements: tuple[Statement, ...] = tuple(self._read())

    def _read(self) -> Iterator[Statement]:
        passes = self._passes
        claimed: set[Node] = set()
        for node in self.graph.nodes:
            if node not in self.names or node in self.sources:
                continue
            inside, reads = self._needed(node, claimed)
            claimed.update(one for one in inside if not is_repeated(one))
            yield Statement(self.names[node], node, inside, reads, passes[node])

    def _needed(self, value: Node, claimed: set[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The unnamed nodes that `value` needs and no earlier statement has; what they read."""
        inside: dict[Node, None] = {}
        reads: dict[Node, None] = {}
        stack: list[tuple[Node, int]] = [(value, 0)]
        while stack:
            node, position = stack.pop()
            if position == len(node.inputs):
                if node is not value:
                    inside[node] = None
                continue
            stack.append((node, position + 1))
            parent = node.inputs[position]
            if parent in inside:
                continue
            if parent in self.names or parent in self.sources or parent in claimed:
                reads[parent] = None
            else:
                stack.append((parent, 0))
        return tuple(inside), tuple(reads)

    @cached_property
    def statement_of(self) -> Mapping[Node, Statement]:
        """The statement in which each computed node is (of repeated values, the first)."""
        found: dict[Node, Statement] = {}
        for statement in self.statements:
            for node in statement.nodes:
                found.setdefault(node, statement)
        return found

    @cached_property
    def gradients(self) -> Mapping[Node, tuple[Gradient, ...]]:
        """Of which variables each node is the gradient (equal gradients are one node)."""
        found: dict[Node, list[Gradient]] = {}
        for gradient in self.graph.gradients:
            found.setdefault(gradient.value, []).append(gradient)
        return {node: tuple(several) for node, several in found.items()}

    @cached_property
    def _gradient_of(self) -> Mapping[tuple[str, Node], Node]:
        return {(one.of, one.wrt): one.value for one in self.graph.gradients}

    def gradient_of(self, variable: Node, of: str) -> Node | None:
        """The gradient of the value called `of` with respect to a variable; None if none is."""
        return self._gradient_of.get((of, variable))

    def contributions(self, gradient: Gradient) -> tuple[Contribution, ...]:
        """The terms of a gradient, taken together by the statement that reads the variable."""
        found: dict[Statement, list[Node]] = {}
        for term in gradient.terms:
            consumer = self.statement_of.get(term.consumer)
            if consumer is not None:
                found.setdefault(consumer, []).append(term.value)
        return tuple(
            Contribution(one, self.gradient_of(one.value, gradient.of), tuple(terms))
            for one, terms in found.items()
        )

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The passes of the graph, in order; the forward pass is there even if it is empty."""
        return tuple(sorted({FORWARD, *(one.during for one in self.statements)}))

    @cached_property
    def _passes(self) -> dict[Node, Pass]:
        """The pass in which each named value is computed."""
        forward = _forward(self.graph)
        found: dict[Node, Pass] = {}
        for node in self.graph.nodes:
            if node in self.names:
                found[node] = FORWARD if node in forward else self._derived_pass(node, found)
        return found

    def _derived_pass(self, node: Node, found: Mapping[Node, Pass]) -> Pass:
        """The pass of a value that a transform made."""
        targets = (self.graph.names.get(one.of) for one in self.gradients.get(node, ()))
        orders = [found[one].order for one in targets if one is not None and one in found]
        match node.origin.transform:
            case "update" | "accumulation":
                return UPDATE
            case "accuracy":  # is counted of what the forward pass gives
                return FORWARD
            case "jvp":
                return Pass(1, Direction.TANGENT)
            case _:
                return Pass(1 + min(orders, default=0), Direction.BACKWARD)


def _forward(graph: Graph) -> set[Node]:
    """What the user's own program computes, and all that this needs."""
    forward: set[Node] = {item.node for item in graph.inputs}
    for node in reversed(graph.nodes):
        if node.origin.transform in PROGRAM or node in forward:
            forward.add(node)
            forward.update(node.inputs)
    return forward


def _sources(graph: Graph) -> dict[Node, str]:
    """What is given and not computed: inputs by their names, constants by theirs or ''."""
    found = {item.node: item.name for item in graph.inputs}
    for node in graph.nodes:
        if node.primitive is constant:
            found[node] = graph.name_of.get(node) or node.param("value").name
    return found


def read(graph: Graph) -> Reading:
    """The graph as statements, in the order of the graph.

    Inputs and constants are no statements: they are among the `reads` of those that use them.
    """
    return Reading(graph)


def read_apart(graph: Graph) -> Reading:
    """As `read`, but no statement of the forward pass has the name of a gradient alone.

    An unnamed node of the forward pass may be the gradient of something: that of b in c * b is c in
    the shape of b.  It is inside the statement that uses it, as if it were no gradient.
    """
    forward = _forward(graph)
    gradients = {one.value for one in graph.gradients if one.value in forward}
    names = {
        node: name
        for node, name in graph.name_of.items()
        if node not in gradients or parted(name) is None
    }
    return Reading(graph, names)
