"""Finds the operations that are at a kink: there a derivative is a convention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic
from chainrule.run.reference import evaluate
from chainrule.transforms.vjp import depends_on


def kinks(graph: Graph, arrays: Sequence[np.ndarray]) -> list[Node]:
    """Each operation that is at a kink there, and through which derivatives flow.

    An absolute value of 0, and a maximum or minimum that ties with what no derivative flows
    through.  Of a `np.where`, and of ties between two values that change, nothing is said: both
    may be of one smooth function.
    """
    active = depends_on(graph.nodes, [item.node for item in graph.inputs if item.type.is_float])
    found: list[Node] = []

    def look(node: Node, values: Mapping[Node, np.ndarray]) -> None:
        if node not in active:
            return
        given = [values[one] for one in node.inputs]
        if node.primitive is arithmetic.absolute:
            ties = given[0] == 0
        elif node.primitive in (arithmetic.maximum, arithmetic.minimum):
            ties = (given[0] == given[1]) & (sum(one in active for one in node.inputs) == 1)
        else:
            return
        if np.any(ties):
            found.append(node)

    inputs = dict(zip((item.node for item in graph.inputs), arrays, strict=True))
    with np.errstate(all="ignore"):
        evaluate(graph, inputs, [node for _, node in graph.outputs], watch=look)
    return found
