"""Merges nodes with the same primitive, parameters and inputs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from chainrule.graph.body import with_bodies
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check, refuse_no_graph
from chainrule.graph.node import Node
from chainrule.graph.rebuild import resting_on
from chainrule.primitives.sources import full
from chainrule.tracebacks import entry
from chainrule.transforms.simplify import variables


@entry
@without_collector
def deduplicate(graph: Graph, frozen: Iterable[Node] = ()) -> Graph:
    """The graph in which no two nodes compute the same; their names become names of one node.

    Inputs are always different, closed-over arrays are the same if they are one object, and nodes
    in `frozen` stay what they are (others may become one of them).  Idempotent; values are
    unchanged bit for bit.
    """
    refuse_no_graph(graph, "cr.deduplicate(cr.trace(objective))")
    keep = {*frozen, *(item.node for item in graph.inputs)}
    new = deduplicated(graph.nodes, keep, graph.name_of)
    if all(old is node for old, node in new.items()):
        return graph
    return check(resting_on(graph, new))


def deduplicated(
    nodes: Iterable[Node], frozen: Iterable[Node], named: Container[Node] = ()
) -> dict[Node, Node]:
    """For each node (in topological order) the first that computes the same.

    A named node never becomes an unnamed frozen one, which would get its name: a constant 1 of
    the forward pass is not dJ/dL.  Variables of derivatives (`identity` nodes) stay: two of one
    value are two.
    """
    several = list(nodes)
    fixed = {*frozen, *variables(several)}
    seen: dict[Any, Node] = {}
    new: dict[Node, Node] = {}
    for one in several:
        node = one if one in fixed else with_bodies(one, "deduplicated", deduplicate)
        operands = node.inputs
        if any([new[parent] is not parent for parent in operands]):
            operands = tuple([new[parent] for parent in operands])
        # 0.0 and -0.0 are equal and not the same: uniform constants compare by their text
        params = repr(node.param("value")) if node.primitive is full else node.params
        key = (node.primitive, operands, params, node.type)
        if node in fixed:
            seen.setdefault(key, node)
            new[one] = node
            continue
        found = seen.get(key)
        if found is None or (one in named and found in fixed and found not in named):
            found = node
            if operands is not node.inputs:
                found = node.with_inputs(operands)
            seen[key] = found
        new[one] = found
    return new
