"""log |Γ| and its derivative ψ, in double for both formats.

Numbers of 10 and more have Stirling's series, others are taken to an interval around the zero of
the function, where a series has the zero as a factor.  Below 0 the reflection formulas hold (DLMF
5.5.3 and 5.5.4), with the sine and the cosine of π times the distance to the nearest integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.libm.gamma_coefficients import (
    COSINE,
    FAR,
    MIDDLE,
    NEAR,
    SINE,
    SLOPE_FAR,
    SLOPE_NEAR,
    SLOPE_ZERO,
)
from chainrule.execute.native.libm.logarithm import log
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, element, like

END = 10  # from where on Stirling's series are right to the last digits


def gammaln(code: Code, x: Operand) -> Operand:
    """log |Γ(x)|: inf at 0, -1, -2, ...; -inf at -inf, as SciPy's."""
    return _in_double(code, x, _gammaln)


def digamma(code: Code, x: Operand) -> Operand:
    """ψ(x): -inf at 0, inf at -0, NaN at -1, -2, ..."""
    return _in_double(code, x, _digamma)


def _in_double(code: Code, x: Operand, function: Callable[[Terms, Operand], Operand]) -> Operand:
    """function of x, which computes in double: near a zero, float has no digits to lose."""
    if element(x.type) == "double":
        return function(Terms(code, x), x)
    wide = code.convert("fpext", x, like("double", x.type))
    return code.convert("fptrunc", function(Terms(code, wide), wide), x.type)


def _gammaln(terms: Terms, x: Operand) -> Operand:
    """Below 1/2 that of 1 + |x|, less the logarithm of x, or below 0 of sin(πx) / π."""
    size = terms.absolute(x)
    is_low = terms.compare("olt", x, 0.5)
    above = _gammaln_above(terms, terms.select(is_low, terms.real("fadd", size, 1.0), x))
    is_below = terms.compare("olt", x, 0.0)
    away, square = _to_integer(terms, x)
    sine = terms.absolute(terms.real("fmul", away, terms.polynomial(square, SINE)))
    passed = log(terms.code, terms.select(is_below, sine, size))
    signed = terms.select(is_below, terms.code.negative(above), above)
    value = terms.select(is_low, terms.real("fsub", signed, passed), above)
    return terms.select(terms.compare("oeq", size, math.inf), x, value)


def _gammaln_above(terms: Terms, x: Operand) -> Operand:
    """From 1/2 on: a product takes x down to 5/2, a quotient takes it up to 3/2."""
    is_first = terms.compare("olt", x, 1.5)
    low, product = x, terms.select(is_first, x, 1.0)
    for _ in range(END - 2):
        is_large = terms.compare("oge", low, 2.5)
        less = terms.real("fsub", low, 1.0)
        product = terms.real("fmul", product, terms.select(is_large, less, 1.0))
        low = terms.select(is_large, less, low)
    is_far = terms.compare("oge", x, float(END))
    logarithm = log(terms.code, terms.select(is_far, x, product))
    one, two = (terms.real("fsub", low, zero) for zero in (1.0, 2.0))
    z = terms.select(is_first, one, two)
    signed = terms.select(is_first, terms.code.negative(logarithm), logarithm)
    near = terms.fma(z, terms.polynomial(z, NEAR), signed)
    middle = terms.polynomial(terms.real("fsub", x, 1.5), MIDDLE)
    is_middle = terms.code.binary(
        "and", terms.compare("ogt", x, 1.25), terms.compare("olt", x, 1.75)
    )
    near = terms.select(is_middle, middle, near)
    inverse = terms.real("fdiv", 1.0, x)
    rest = terms.polynomial(terms.real("fmul", inverse, inverse), FAR)
    rest = terms.fma(rest, inverse, 0.5 * math.log(2 * math.pi) - 0.5)
    half = terms.real("fsub", x, 0.5)
    far = terms.fma(half, terms.real("fsub", logarithm, 1.0), rest)
    return terms.select(is_far, far, near)


def _digamma(terms: Terms, x: Operand) -> Operand:
    """Below 0 that of 1 - x, less π cot(πx)."""
    is_below = terms.compare("olt", x, 0.0)
    above = _digamma_above(terms, terms.select(is_below, terms.real("fsub", 1.0, x), x))
    away, square = _to_integer(terms, x)
    sine = terms.real("fmul", away, terms.polynomial(square, SINE))
    cotangent = terms.real("fdiv", terms.polynomial(square, COSINE), sine)
    mirrored = terms.real("fsub", above, cotangent)
    mirrored = terms.select(terms.compare("oeq", away, 0.0), math.nan, mirrored)
    return terms.select(is_below, mirrored, above)


def _digamma_above(terms: Terms, x: Operand) -> Operand:
    """From 0 on: inverses, summed as one quotient, take x up to 1, or down to 3."""
    is_first = terms.compare("olt", x, 1.0)
    low = terms.select(is_first, terms.real("fadd", x, 1.0), x)
    top = terms.code.select(is_first, constant(-1.0, x.type), constant(0.0, x.type))
    bottom = terms.select(is_first, x, 1.0)
    for _ in range(END - 3):
        is_large = terms.compare("oge", low, 3.0)
        less = terms.real("fsub", low, 1.0)
        top = terms.select(is_large, terms.fma(top, less, bottom), top)
        bottom = terms.select(is_large, terms.real("fmul", bottom, less), bottom)
        low = terms.select(is_large, less, low)
    distance = low
    for part in SLOPE_ZERO:
        distance = terms.real("fsub", distance, part)
    curve = terms.polynomial(terms.real("fsub", low, 2.0), SLOPE_NEAR)
    near = terms.fma(distance, curve, terms.real("fdiv", top, bottom))
    inverse = terms.real("fdiv", 1.0, x)
    square = terms.real("fmul", inverse, inverse)
    rest = terms.fma(square, terms.polynomial(square, SLOPE_FAR), terms.real("fmul", inverse, 0.5))
    far = terms.real("fsub", log(terms.code, x), rest)
    return terms.select(terms.compare("oge", x, float(END)), far, near)


def _to_integer(terms: Terms, x: Operand) -> tuple[Operand, Operand]:
    """x less the nearest integer, and its square."""
    away = terms.real("fsub", x, terms.code.intrinsic("rint", x))
    return away, terms.real("fmul", away, away)
