"""Decides which rules may give infinity for finite values: 1 / x at 0, but not 1 / (x² + eps).

What is not known of a sign may be 0.  A number that the program is given (an eps) is taken to be
positive.
"""

from __future__ import annotations

from functools import partial

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives import logic, movement
from chainrule.primitives.primitive import Library, Primitive
from chainrule.primitives.sources import full
from chainrule.transforms.signs import NON_NEGATIVE, NON_ZERO, sign

_DIVIDING = (a.divide, a.power, a.integer_power, a.log, a.log1p)
_sign = partial(sign, numbers_are_positive=True)
_divides: dict[Primitive, bool] = {}  # whether partials do, whatever the parameters are


def may_divide(node: Node, slope: Node) -> bool:
    """Whether the partial `slope` of an elementwise node divides by anything, or the node does, by
    `slope`: only then it `may_be_steep`."""
    primitive = node.primitive
    found = _divides.get(primitive)
    if found is None:
        found = _divides[primitive] = primitive is a.divide or any(
            map(_divides_itself, _new(node, slope))
        )
    return found and not (slope.primitive is full and slope.param("value"))


def may_be_steep(node: Node, slope: Node) -> bool:
    """Whether the partial `slope` of an elementwise node, or 1 over the divisor `slope` of a
    quotient, may be infinite where the node and its inputs are numbers."""
    if not may_divide(node, slope):
        return False
    if node.primitive is a.divide:
        return not _sign(slope) & NON_ZERO
    return any(map(_has_pole, _new(node, slope)))


def is_never_zero(x: Node) -> bool:
    """Whether no element of x is 0, if they are numbers."""
    return bool(_sign(x) & NON_ZERO)


def _new(node: Node, slope: Node) -> list[Node]:
    """The nodes of a partial."""
    pending, seen, found = [slope], {node, *node.inputs}, []
    while pending:
        one = pending.pop()
        if one not in seen and one.inputs:
            seen.add(one)
            found.append(one)
            pending += one.inputs
    return found


def _divides_itself(one: Node) -> bool:
    return one.primitive in _DIVIDING or isinstance(one.primitive.kernel, Library)


def _has_pole(one: Node) -> bool:
    """Whether a node of a partial may be infinite where its inputs are numbers."""
    if not _divides_itself(one):
        return False
    if one.primitive is a.divide:
        return not _sign(one.inputs[1]) & NON_ZERO
    if one.primitive is a.integer_power:
        return one.param("exponent") < 0 and not _sign(one.inputs[0]) & NON_ZERO
    if one.primitive is a.power:
        return not (_sign(one.inputs[0]) & NON_ZERO or _is_no_pole(one.inputs[1]))
    if one.primitive is a.log1p:
        return not _sign(one.inputs[0]) & NON_NEGATIVE
    return not _sign(one.inputs[0]) & NON_ZERO


def _is_no_pole(exponent: Node) -> bool:
    """Whether it is y - 1 of a known integer y from 1 on, as the rule of a power writes it.  Of
    other powers some derivative has a pole, and what is not selected here would be 0 times that."""
    if exponent.primitive is not a.subtract:
        return False
    y, one = exponent.inputs
    y = y.inputs[2] if y.primitive is logic.where else y
    while y.primitive is movement.broadcast_to:
        y = y.inputs[0]
    if one.primitive is not full or y.primitive is not full:
        return False
    return y.param("value") >= 1 and float(y.param("value")).is_integer()
