"""erfc, erfcx and ndtr by one polynomial for exp(x²) erfc(x) on the whole half-line x >= 0.

Its variable goes from 1 at x = 0 to -1 at infinity, where the function times x is smooth
(Shepherd and Laframboise, *Chebyshev approximation of (1 + 2x) exp(x²) erfc x*, 1981).  What is
approximated is almost level at 0, so that the rounding of the variable is not seen.
"""

from __future__ import annotations

import math

from chainrule.execute.native.libm.coefficients import ERF_NEAR
from chainrule.execute.native.libm.erfcx_coefficients import ERFCX, ERFCX_SLOPE
from chainrule.execute.native.libm.exponential import times_exp_of_square
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, element

SHIFT = 2.5
END = {"float": 10.3, "double": 27.5}  # from where on exp(-x²) is 0, and exp(x²) inf
TURN = 0.5  # below, erfc is 1 - erf


def erfcx(code: Code, x: Operand) -> Operand:
    """exp(x²) erfc(x); below 0 that of |x| taken from 2 exp(x²)."""
    terms = Terms(code, x)
    size = terms.absolute(x)
    above = _erfcx_above(terms, size)
    below = terms.real("fsub", _twice_exp_of_square(terms, size), above)
    return terms.select(terms.compare("olt", x, 0.0), below, above)


def erfcx_slope(code: Code, x: Operand) -> Operand:
    """Its derivative 2x erfcx(x) - 2/√π, in which nothing cancels below 0."""
    terms = Terms(code, x)
    size = terms.absolute(x)
    distance = terms.real("fadd", size, 1.125)
    curve = terms.polynomial(_variable(terms, size), ERFCX_SLOPE[element(x.type)])
    above = terms.real("fdiv", terms.real("fdiv", code.negative(curve), distance), distance)
    value = terms.real("fsub", _twice_exp_of_square(terms, size), _erfcx_above(terms, size))
    below = terms.fma(terms.real("fadd", x, x), value, -2 / math.sqrt(math.pi))
    return terms.select(terms.compare("olt", x, 0.0), below, above)


def erfc(code: Code, x: Operand) -> Operand:
    """The complementary error function: erfcx(x) exp(-x²), and 2 - erfc(-x) below 0."""
    terms = Terms(code, x)
    size = terms.absolute(x)
    tail = _tail(terms, size, _erfcx_above(terms, size), 1.0)
    far = terms.select(terms.compare("olt", x, 0.0), terms.real("fsub", 2.0, tail), tail)
    curve = terms.polynomial(terms.real("fmul", x, x), ERF_NEAR[element(x.type)])
    near = terms.real("fsub", 1.0, terms.fma(x, curve, x))
    return terms.select(terms.compare("olt", size, TURN), near, far)


def ndtr(code: Code, x: Operand) -> Operand:
    """The distribution function of the normal distribution, erfc(-x/√2) / 2, with x²/2 exact."""
    terms = Terms(code, x)
    size = terms.absolute(x)
    half = terms.real("fmul", _erfcx_above(terms, size, math.sqrt(0.5)), 0.5)
    tail = _tail(terms, size, half, 0.5)
    return terms.select(terms.compare("olt", x, 0.0), tail, terms.real("fsub", 1.0, tail))


def _variable(terms: Terms, x: Operand, scale: float = 1.0) -> Operand:
    """5 / (scale x + 2.5) - 1."""
    ratio = terms.real("fdiv", 2 * SHIFT, terms.fma(x, scale, SHIFT))
    return terms.real("fsub", ratio, 1.0)


def _erfcx_above(terms: Terms, x: Operand, scale: float = 1.0) -> Operand:
    """exp(y²) erfc(y) of y = scale x >= 0."""
    curve = terms.polynomial(_variable(terms, x, scale), ERFCX[element(x.type)])
    return terms.real("fdiv", curve, terms.fma(x, scale, 0.875))


def _twice_exp_of_square(terms: Terms, x: Operand) -> Operand:
    near = terms.least(x, END[element(x.type)])
    return times_exp_of_square(terms, constant(2.0, x.type), near, 1.0)


def _tail(terms: Terms, x: Operand, factor: Operand, scale: float) -> Operand:
    """factor exp(-scale x²) of x >= 0."""
    end = END[element(x.type)] / math.sqrt(scale)
    return times_exp_of_square(terms, factor, terms.least(x, end), -scale)
