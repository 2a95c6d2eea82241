"""Finds what a value was computed from, through casts and reshapes: norms, softmax, sums."""

from __future__ import annotations

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import (
    divide,
    exp,
    integer_power,
    multiply,
    sqrt,
    stop_gradient,
)
from chainrule.primitives.indexing import gather
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import MOVING
from chainrule.primitives.reduce import sum_


def root(node: Node) -> Node:
    """The value that casts and rearrangements of one input show."""
    while len(node.inputs) == 1 and (
        node.primitive in (cast, stop_gradient) or isinstance(node.primitive.kernel, MOVING)
    ):
        node = node.inputs[0]
    return node


def is_softmax(node: Node) -> bool:
    """Whether the value is an exponential divided by a sum of exponentials, or some of these."""
    node = root(node)
    while node.primitive is gather:
        node = root(node.inputs[0])
    if node.primitive is not divide:
        return False
    above, below = node.inputs
    return root(above).primitive is exp and is_sum_of_exponentials(below)


def is_sum_of_exponentials(node: Node) -> bool:
    """Whether the value is a sum of exponentials over axes."""
    node = root(node)
    return node.primitive is sum_ and root(node.inputs[0]).primitive is exp


def spread_of(node: Node) -> str:
    """What a root is of: "norm" (a sum of squares), "standard deviation" (a mean), "" (another)."""
    node = root(node)
    if node.primitive is not sqrt:
        return ""
    inner = root(node.inputs[0])
    divided = inner.primitive is divide
    total = root(inner.inputs[0]) if divided else inner
    if total.primitive is not sum_ or not _is_square(root(total.inputs[0])):
        return ""
    return "standard deviation" if divided else "norm"


def _is_square(node: Node) -> bool:
    if node.primitive is integer_power:
        return node.param("exponent") == 2
    return node.primitive is multiply and node.inputs[0] is node.inputs[1]
