"""Cuts a concrete graph into pieces that run one by one, each a graph of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chainrule.dataclass import dataclass, field
from chainrule.devices.tensor.collectives import as_slice, own_part
from chainrule.graph.frozen import Frozen
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.words import names_of
from chainrule.primitives.sources import input_

PASSES = "passes"  # the purpose of a piece for both passes


@dataclass(frozen=True, eq=False)
class Piece(Frozen):
    """Some nodes of a graph, `nodes`, as a graph that runs alone.

    `reads` maps what it needs from outside, nodes of the whole graph, to its own inputs; `gives`
    maps what others need from it to its own nodes.
    """

    _called = "a piece of a graph"

    name: str
    graph: Graph
    nodes: tuple[Node, ...]
    reads: Mapping[Node, Node]
    gives: Mapping[Node, Node]
    places: Mapping[str, int] = field(default_factory=dict)  # of the ranks that run it

    @property
    def purpose(self) -> str:
        """What it is for, the first word of its name: forward, backward, gradients, update; or
        passes, both of them."""
        return self.name.split()[0]


def is_everywhere(nodes: Iterable[Node], without: Collection[Node] = ()) -> set[Node]:
    """The nodes that every piece computes for itself rather than have them sent: what is made of
    constants and scalar inputs alone, but for the inputs `without`."""
    found: set[Node] = set()
    for node in nodes:
        if node.inputs:
            if found.issuperset(node.inputs):
                found.add(node)
        elif node not in without and (node.primitive is not input_ or not node.shape):
            found.add(node)
    return found


def piece_of(
    graph: Graph,
    name: str,
    own: Collection[Node],
    gives: Collection[Node],
    shared: Collection[Node],
    places: Mapping[str, int] | None = None,
) -> Piece:
    """The piece that computes the nodes `own`, and gives some of them; it computes those of
    `shared` that it needs for itself.

    With `places`, of a rank in its groups, its own parts of values are slices.
    """
    needed = _with_shared({*own, *(node for node in gives if node in shared)}, shared)
    names = names_of(graph)
    new: dict[Node, Node] = {}
    reads: dict[Node, Node] = {}
    inputs: list[Input] = []
    defaults = {item.node: item.default for item in graph.inputs}

    def read(node: Node) -> Node:
        if node not in new:
            made = input_(index=len(inputs), type=node.type)
            object.__setattr__(made, "origin", node.origin)
            inputs.append(Input(names[node], made, defaults.get(node)))
            new[node] = reads[node] = made
        return new[node]

    made: list[Node] = []
    for node in graph.nodes:
        if node not in needed:
            continue
        if node.primitive is input_:
            read(node)
            continue
        parents = tuple(
            [read(parent) if parent not in needed else new[parent] for parent in node.inputs]
        )
        if places and node.primitive is own_part:
            new[node] = as_slice(node, parents[0], places[node.param("among")])
        else:
            new[node] = Node(node.primitive, parents, node.params, node.type, node.origin)
        made.append(new[node])
    return Piece(
        name,
        Graph(
            f"{graph.name}: {name}",
            tuple(inputs),
            tuple((names[node], new[node]) for node in gives),
            (*(item.node for item in inputs), *made),
            _names(graph, new, inputs, names),
        ),
        tuple(node for node in graph.nodes if node in own),
        reads,
        {node: new[node] for node in gives},
        places or {},
    )


def shared_of(piece: Piece) -> set[Node]:
    """The nodes that a piece computes for itself beside its own."""
    own = set(piece.nodes)
    found: set[Node] = set()
    pending = [*piece.nodes, *piece.gives]
    for node in pending:
        for one in node.inputs:
            if one not in own and one not in piece.reads and one not in found:
                found.add(one)
                pending.append(one)
    return found


def _with_shared(own: Collection[Node], shared: Collection[Node]) -> set[Node]:
    found, pending = set(own), list(own)
    while pending:
        for parent in pending.pop().inputs:
            if parent in shared and parent not in found:
                found.add(parent)
                pending.append(parent)
    return found


def _names(
    graph: Graph, new: Mapping[Node, Node], inputs: Iterable[Input], names: Mapping[Node, str]
) -> dict[str, Node]:
    """The user's names of what is in the piece, and one for each input."""
    found = {item.name: item.node for item in inputs}
    for name, node in graph.names.items():
        if node in new:
            found.setdefault(name, new[node])
    return found
