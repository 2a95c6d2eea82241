"""Compute equal things once: nodes with the same primitive, parameters and inputs become one."""

from __future__ import annotations

from typing import Any

from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node
from chainrule.graph.rebuild import rebuild


def deduplicate(graph: Graph) -> Graph:
    """The graph in which no two nodes compute the same; their names become names of one node.

    Inputs are always different.  Idempotent; values are unchanged bit for bit.
    """
    inputs = {item.node for item in graph.inputs}
    seen: dict[Any, Node] = {}

    def once(node: Node, operands: tuple[Node, ...]) -> Node:
        if node in inputs:
            return node
        key = (node.primitive, operands, repr(node.params), node.params, node.type)
        found = seen.get(key)
        if found is None:
            found = node
            if operands != node.inputs:
                found = type(node)(node.primitive, operands, node.params, node.type, node.origin)
            seen[key] = found
        return found

    return check(rebuild(graph, once))
