"""Decides which rules may give infinity for finite values: 1 / x at 0, but not 1 / (x² + eps).

What is known of signs is read off a few nodes; what is not known may be 0.  A number that the
program is given (an eps) is taken to be positive.
"""

from __future__ import annotations

import math

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives import logic, movement, reduce
from chainrule.primitives.primitive import Library, Primitive
from chainrule.primitives.sources import constant, full, input_, size_value

NON_NEGATIVE, NON_ZERO = 1, 2
POSITIVE = NON_NEGATIVE | NON_ZERO
DEPTH = 12  # nodes one after another that are asked for a sign

_DIVIDING = (a.divide, a.power, a.integer_power, a.log, a.log1p)
_ALWAYS_POSITIVE = (a.exp, a.logistic, size_value)
_SIGN_KEPT = (
    movement.broadcast_to,
    movement.reshape,
    movement.transpose,
    movement.slice_,
    movement.concatenate,
    logic.cast,
    a.identity,
    a.stop_gradient,
    reduce.max_,
    reduce.min_,
)
_TELLING = {
    *_SIGN_KEPT,
    *(a.add, a.multiply, a.divide, a.power, a.integer_power, a.negative, a.absolute, a.sqrt),
    *(a.maximum, a.minimum, logic.where, reduce.sum_),
}
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


def _sign(x: Node, depth: int = 0) -> int:
    """What is known of all elements of x, if they are numbers: flags."""
    primitive, inputs = x.primitive, x.inputs
    if primitive is full:
        return _sign_of(x.param("value"))
    if primitive is constant and not x.type.shape:
        return _sign_of(x.param("value").array.item())
    if primitive is input_:
        return POSITIVE if x.type.weak else 0
    if primitive in _ALWAYS_POSITIVE:
        return POSITIVE
    if depth == DEPTH or primitive not in _TELLING:
        return 0
    if primitive is a.integer_power:
        found = _sign(inputs[0], depth + 1)
        return found | NON_NEGATIVE if x.param("exponent") % 2 == 0 else found
    if primitive is a.multiply and inputs[0] is inputs[1]:
        return _sign(inputs[0], depth + 1) | NON_NEGATIVE
    if primitive is logic.where:
        return _sign_of_choice(x, depth)
    if primitive is a.power:
        return _sign(inputs[0], depth + 1)
    return _combined(x, [_sign(one, depth + 1) for one in inputs])


def _sign_of(value: float) -> int:
    return NON_NEGATIVE * (value >= 0) | NON_ZERO * (value != 0 and not math.isnan(value))


def _combined(x: Node, signs: list[int]) -> int:
    """The sign of a node from those of its inputs."""
    primitive, every, some = x.primitive, POSITIVE, 0
    for one in signs:
        every &= one
        some |= one
    if primitive in (a.multiply, a.divide, a.minimum) or primitive in _SIGN_KEPT:
        return every
    if primitive in (a.absolute, a.sqrt):
        return NON_NEGATIVE | (every & NON_ZERO)
    if primitive is a.negative:
        return every & NON_ZERO
    if primitive is a.add:
        return NON_NEGATIVE | (some & NON_ZERO) if every & NON_NEGATIVE else 0
    if primitive is a.maximum:
        return (some & NON_NEGATIVE) | (POSITIVE if POSITIVE in signs else every)
    return every if every & NON_NEGATIVE else 0  # a sum


def _sign_of_choice(x: Node, depth: int) -> int:
    """Of a value that is chosen; one that the condition compares with 0 may be known by that."""
    condition, first, second = x.inputs
    here, there = (_sign(one, depth + 1) for one in (first, second))
    pending = [condition]
    while pending:
        one = pending.pop()
        if one.primitive is logic.logical_or:
            pending += one.inputs
        elif one.inputs and one.inputs[0] is second and _is_zero(one.inputs[-1]):
            there |= NON_ZERO * (one.primitive in (logic.equal, logic.less_equal))
            there |= NON_NEGATIVE * (one.primitive in (logic.less, logic.less_equal))
    compared = condition.inputs
    if compared and compared[0] is first and _is_zero(compared[-1]):
        greater = condition.primitive in (logic.greater, logic.greater_equal)
        here |= NON_ZERO * (condition.primitive in (logic.not_equal, logic.greater))
        here |= NON_NEGATIVE * greater
    return here & there


def _is_zero(x: Node) -> bool:
    return x.primitive is full and x.param("value") == 0
