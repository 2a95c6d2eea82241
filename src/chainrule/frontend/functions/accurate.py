"""Replaces `1 - erf(x)` by erfc(x) and the like, because the difference loses all digits; and
`norm(x)**2` by the sum of squares, which has no kink at 0.

Only if the operand has no name, so that every value that you named is still used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.movement import reshape
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import constant, full

ROOTS = (arithmetic.sqrt, logic.where, arithmetic.absolute)
# By the names of primitives what an operand has to be, as those of `special` may not be loaded.
_FUNCTIONS = frozenset({"erf", "erfc", "logistic", "ndtr", "negative"})
_SCALED = frozenset({"multiply", "divide"})
_ROOTS = frozenset(one.name for one in ROOTS)
REWRITTEN: dict[np.ufunc, frozenset[str]] = {
    **dict.fromkeys((np.add, np.subtract, np.log, np.log1p), _FUNCTIONS),
    **dict.fromkeys((np.multiply, np.power), _ROOTS),
}


def accurate(
    trace: Trace, ufunc: np.ufunc, operands: list[Any], resolved: tuple[np.dtype, bool] | None
) -> Node | None:
    """The node of one function for `1 - f(x)`, `log(f(x))`, or the square of a root; None where
    there is none.  The ufunc is one of REWRITTEN; `resolved` is the dtype in which NumPy computes,
    and whether it is weak."""
    if resolved is None:
        return None
    names = REWRITTEN[ufunc]
    for one in operands:
        if isinstance(one, Node):
            name = one.primitive.name
            if name in names:
                break
            if name in _SCALED and names is _FUNCTIONS:
                left, right = one.inputs
                if left.primitive.name in names or right.primitive.name in names:
                    break
    else:
        return None
    if len(operands) == 1:
        return _logarithm(trace, operands[0], more=ufunc is np.log1p)
    left, right = operands
    if ufunc is np.multiply:
        return _product_of_roots(trace, left, right)
    if ufunc is np.power:
        return _power_of_root(trace, left, right, resolved[0])
    found = _complement(trace, ufunc, left, right, resolved)
    return found if found is None or found.type.shape == _shape(left, right) else None


def _shape(*operands: Any) -> tuple:
    return max((x.type.shape for x in operands if isinstance(x, Node)), key=len)


def _number(trace: Trace, operand: Any) -> Any:
    """The number that an operand is, also as an array of NumPy's; None for others, and for one
    that has a name."""
    if not isinstance(operand, Node):
        return None if isinstance(operand, bool) else operand
    if dtype_kind(operand.type.dtype) not in "iuf" or operand in trace.name_of:
        return None
    if operand.primitive is full:
        return operand.param("value")
    if operand.primitive is constant and not operand.type.shape:
        return operand.param("value").array.item()
    return None


# 1 - f(x) and log(f(x)) --------------------------------------------------------------------------


def _complement(
    trace: Trace, ufunc: np.ufunc, left: Any, right: Any, resolved: tuple[np.dtype, bool]
) -> Node | None:
    """±(1 ± f(x)), where one operand is 1 or -1 and the other ±f(x); also s ± s f(x)."""
    for one, inner, first in ((left, right, True), (right, left, False)):
        number = _number(trace, one)
        if not number or not isinstance(inner, Node):
            continue
        factor, function = _peeled(trace, inner)
        scaled, side = None, 1
        if number not in (1, -1):
            scaled = function
            side, function = _factor_of(trace, scaled, abs(number))
            if not side or function.type.dtype != resolved[0]:
                continue
        sign, factor = 1 if number > 0 else -1, factor * side
        if ufunc is np.subtract:  # 1 - f, or f - 1
            sign, factor = (sign, -factor) if first else (-sign, factor)
        if sign * factor == 1 and _is_quick(function):
            continue
        found = _one_plus(trace, sign * factor, function, resolved)
        if found is None:
            continue
        if scaled is not None:
            operands = [found if x is function else x for x in scaled.inputs]
            found = trace.build(scaled.primitive, *operands)
        return found if sign == side else trace.build(arithmetic.negative, found)
    return None


def _factor_of(trace: Trace, node: Node, size: Any) -> tuple[int, Node]:
    """The sign and the f of ±size f, also written as a quotient; 0 of others."""
    if node not in trace.name_of:
        if node.primitive is arithmetic.divide:
            function, divisor = node.inputs
            reciprocal = (_number(trace, divisor) or 0) * size
            if reciprocal in (1, -1):
                return int(reciprocal), function
        if node.primitive is arithmetic.multiply:
            for one, function in (node.inputs, node.inputs[::-1]):
                number = _number(trace, one)
                if number in (size, -size):
                    return 1 if number == size else -1, function
    return 0, node


def _is_quick(function: Node) -> bool:
    """Whether 1 + f(x) is erf's, as in gelu: erfc takes twice the time of erf, and 1 + erf(x) has
    lost its digits only far below 0.  1 + erf(-x) is written for erfc(x)."""
    return (
        function.primitive is arithmetic.erf
        and function.inputs[0].primitive is not arithmetic.negative
    )


def _peeled(trace: Trace, node: Node) -> tuple[int, Node]:
    """The sign and the value of ±f(x)."""
    sign = 1
    while node.primitive is arithmetic.negative and node not in trace.name_of:
        sign, node = -sign, node.inputs[0]
    return sign, node


def _one_plus(
    trace: Trace, factor: int, node: Node, resolved: tuple[np.dtype, bool]
) -> Node | None:
    """1 + f(x) or 1 - f(x), by the factor, as one function of x."""
    if node in trace.name_of:
        return None
    if node.primitive is arithmetic.erf:
        to, negated = _special("erfc"), factor == 1
    elif factor == 1:
        return None
    elif node.primitive is arithmetic.logistic or _is(node, "ndtr"):
        to, negated = node.primitive, True
    elif _is(node, "erfc"):
        to, negated = arithmetic.erf, False
    else:
        return None
    (x,) = node.inputs
    dtype, weak = resolved
    if (x.type.dtype, x.type.weak) != (dtype, weak):
        x = trace.build(logic.cast, x, dtype=dtype, weak=weak)
    if negated:
        x = x.inputs[0] if x.primitive is arithmetic.negative else _negative(trace, x)
    return trace.build(to, x)


def _negative(trace: Trace, x: Node) -> Node:
    return trace.build(arithmetic.negative, x)


def _logarithm(trace: Trace, inner: Any, *, more: bool) -> Node | None:
    """log(f(x)), or log(1 ± f(x)) if `more`, of functions that round to 0."""
    if not isinstance(inner, Node) or inner in trace.name_of:
        return None
    if more:
        factor, function = _peeled(trace, inner)
        type_ = inner.type
        found = _one_plus(trace, factor, function, (type_.dtype, type_.weak))
        if found is None:
            return None
        inner = found
    if inner.primitive is arithmetic.logistic:
        return trace.build(_special("log_expit"), *inner.inputs)
    for name in ("ndtr", "erfc"):
        if _is(inner, name):
            return trace.build(_special(f"log_{name}"), *inner.inputs)
    return None


def _special(name: str) -> Primitive:
    return getattr(import_module("chainrule.primitives.special.special"), name)


def _is(node: Node, name: str) -> bool:
    special = sys.modules.get(
        "chainrule.primitives.special.special"
    )  # loaded if there is such a node
    return special is not None and node.primitive is getattr(special, name)


# Squares of roots --------------------------------------------------------------------------------


def _power_of_root(trace: Trace, base: Any, exponent: Any, dtype: np.dtype) -> Node | None:
    """An even power of a norm or of |x|, as a power of squares."""
    if not isinstance(base, Node) or base.primitive not in ROOTS or base.type.dtype != dtype:
        return None
    number = _number(trace, exponent)
    if number is None or number <= 0 or number % 2 or base in trace.name_of:
        return None
    squares = _squares(trace, base)
    if squares is None or number == 2:
        return squares
    return trace.build(arithmetic.integer_power, squares, exponent=int(number) // 2)


def _product_of_roots(trace: Trace, left: Any, right: Any) -> Node | None:
    """A norm times itself, which may have been computed twice."""
    for one in (left, right):
        if not isinstance(one, Node) or one.primitive not in ROOTS or one in trace.name_of:
            return None
    first, second = _squares(trace, left), _squares(trace, right)
    return first if first is not None and second is not None and _same(first, second) else None


def _squares(trace: Trace, node: Node) -> Node | None:
    """The sum of squares of which the node is the root, also if 0 is treated apart, as in norms; of
    |x| the square of x."""
    squares = node.inputs[0]
    if node.primitive is arithmetic.absolute:
        return trace.build(arithmetic.integer_power, squares, exponent=2)
    if node.primitive is logic.where:
        condition, _, root = node.inputs
        if root.primitive is not arithmetic.sqrt:
            return None
        (inside,) = root.inputs
        if inside.primitive is not logic.where or inside.inputs[0] is not condition:
            return None
        squares = inside.inputs[2]
        if condition.primitive is not logic.equal or condition.inputs[0] is not squares:
            return None
    inner = squares
    while inner.primitive in (reshape, sum_):
        (inner,) = inner.inputs
    if inner.primitive is arithmetic.multiply:
        is_square = inner.inputs[0] is inner.inputs[1]
    else:
        is_square = inner.primitive is arithmetic.integer_power and inner.param("exponent") % 2 == 0
    return squares if is_square else None


def _same(one: Node, other: Node) -> bool:
    """Whether two sums of squares are of the same values."""
    while one is not other:
        if one.primitive is not other.primitive or one.params != other.params:
            return False
        if one.primitive not in (reshape, sum_):
            return all(x is y for x, y in zip(one.inputs, other.inputs, strict=True))
        (one,), (other,) = one.inputs, other.inputs
    return True
