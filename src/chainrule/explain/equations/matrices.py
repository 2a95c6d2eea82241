"""Knows the identity matrix and diagonal matrices by how derivatives and programs make them."""

from __future__ import annotations

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import add
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.logic import cast, equal
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.sources import full, iota


def is_identity(node: Node) -> bool:
    """Whether a node is the identity matrix: 1 where row and column are the same number."""
    if node.primitive is not cast or node.ndim != 2 or node.inputs[0].primitive is not equal:
        return False
    return {_numbered_axis(one) for one in node.inputs[0].inputs} == {0, 1}


def _numbered_axis(node: Node) -> int | None:
    """The axis of a matrix along which its elements are 0, 1, 2, ..."""
    while node.primitive is broadcast_to:
        (node,) = node.inputs
    if node.primitive is reshape and node.shape == (*node.inputs[0].shape, 1):
        return 0 if node.inputs[0].primitive is iota else None
    return 1 if node.primitive is iota else None


def is_diagonal(node: Node) -> bool:
    """Whether a node is a matrix with the elements of a vector in its diagonal."""
    if node.primitive is not scatter_add or len(node.inputs) != 3:
        return False
    u, rows, columns = node.inputs
    is_square = node.shape == (*u.shape, *u.shape) and u.ndim == 1
    return is_square and _is_counted(rows) and _is_counted(columns)


def _is_counted(node: Node) -> bool:
    """Whether a node is 0, 1, 2, ..., perhaps plus 0."""
    while node.primitive is add and node.inputs[1].primitive is full:
        if node.inputs[1].param("value") != 0:
            return False
        node = node.inputs[0]
    return node.primitive is iota
