"""Finds the states of a loop that only add up: their last value is a sum over its iterations."""

from __future__ import annotations

from collections import Counter

from chainrule.control.loops import Loop
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.sources import full


def accumulators(loop: Loop, body: Graph) -> dict[int, Node]:
    """What each iteration adds, by the place of the state among those of the loop.

    Such a state begins with zeros, and nothing in an iteration reads it but the sum.
    """
    uses = Counter(one for node in body.nodes for one in node.inputs)
    uses.update(node for _, node in body.outputs)
    found: dict[int, Node] = {}
    for place, one in enumerate(loop.carries):
        total, before = one.after, one.before
        if total.primitive is not add or uses[total] != 1 or uses[before] != 1:
            continue
        if before in total.inputs and _is_zero(one.initial):
            (found[place],) = (term for term in total.inputs if term is not before)
    return found


def _is_zero(node: Node) -> bool:
    while node.primitive in (broadcast_to, reshape, cast):
        node = node.inputs[0]
    return node.primitive is full and node.param("value") == 0
