"""sinh and cosh by the parts of which exp is made, tanh by them or a ratio; inverses by log1p."""

from __future__ import annotations

import math

from chainrule.execute.native.libm.coefficients import TANH_ABOVE, TANH_ROOT
from chainrule.execute.native.libm.exponential import Reduced
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.libm.logarithm import log1p
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, element

END = {"float": 90.0, "double": 711.0}  # from where on sinh and cosh are inf
TANH_END = {"float": 9.25, "double": 19.07}  # from where on it is 1
# Where 1 is lost beside x, while x² does not overflow yet.
LARGE = {"float": 2.0**30, "double": 2.0**60}


def sinh(code: Code, x: Operand) -> Operand:
    """(e^x - e^-x) / 2 of |x|, as (e^x - 1)/2 (1 + e^-x), in which no term overflows."""
    terms = Terms(code, x)
    reduced = Reduced(terms, terms.least(terms.absolute(x), END[element(x.type)]))
    inverse = reduced.inverse()
    small = terms.real("fdiv", inverse, reduced.exponential())
    half = terms.real("fmul", terms.real("fadd", reduced.root, small), 0.5)
    return code.intrinsic("copysign", terms.real("fmul", reduced.less_one(inverse), half), x)


def cosh(code: Code, x: Operand) -> Operand:
    """(e^x + e^-x) / 2, with the powers of 2 multiplied last."""
    terms = Terms(code, x)
    reduced = Reduced(terms, terms.least(terms.absolute(x), END[element(x.type)]))
    curve, inverse = reduced.exponential(), reduced.inverse()
    small = terms.real("fmul", terms.real("fdiv", inverse, curve), inverse)
    half = terms.real("fmul", reduced.root, 0.5)
    return terms.fma(terms.real("fmul", curve, reduced.root), half, terms.real("fmul", small, 0.5))


def tanh(code: Code, x: Operand) -> Operand:
    """The hyperbolic tangent, A/(A + B) of |x|: what is wrong with A or B matters less near 1."""
    terms, base = Terms(code, x), element(x.type)
    size = terms.least(terms.absolute(x), TANH_END[base])
    ratio = _ratio if base == "float" else _ratio_of_powers
    return code.intrinsic("copysign", ratio(terms, size), x)


def _ratio(terms: Terms, size: Operand) -> Operand:
    """A = x p(x²) and B = q(x)², in float.

    With AVX2 a vector of 8 takes 0.62 of the time of the powers, polynomials looked up as for erf
    0.87 (Zen 4).  A quotient of polynomials that are not A and A + B is no faster, and its error
    just below 1 is 6 ulp.
    """
    square = terms.real("fmul", size, size)
    above = terms.real("fmul", size, terms.polynomial(square, TANH_ABOVE))
    root = terms.polynomial(size, TANH_ROOT)
    return terms.real("fdiv", above, terms.fma(root, root, above))


def _ratio_of_powers(terms: Terms, size: Operand) -> Operand:
    """A = e^2x - 1 and B = 2."""
    reduced = Reduced(terms, terms.real("fadd", size, size))
    inverse = reduced.inverse()
    above = reduced.less_one(inverse)
    return terms.real("fdiv", above, terms.fma(inverse, 2.0, above))


def asinh(code: Code, x: Operand) -> Operand:
    """log(|x| + √(x² + 1)), with the sign of x."""
    terms, base = Terms(code, x), element(x.type)
    size = terms.absolute(x)
    large = terms.compare("ogt", size, LARGE[base])
    square = terms.real("fmul", size, size)
    root = code.intrinsic("sqrt", terms.real("fadd", square, 1.0))
    near = terms.real("fadd", size, terms.real("fdiv", square, terms.real("fadd", root, 1.0)))
    value = _log1p_or_double(terms, large, near, size)
    return code.intrinsic("copysign", value, x)


def acosh(code: Code, x: Operand) -> Operand:
    """log(x + √(x² - 1)): NaN below 1."""
    terms, base = Terms(code, x), element(x.type)
    large = terms.compare("ogt", x, LARGE[base])
    above = terms.real("fsub", x, 1.0)
    square = terms.real("fmul", above, terms.real("fadd", above, 2.0))
    near = terms.real("fadd", above, code.intrinsic("sqrt", square))
    value = _log1p_or_double(terms, large, near, x)
    return terms.select(terms.compare("olt", x, 1.0), math.nan, value)


def _log1p_or_double(terms: Terms, large: Operand, near: Operand, x: Operand) -> Operand:
    """log(1 + near), or log(2x) where x is large."""
    value = log1p(terms.code, terms.select(large, x, near))
    return terms.real("fadd", value, terms.select(large, math.log(2), 0.0))


def atanh(code: Code, x: Operand) -> Operand:
    """½ log((1 + |x|) / (1 - |x|)), with the sign of x: inf at 1, NaN beyond."""
    terms = Terms(code, x)
    size = terms.absolute(x)
    ratio = terms.real("fdiv", terms.real("fadd", size, size), terms.real("fsub", 1.0, size))
    value = terms.real("fmul", log1p(code, ratio), 0.5)
    return code.intrinsic("copysign", value, x)
