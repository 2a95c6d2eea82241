"""Writes `1 - erf(x)` as erfc(x), and its like: nothing is left of the digits of the difference;
`norm(x)**2` as the sum of squares, and `abs(x)**2` as x**2, which have no kink at 0.

Only where the operand has no name, so that every value that you named stays one that is used.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.movement import reshape
from chainrule.primitives.reduce import sum_

REWRITTEN = frozenset({np.subtract, np.log})


def accurate(trace: Trace, ufunc: np.ufunc, operands: list[Any]) -> Node | None:
    """The node of one function for `1 - f(x)` or `log(f(x))`; None where there is none."""
    inner = operands[-1]
    if not isinstance(inner, Node) or len(inner.inputs) != 1 or inner in trace.name_of:
        return None
    if ufunc is np.log:
        return _logarithm(trace, inner)
    one = operands[0]
    if isinstance(one, Node) or isinstance(one, bool) or one != 1:
        return None
    return _complement(trace, inner)


def _complement(trace: Trace, inner: Node) -> Node | None:
    (x,) = inner.inputs
    if inner.primitive is arithmetic.erf:
        from chainrule.primitives.special import erfc

        return trace.build(erfc, x)
    if inner.primitive is arithmetic.logistic or _is_ndtr(inner):
        return trace.build(inner.primitive, trace.build(arithmetic.negative, x))
    return None


def _logarithm(trace: Trace, inner: Node) -> Node | None:
    if not _is_ndtr(inner):
        return None
    from chainrule.primitives.special import log_ndtr

    return trace.build(log_ndtr, *inner.inputs)


def _is_ndtr(node: Node) -> bool:
    special = sys.modules.get("chainrule.primitives.special")  # loaded if there is such a node
    return special is not None and node.primitive is special.ndtr


def smooth_power(trace: Trace, base: Node, exponent: int) -> Node | None:
    """The node for an even power of an absolute value or of a norm; None for another base."""
    if exponent <= 0 or exponent % 2 or base in trace.name_of:
        return None
    if base.primitive is arithmetic.absolute:
        return trace.build(arithmetic.integer_power, *base.inputs, exponent=exponent)
    squares = _under_root(base)
    if squares is None or not _is_of_squares(squares):
        return None
    if exponent == 2:
        return squares
    return trace.build(arithmetic.integer_power, squares, exponent=exponent // 2)


def _under_root(node: Node) -> Node | None:
    """What the node is the root of, also if 0 is treated apart, as in norms."""
    if node.primitive is arithmetic.sqrt:
        return node.inputs[0]
    if node.primitive is not logic.where or node.inputs[2].primitive is not arithmetic.sqrt:
        return None
    condition, (inside,) = node.inputs[0], node.inputs[2].inputs
    if inside.primitive is not logic.where or inside.inputs[0] is not condition:
        return None
    squares = inside.inputs[2]
    compared = condition.primitive is logic.equal and condition.inputs[0] is squares
    return squares if compared else None


def _is_of_squares(node: Node) -> bool:
    """Whether it is a sum of squares, and so never negative."""
    while node.primitive in (reshape, sum_):
        (node,) = node.inputs
    if node.primitive is arithmetic.multiply:
        return node.inputs[0] is node.inputs[1]
    return node.primitive is arithmetic.integer_power and node.param("exponent") % 2 == 0
