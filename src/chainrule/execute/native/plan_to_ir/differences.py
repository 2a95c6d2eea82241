"""Which additions are differences: of equal products they must be 0, as in NumPy."""

from __future__ import annotations

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import divide, multiply, negative
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.sources import full

DEEPEST = 4  # products of products that are looked into


def is_negated(node: Node, depth: int = DEEPEST) -> bool:
    """Whether the program negates the value, or one of the factors that it is made of."""
    while node.primitive in (broadcast_to, cast, reshape):
        node = node.inputs[0]
    if node.primitive is full:
        return node.param("value") < 0
    if node.primitive is negative:
        return True
    is_made = node.primitive in (multiply, divide) and depth > 0
    return is_made and any(is_negated(one, depth - 1) for one in node.inputs)
