"""Which values are numbers, and so are all their derivatives, where what they are made of is one.

0 times such a value is 0, in every further derivative too: a cotangent that is 0 by a relu needs no
select after the product.  What is not known here (exp, which overflows) may be infinite.
"""

from __future__ import annotations

import math

from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives import logic, movement, reduce
from chainrule.primitives.primitive import MOVING, Contract, Gather
from chainrule.primitives.sources import constant, full, input_
from chainrule.transforms.steepness import is_never_zero

_STEADY = {
    *(a.add, a.subtract, a.negative, a.multiply, a.absolute, a.maximum, a.minimum, a.sign),
    *(a.sin, a.cos, a.tanh, a.logistic, a.erf, a.gaussian, a.stop_gradient, a.identity),
    *(logic.where, logic.cast, reduce.sum_, reduce.max_, reduce.min_),
}


def is_steady(x: Node, known: dict[Node, bool]) -> bool:
    """Whether x is a number wherever the inputs of the program are; `known` has what was asked."""
    pending = [] if x in known else [x]
    while pending:
        one = pending[-1]
        made_of = _made_of(one)
        found = (False,) if made_of is None else [known.get(part) for part in made_of]
        if False in found:
            known[one] = False
        elif None in found:
            pending += [part for part in made_of or () if part not in known]
            continue
        else:
            known[one] = True
        pending.pop()
    return known[x]


def is_data(x: Node) -> bool:
    """Whether x is an array that the program is given, as it is or moved: of its elements some may
    be infinite.  (Not one that is broadcast: such a parameter would spoil everything.)"""
    while _moves(x) or x.primitive in (logic.cast, a.identity):
        if x.primitive is movement.broadcast_to:
            return False
        x = x.inputs[0]
    return x.primitive in (input_, constant) and bool(x.type.shape)


def _moves(x: Node) -> bool:
    return isinstance(x.primitive.kernel, (Gather, *MOVING))


def _made_of(x: Node) -> tuple[Node, ...] | None:
    """The values that x is steady with; None if it may not be."""
    primitive, inputs = x.primitive, x.inputs
    if primitive in _STEADY:
        return inputs
    if not x.type.is_float or isinstance(primitive.kernel, Contract):
        return ()  # integers; and products of matrices, at which conditions end
    if not inputs:
        return () if _is_given(x) else None
    if primitive in (a.divide, a.sqrt):
        return inputs if is_never_zero(inputs[-1]) else None
    if primitive is a.integer_power:
        return inputs if x.param("exponent") >= 0 or is_never_zero(inputs[0]) else None
    return inputs if _moves(x) else None


def _is_given(x: Node) -> bool:
    if x.primitive is full:
        return math.isfinite(x.param("value"))
    if x.primitive is constant and not x.type.shape:
        return math.isfinite(x.param("value").array.item())
    return x.primitive in (input_, constant)
