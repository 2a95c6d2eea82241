"""Explains NaN and inf at the border of a function's domain: `arccosh of a number below 1`."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf

import numpy as np

from chainrule.explain.nonfinite.case import EPS, Case, Cause
from chainrule.explain.nonfinite.phrases import number, phrase
from chainrule.graph.dtypes import finfo
from chainrule.graph.node import Node
from chainrule.primitives import rounding
from chainrule.primitives.linalg.det import cofactor, cofactor_change, det, slogdet
from chainrule.primitives.logarithms import cbrt
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.special import special
from chainrule.primitives.trigonometric import sinc

CUSPS = (cbrt, special.entr)  # finite at 0, and infinitely steep


def at_border(case: Case) -> Cause | None:
    """What a function is at an end of its domain, or beyond it."""
    if case.node.primitive.defined is None:
        return None
    low, high = case.node.primitive.defined
    x, function = case.operands[0], case.node.primitive.name
    if x in (low, high):
        became = number(case.fault.values[0])
        safe = f"{_called(function)}({_within(case.name(0), low, high, 'eps')}), {EPS}"
        return Cause(f"{function} of {number(x)} is {became}", safe)
    if not (x < low or x > high):
        return None
    side = f"below {number(low)}" if x < low else f"above {number(high)}"
    safe = _within(case.name(0), low, high, "")
    return Cause(f"{function} of a number {side} is NaN", f"{_called(function)}({safe})")


def steep_at_border(case: Case, derived: Node) -> Cause | None:
    """The derivative of a function at an end of its domain; None where that is finite."""
    if derived.primitive in CUSPS:
        function, x = derived.primitive.name, phrase(derived.inputs[0], case.names)
        safe = f"{_called(function)}(np.maximum({x}, eps)), {EPS}"
        return Cause(f"the derivative of {function} at 0 is inf", safe)
    if derived.primitive.defined is None:
        return None
    low, high = derived.primitive.defined
    ends = " and ".join(number(one) for one in (low, high) if not isinf(one))
    function, x = derived.primitive.name, phrase(derived.inputs[0], case.names)
    safe = f"{_called(function)}({_within(x, low, high, 'eps')}), {EPS}"
    return Cause(f"the derivative of {function} at {ends} is not finite", safe)


def _within(x: str, low: float, high: float, eps: str) -> str:
    least = f"{number(low)} + {eps}".removeprefix("0 + ") if eps else number(low)
    most = f"{number(high)} - {eps}" if eps else number(high)
    return f"np.maximum({x}, {least})" if isinf(high) else f"np.clip({x}, {least}, {most})"


def _called(function: str) -> str:
    return f"np.{function}" if hasattr(np, function) else f"cr.{function}"


def _is_pole(x: float) -> bool:
    return x <= 0 and x == np.floor(x) and not isinf(x)


def _of_gamma(case: Case) -> Cause | None:
    for place, x in enumerate(case.operands):
        if _is_pole(x):
            name = case.name(place)
            return Cause(
                f"{_spoken(case)} is {number(case.fault.values[0])}: 0 and the negative integers "
                "are poles",
                f"np.maximum({name}, eps) in place of {name}, {EPS}",
            )
    if case.node.primitive is special.betaln and _is_pole(sum(case.operands)):
        total = f"{case.name(0)} + {case.name(1)}"
        because = f"{_spoken(case)} is {number(case.fault.values[0])}"
        return Cause(f"{because}, as wherever {total} is 0 or a negative integer", "")
    return None


def _entr(case: Case) -> Cause | None:
    if not case.operands[0] < 0:
        return None
    return Cause("entr of a number below 0 is -inf", f"cr.entr(np.maximum({case.name(0)}, 0))")


def _remainder(case: Case) -> Cause | None:
    x, y = case.operands
    if y != 0:
        return None
    name = case.name(1)
    return Cause(
        f"{case.node.primitive.name} of {number(x)} by 0 is {number(case.fault.values[0])}",
        f"np.where({name} == 0, 1, {name}) as the divisor",
    )


def _sinc(case: Case) -> Cause | None:
    if isinf(case.operands[0]):
        return None
    return Cause("sinc of x is the sine of pi x, and pi x overflows", "scale the numbers down")


def _slogdet(case: Case) -> Cause | None:
    if any(map(isinf, case.operands)):
        return None
    return Cause(
        f"{case.name(0)} is singular: its determinant is 0, and the log of 0 is -inf",
        "add a small multiple of the identity matrix",
    )


def _det(case: Case) -> Cause | None:
    if any(map(isinf, case.operands)):
        return None
    dtype = case.node.dtype
    because = f"products of the elements overflow: {dtype} holds numbers up to"
    return Cause(
        f"{because} {float(finfo(dtype).max):,.6g}",
        "np.linalg.slogdet gives the logarithm of the determinant, which does not overflow",
    )


def _spoken(case: Case) -> str:
    """`betaln of 0 and 2`."""
    return f"{case.node.primitive.name} of {' and '.join(map(number, case.operands))}"


def without_cause(case: Case) -> Cause:
    """What is true of any function: what became of which numbers."""
    return Cause(f"{_spoken(case)} is {number(case.fault.values[0])}", "")


BORDERS: dict[Primitive, Callable[[Case], Cause | None]] = {
    special.gammaln: _of_gamma,
    special.digamma: _of_gamma,
    special.polygamma: _of_gamma,
    special.betaln: _of_gamma,
    special.entr: _entr,
    rounding.floor_divide: _remainder,
    rounding.remainder: _remainder,
    rounding.fmod: _remainder,
    sinc: _sinc,
    slogdet: _slogdet,
    det: _det,
    cofactor: _det,
    cofactor_change: _det,
}
