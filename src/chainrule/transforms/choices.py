"""Rewrite rules for choices: known conditions, and repeated choices by one condition."""

from __future__ import annotations

from chainrule.graph.node import Node, stamp
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.sources import is_uniform

# Cheap enough to be computed once more, where the other value is needed, too.
PRODUCTS = (arithmetic.multiply, arithmetic.divide, arithmetic.negative)


def known_choice(node: Node) -> Node | None:
    """The one operand that is chosen everywhere."""
    condition, x, y = node.inputs
    if is_uniform(condition):
        return x if condition.param("value") else y
    return x if x is y else None


def chosen_once(node: Node) -> Node | None:
    """where(c, f(where(c, x, y)), z) is where(c, f(x), z), of a product f or none."""
    condition, x, y = node.inputs
    first, second = _given(x, condition, True), _given(y, condition, False)
    if first is x and second is y:
        return None
    return logic.where(condition, first, second)


def _given(x: Node, condition: Node, holds: bool) -> Node:
    """What x is where the condition holds, or where it does not."""
    if x.primitive is logic.where:
        return _branch(x, condition, holds)
    if x.primitive not in PRODUCTS:
        return x
    inputs = tuple([_branch(one, condition, holds) for one in x.inputs])
    if inputs == x.inputs:
        return x
    found = x.primitive(*inputs, **dict(x.params))
    stamp([found], x.origin)  # it is still what x is, for whoever explains it
    return found


def _branch(x: Node, condition: Node, holds: bool) -> Node:
    if x.primitive is not logic.where:
        return x
    asked = x.inputs[0]
    if asked.primitive is logic.logical_not and asked.inputs[0] is condition:
        holds = not holds
    elif condition.primitive is logic.logical_not and condition.inputs[0] is asked:
        holds = not holds
    elif asked is not condition:
        return x
    return x.inputs[1] if holds else x.inputs[2]
