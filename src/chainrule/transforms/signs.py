"""What is known of the signs of a value's elements, read off a few nodes before it."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives import logic, movement, reduce
from chainrule.primitives.sources import constant, full, input_, size_value

NON_NEGATIVE, NON_POSITIVE, NON_ZERO = 1, 2, 4  # flags
POSITIVE = NON_NEGATIVE | NON_ZERO
DEPTH = 12  # nodes one after another that are asked for a sign

_ALWAYS_POSITIVE = (a.exp, a.logistic, size_value)
_KEPT = (
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
    *_KEPT,
    *(a.add, a.multiply, a.divide, a.power, a.integer_power, a.negative, a.absolute, a.sqrt),
    *(a.maximum, a.minimum, logic.where, reduce.sum_),
}


def sign(x: Node, depth: int = 0, *, numbers_are_positive: bool = False) -> int:
    """What is known of all elements of x, if they are numbers: flags, 0 if nothing is.

    `numbers_are_positive`: those that the program is given as Python's numbers.
    """
    primitive, inputs = x.primitive, x.inputs
    if primitive is full:
        return _of_number(x.param("value"))
    if primitive is constant and not x.type.shape:
        return _of_number(x.param("value").array.item())
    if primitive is input_:
        return POSITIVE if x.type.weak and numbers_are_positive else 0
    if primitive in _ALWAYS_POSITIVE:
        return POSITIVE
    if depth == DEPTH or primitive not in _TELLING:
        return 0
    signs = [
        sign(one, depth + 1, numbers_are_positive=numbers_are_positive)
        for one in (inputs[1:] if primitive is logic.where else inputs)
    ]
    if primitive is logic.where:
        return _of_choice(x, signs)
    return _combined(x, signs)


def _of_number(value: float) -> int:
    found = NON_NEGATIVE * (value >= 0) | NON_POSITIVE * (value <= 0)
    return found | NON_ZERO * (value < 0 or value > 0)


def _combined(x: Node, signs: Sequence[int]) -> int:
    """The sign of a node from those of its inputs."""
    primitive, (first, *others) = x.primitive, signs
    every, some = first, first
    for one in others:
        every &= one
        some |= one
    if primitive in _KEPT:
        return every
    if primitive in (a.absolute, a.sqrt):
        return NON_NEGATIVE | (every & NON_ZERO)
    if primitive is a.negative:
        return _negative(first)
    if primitive is a.integer_power and x.param("exponent") % 2 == 0:
        return NON_NEGATIVE | (first & NON_ZERO)
    if primitive is a.integer_power:
        return first
    if primitive is a.power:  # a negative base may become positive
        return first & POSITIVE
    if primitive in (a.multiply, a.divide):
        return _of_product(x, signs)
    if primitive is a.minimum:
        return _negative(_of_maximum([_negative(one) for one in signs]))
    if primitive is a.maximum:
        return _of_maximum(signs)
    # a sum, in which numbers of one sign do not cancel
    alike = every & (NON_NEGATIVE | NON_POSITIVE)
    return alike | ((some if primitive is a.add else every) & NON_ZERO) if alike else 0


def _negative(flags: int) -> int:
    """Of the negative."""
    found = flags & NON_ZERO
    found |= NON_POSITIVE if flags & NON_NEGATIVE else 0
    return found | (NON_NEGATIVE if flags & NON_POSITIVE else 0)


def _of_maximum(signs: Sequence[int]) -> int:
    one, other = signs
    found = one & other | (one | other) & NON_NEGATIVE
    return found | (POSITIVE if POSITIVE in (one & POSITIVE, other & POSITIVE) else 0)


def _of_product(x: Node, signs: Sequence[int]) -> int:
    """Of a product or a quotient; z z and -z z are known whatever z is."""
    (one, other), (here, there) = x.inputs, signs
    found = here & there & NON_ZERO
    if x.primitive is a.multiply and one is other:
        return found | NON_NEGATIVE
    if x.primitive is a.multiply and any(
        first.primitive is a.negative and first.inputs[0] is second
        for first, second in ((one, other), (other, one))
    ):
        return found | NON_POSITIVE
    either = NON_NEGATIVE | NON_POSITIVE
    found |= NON_NEGATIVE if here & there & either else 0
    return found | (NON_POSITIVE if here & _negative(there) & either else 0)


def _of_choice(x: Node, signs: Sequence[int]) -> int:
    """Of a value that is chosen; one that the condition compares with 0 may be known by that."""
    condition, first, second = x.inputs
    here, there = signs
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
