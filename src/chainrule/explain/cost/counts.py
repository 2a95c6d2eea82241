"""Counts the cost of one node: its operations, the bytes it reads and writes, its phase."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from chainrule.control.cost import summed
from chainrule.explain.memory.polynomials import Polynomial
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.movement import broadcast_to, reshape, slice_, transpose
from chainrule.primitives.primitive import Gather, Linear, Map
from chainrule.primitives.sources import constant, full, input_, size_value

VIEWS = (reshape, transpose, broadcast_to, slice_)
GIVEN = (input_, constant)
STATIC = (full, size_value)  # one number, which no array holds


class Phase(StrEnum):
    """A part of a training step, in the order of time; a tangent is what forward mode adds."""

    FORWARD = "forward"
    TANGENT = "tangent"
    BACKWARD = "backward"
    UPDATE = "update"


_MADE_BY = {
    "jvp": Phase.TANGENT,
    "backward": Phase.BACKWARD,
    "vjp": Phase.BACKWARD,
    "update": Phase.UPDATE,
    "accumulation": Phase.UPDATE,
}


def phase_of(node: Node) -> Phase:
    """The phase of a node, by the transform that made it; the program's own is forward.

    What is made of a node for a batch is of that node's phase.
    """
    origin = node.origin
    while origin.transform == "batch" and origin.node is not None:
        origin = origin.node.origin
    return _MADE_BY.get(origin.transform, Phase.FORWARD)


def is_view(node: Node) -> bool:
    """Whether the node moves nothing: the same bytes, seen in another way."""
    return node.primitive in VIEWS or node.primitive.kernel == Map("x")


def read_nbytes(node: Node) -> Polynomial:
    """The bytes behind a value when all of it is read once: a repeated row is one row."""
    while is_view(node) and node.primitive is not slice_:
        node = node.inputs[0]
    if node.primitive is slice_:
        return node.type.nbytes if read_nbytes(node.inputs[0]) != 0 else 0
    return 0 if node.primitive in STATIC else node.type.nbytes


def moved_nbytes(node: Node) -> Polynomial:
    """The bytes that a node reads and writes when it runs alone, each operand once.

    What is given, views, and arrays of one number that nothing holds move none.  A lookup reads as
    many elements as it gives, not the whole table.  A loop or a choice moves what the nodes of its
    bodies move (see `summed`), and its result.
    """
    if is_view(node) or node.primitive in (*GIVEN, *STATIC):
        return 0
    if holds_bodies(node):
        return node.type.nbytes + summed(node, moved_nbytes)
    operands = list(dict.fromkeys(node.inputs))
    total: Polynomial = node.type.nbytes
    if isinstance(node.primitive.kernel, Gather) and _looks_up(node):
        total += node.type.nbytes
        operands = list(dict.fromkeys(node.inputs[1:]))
    for one in operands:
        total += read_nbytes(one)
    return total


def _looks_up(node: Node) -> bool:
    """Whether the elements of the result are some of the first operand's, at given places."""
    linear = isinstance(node.primitive.derivative, Linear)
    return linear and all(key != "shape" for key, _ in node.params)


def carried(graph: Graph) -> Mapping[Node, Node | None]:
    """For each node the named value that it is computed for: itself, or that of its first user."""
    named = graph.name_of
    user: dict[Node, Node] = {}
    for node in graph.nodes:
        for parent in node.inputs:
            user.setdefault(parent, node)
    found: dict[Node, Node | None] = {}
    for node in reversed(graph.nodes):
        found[node] = node if node in named else found.get(user[node]) if node in user else None
    return found
