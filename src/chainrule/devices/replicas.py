"""Lets replicas of one machine add gradients up while they update by them.

They read what all replicas have where it is: nothing is added up before, and nobody waits for that.
Of replicas that are threads, the first one updates for all; processes each update their own arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from chainrule.devices.pieces import Piece
from chainrule.devices.rank import Code
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.parts import Input
from chainrule.primitives.arithmetic import add
from chainrule.primitives.sources import input_

OfAll = Mapping[Node, tuple[Node, ...]]


def adding(piece: Piece, sums: Collection[Node], count: int) -> tuple[Piece, OfAll]:
    """The piece that adds the values of so many replicas, in the order of ranks, where it read
    sums, which are nodes of the whole graph; and by these, its inputs for the values of all
    replicas.
    """
    graph = piece.graph
    names = {item.node: item.name for item in graph.inputs}
    inputs, added = list(graph.inputs), list[Node]()
    new: dict[Node, Node] = {}
    of_all: dict[Node, tuple[Node, ...]] = {}
    for node, own in piece.reads.items():
        if node in sums:
            total, more = own, []
            for replica in range(1, count):
                more.append(input_(index=len(inputs), type=own.type))
                inputs.append(Input(f"{names[own]} of replica {replica}", more[-1]))
                total = add(total, more[-1])
                added.append(total)
            stamp((total,), own.origin)
            new[own], of_all[node] = total, (own, *more)
    for node in graph.nodes:
        if node.primitive is not input_:
            parents = tuple([new.get(one, one) for one in node.inputs])
            new[node] = Node(node.primitive, parents, node.params, node.type, node.origin)
            added.append(new[node])
    made = Graph(
        graph.name,
        tuple(inputs),
        tuple([(name, new.get(node, node)) for name, node in graph.outputs]),
        (*(item.node for item in inputs), *added),
        {name: new.get(node, node) for name, node in graph.names.items()}
        | {item.name: item.node for item in inputs},
    )
    gives = {node: new.get(one, one) for node, one in piece.gives.items()}
    return replace(piece, graph=made, gives=gives), of_all


def codes(
    made: Sequence[Code],
    read: Mapping[int, Mapping[int, tuple[Node, ...]]],
    shown: Mapping[tuple[int, int], np.ndarray],
) -> list[Code]:
    """The code of all pieces, of which some `read` what replicas have `shown`, by replica and
    number.

    `read` has the inputs for it, by the number of the piece and that of the value.
    """
    return [_reading(one, read.get(number, {}), shown) for number, one in enumerate(made)]


def _reading(
    code: Code,
    read: Mapping[int, tuple[Node, ...]],
    shown: Mapping[tuple[int, int], np.ndarray],
) -> Code:
    if not read:
        return code

    def run(
        given: dict[Node, np.ndarray], into: Mapping[Node, np.ndarray]
    ) -> Mapping[Node, np.ndarray]:
        of_all = {
            node: shown[replica, number]
            for number, nodes in read.items()
            for replica, node in enumerate(nodes)
        }
        return code(given | of_all, into)

    return run
