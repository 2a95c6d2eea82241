"""A `Body` is a graph as a static parameter of a node: an iteration of a loop, or a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


class Body:
    """A graph, equal to others that compute the same; names and origins do not count.

    It has no constants, guards or conditions of its own: constants are inputs, and what tracing
    could not prove is noted with the graph around it.  `note` is what plans and reports say of it,
    of a loop that a transform has made.
    """

    def __init__(self, graph: Graph, note: str = "") -> None:
        self.graph, self.note = graph, note
        self.made: dict[Any, Any] = {}  # what executors have made of it

    @cached_property
    def key(self) -> str:
        """What is computed, as text."""
        return self.graph.structural_hash

    def bind(self, values: Mapping[str, int]) -> Body:
        """The body with named sizes replaced by integers."""
        from chainrule.graph.bind import with_sizes

        return Body(with_sizes(self.graph, values))

    def transformed(self, name: str, transform: Callable[[Graph], Graph]) -> Body:
        """The body after a transform that keeps inputs, outputs and their types; itself where that
        changes nothing.  Remembered by the transform's name."""
        found = self.made.get(name)
        if found is None:
            graph = transform(self.graph)
            found = self if graph is self.graph else Body(graph)
            self.made[name] = found
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Body) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.graph.name

    def __repr__(self) -> str:
        return f"<body {self.key}>"


class Scanned(NamedTuple):
    """`body` done `length` times.

    It reads `constants` values as they are, then `carries` values, which its first outputs replace,
    then one row of each further operand, from the last row on if `reverse`.  Its other outputs are
    rows, too: the result holds the last carries of its dtype, then the stacked rows of each of
    these.
    """

    body: Body
    constants: int
    carries: int
    length: int
    reverse: bool


class Whiled(NamedTuple):
    """`body` done as long as `condition` holds, a boolean of the same operands: `constants` values
    as they are, then `carries` values.  More than `limit` iterations are a failure; None: there is
    no limit.  The result holds the last carries of its dtype."""

    body: Body
    condition: Body
    constants: int
    carries: int
    limit: int | None


class Unwound(NamedTuple):
    """The iterations of a `Whiled` of `step`, gone back through by `body`, from the last one on.

    `condition` and `step` read `constants` values as they are, then `states` values, which `step`
    replaces; `body` reads the constants, the states that an iteration began with, and carries,
    which it replaces.  It reads the states at the places `read`; those are kept for `length`
    iterations at a time, a segment, and all states for the first one of each.  The result holds the
    last carries of its dtype."""

    body: Body
    condition: Body
    step: Body
    constants: int
    states: int
    limit: int
    read: tuple[int, ...]
    length: int


class Chosen(NamedTuple):
    """One of two bodies done, by the first operand, on the other operands; the result holds what it
    gives."""

    if_true: Body
    if_false: Body


Flow = Scanned | Whiled | Unwound | Chosen


def bodies_of(node: Node) -> Iterator[Body]:
    """The bodies that a node holds."""
    return (value for _, value in node.params if isinstance(value, Body))


def inner_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes in bodies of nodes of the graph, and in their bodies."""
    pending = [body for node in graph.nodes for body in bodies_of(node)]
    while pending:
        for node in pending.pop().graph.nodes:
            yield node
            pending += bodies_of(node)


def holds_bodies(node: Node) -> bool:
    """Whether a node holds bodies."""
    for _, value in node.params:  # no generator: transforms ask this of every node
        if type(value) is Body:
            return True
    return False


def with_bodies(node: Node, name: str, transform: Callable[[Graph], Graph]) -> Node:
    """The node with its bodies transformed; itself where it holds none, or where none changes."""
    if not holds_bodies(node):
        return node
    params = tuple(
        [
            (key, value.transformed(name, transform) if isinstance(value, Body) else value)
            for key, value in node.params
        ]
    )
    if all(one is other for (_, one), (_, other) in zip(params, node.params, strict=True)):
        return node
    return type(node)(node.primitive, node.inputs, params, node.type, node.origin)
