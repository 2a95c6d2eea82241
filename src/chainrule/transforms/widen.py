"""Writes operations on bfloat16 as what they are: casts to float32, the operation, a cast back."""

from __future__ import annotations

import numpy as np

from chainrule.graph.body import inner_nodes, with_bodies
from chainrule.graph.dtypes import FLOAT32, is_bfloat16
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, topological
from chainrule.graph.rebuild import substituted
from chainrule.primitives.logic import cast


def widen(graph: Graph) -> Graph:
    """The graph in which only casts, moves and loops are of bfloat16; the same bits.

    Each operation has casts of its own, so that no float32 copy is kept for a later one: between
    operations, values are stored in bfloat16.  The graph itself where nothing is of bfloat16;
    nodes that compute nothing in it stay.
    """
    if not has_bfloat16(graph):
        return graph
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        new[node] = _widened(node, tuple([new[one] for one in node.inputs]))
    return check(substituted(graph, new, tuple(topological(new.values()))))


def has_bfloat16(graph: Graph) -> bool:
    """Whether a value of the graph, or of a loop's body, is of bfloat16."""
    if any([is_bfloat16(node.dtype) for node in graph.nodes]):
        return True
    return any(is_bfloat16(node.dtype) for node in inner_nodes(graph))


def _widened(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node on inputs of its types, in float32 where that is how it is computed."""
    if not (node.primitive.widens and any([is_bfloat16(one.dtype) for one in inputs])):
        node = node if inputs == node.inputs else node.with_inputs(inputs)
        return with_bodies(node, "widened", widen)
    wide = tuple([_cast(one, FLOAT32, node) if is_bfloat16(one.dtype) else one for one in inputs])
    if not is_bfloat16(node.dtype):
        return node.with_inputs(wide)
    type_ = node.type.with_dtype(FLOAT32, node.type.weak)
    made = type(node)(node.primitive, wide, node.params, type_, node.origin)
    return _cast(made, node.dtype, node)


def _cast(value: Node, dtype: np.dtype, by: Node) -> Node:
    """The value in another dtype, for the operation `by`."""
    params = (("dtype", dtype), ("weak", value.type.weak))
    type_ = value.type.with_dtype(dtype, value.type.weak)
    return type(by)(cast, (value,), params, type_, by.origin)
