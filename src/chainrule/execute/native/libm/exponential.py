"""exp and its relatives: 2^(2k) times a polynomial, with 2^k made as a bit pattern.

x = 2k log 2 + r with |r| <= log 2, in two steps so that r is exact to the last digit (Cody and
Waite, *Software Manual for the Elementary Functions*, 1980, chapter 6).  The step is 2 log 2, not
log 2, so that 2^k never leaves the normal numbers: multiplying by it twice gives overflow and
subnormal results rightly without any further case.  That costs one more coefficient than the
narrow step and saves the splitting of the exponent.  AVX-512 scales by any power of two in one
instruction: there exp takes the narrow step (a quarter less time, measured; logistic would gain
8 %, and is left as it is).
"""

from __future__ import annotations

import math

from chainrule.execute.native.libm.coefficients import EXPONENTIAL, EXPONENTIAL_NARROW, LN2
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.libm.instructions import bounded, times_power_of_two
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, element

# Beyond these, exp(x) is 0 (and expm1(x) -1) or inf whatever x is.
LEAST = {"float": -104.0, "double": -746.0}
GREATEST = {"float": 89.0, "double": 710.0}
NARROW = 0.35  # a little more than ½ log 2


class Reduced:
    """exp(x) = root² exp(rest), |rest| <= log 2, root = 2^k and inverse = 2^-k; LEAST <= x."""

    def __init__(self, terms: Terms, x: Operand) -> None:
        self.terms, self.base = terms, element(x.type)
        layout, (high, low) = terms.format, LN2[self.base]
        rounder = layout.rounder + layout.bias  # the sum's lowest bits are then root's exponent
        shifted = terms.fma(x, 0.5 / math.log(2), rounder)
        count = terms.real("fsub", shifted, rounder)
        self.rest = terms.fma(count, -2 * low, terms.fma(count, -2 * high, x))
        self._bits = terms.whole("shl", terms.bits(shifted), layout.digits)
        self.root = terms.number(self._bits)

    def inverse(self) -> Operand:
        """1 / root."""
        layout = self.terms.format
        bits = self.terms.whole("sub", 2 * layout.bias << layout.digits, self._bits)
        return self.terms.number(bits)

    def exponential(self) -> Operand:
        """exp(x) / root²."""
        slope = self.terms.fma(self._curve(), self.rest, 1.0)
        return self.terms.fma(slope, self.rest, 1.0)

    def less_one(self, inverse: Operand) -> Operand:
        """(exp(x) - 1) / root = root (exp(rest) - 1) + root - inverse, accurate near 0."""
        terms = self.terms
        square = terms.real("fmul", self.rest, self.rest)
        value = terms.fma(square, self._curve(), self.rest)
        return terms.fma(self.root, value, terms.real("fsub", self.root, inverse))

    def _curve(self) -> Operand:
        """(exp(rest) - 1 - rest) / rest²."""
        return self.terms.polynomial(self.rest, EXPONENTIAL[self.base])


def exp(code: Code, x: Operand) -> Operand:
    """e^x."""
    terms, base = Terms(code, x), element(x.type)
    if code.module.avx512:
        return _scaled(terms, x)
    least = _least_halvings(terms) * math.log(2)
    reduced = Reduced(terms, terms.clamp(x, least, GREATEST[base]))
    return terms.real("fmul", terms.real("fmul", reduced.exponential(), reduced.root), reduced.root)


def _least_halvings(terms: Terms) -> float:
    """The exponent of 2 at which the root's bits are those of 0.

    What is clamped there, as all that a mask has set to -inf, is multiplied by 0.  A product that
    underflows takes the processor eight times as long as the whole exponential.
    """
    return -2.0 * terms.format.bias


def _scaled(terms: Terms, x: Operand) -> Operand:
    """e^x = 2^count e^rest, |rest| <= ½ log 2, where AVX-512 may be named.

    Where |x| is so large that the rest comes out wrong or NaN, the count alone decides.
    """
    count, rest = _narrow(terms, x)
    rest = bounded(terms.code, rest, NARROW)
    curve = terms.fma(_narrow_slope(terms, rest), rest, 1.0)
    return times_power_of_two(terms.code, curve, count)


def _narrow(terms: Terms, x: Operand) -> tuple[Operand, Operand]:
    """x = count log 2 + rest."""
    (high, low), rounder = LN2[element(x.type)], terms.format.rounder
    count = terms.real("fsub", terms.fma(x, 1 / math.log(2), rounder), rounder)
    return count, terms.fma(count, -low, terms.fma(count, -high, x))


def _narrow_slope(terms: Terms, rest: Operand) -> Operand:
    """(e^rest - 1) / rest."""
    return terms.fma(terms.polynomial(rest, EXPONENTIAL_NARROW[element(rest.type)]), rest, 1.0)


def times_exp_of_square(terms: Terms, factor: Operand, x: Operand, scale: float) -> Operand:
    """factor exp(scale x²), rounded as if x² were exact; `scale` is ±1 or ±½.

    The factor is positive, and x small enough that the root of the power is a normal number.  x² is
    h² + (x - h)(x + h), where h has the first half of the digits of x, so that h² is exact:
    rounded, it would make exp(-x²) wrong by x² eps, 360 ulp at 26.
    """
    layout = terms.format
    cut = (layout.digits + 2) // 2
    rounded = terms.whole("add", terms.bits(x), 1 << (cut - 1))
    half = terms.number(terms.whole("and", rounded, -1 << cut))
    rest = terms.real("fmul", terms.real("fsub", x, half), terms.real("fadd", x, half))
    square, rest = (
        terms.real("fmul", one, scale) for one in (terms.real("fmul", half, half), rest)
    )
    whole = terms.real("fadd", square, rest)
    more = terms.real("fadd", terms.real("fsub", square, whole), rest)
    count, below = _narrow(terms, whole)
    below = terms.real("fadd", below, more)
    # factor + factor (e^below - 1), which rounds less than the product with e^below
    value = terms.fma(factor, terms.real("fmul", _narrow_slope(terms, below), below), factor)
    if terms.code.module.avx512:
        return times_power_of_two(terms.code, value, count)
    # 2^count need not be a normal number, but the powers of two halves of it are.
    rounder = layout.rounder + layout.bias  # the sums' lowest bits are then the powers' exponents
    first = terms.fma(count, 0.5, rounder)
    second = terms.real(
        "fadd", terms.real("fsub", count, terms.real("fsub", first, rounder)), rounder
    )
    for one in (first, second):
        power = terms.number(terms.whole("shl", terms.bits(one), layout.digits))
        value = terms.real("fmul", value, power)
    return value


def exp2(code: Code, x: Operand) -> Operand:
    """2^x, exact for whole x."""
    terms, base = Terms(code, x), element(x.type)
    layout = terms.format
    x = terms.clamp(x, _least_halvings(terms), GREATEST[base] / math.log(2))
    rounder = layout.rounder + layout.bias
    shifted = terms.fma(x, 0.5, rounder)
    count = terms.real("fsub", shifted, rounder)
    rest = terms.real("fmul", terms.fma(count, -2.0, x), math.log(2))
    root = terms.number(terms.whole("shl", terms.bits(shifted), layout.digits))
    slope = terms.fma(terms.polynomial(rest, EXPONENTIAL[base]), rest, 1.0)
    value = terms.fma(slope, rest, 1.0)
    return terms.real("fmul", terms.real("fmul", value, root), root)


def expm1(code: Code, x: Operand) -> Operand:
    """e^x - 1, accurate near 0; -0 of -0."""
    terms, base = Terms(code, x), element(x.type)
    reduced = Reduced(terms, terms.clamp(x, LEAST[base], GREATEST[base]))
    value = terms.real("fmul", reduced.less_one(reduced.inverse()), reduced.root)
    return code.intrinsic("copysign", value, x)


def logistic(code: Code, x: Operand) -> Operand:
    """1 / (1 + e^-x); far below 0 it falls through the subnormal numbers to 0."""
    terms, base = Terms(code, x), element(x.type)
    reduced = Reduced(terms, code.negative(terms.clamp(x, LEAST[base], -LEAST[base])))
    # (1/root) / (1/root + root exp(r)): e^-x itself would overflow where the result is subnormal.
    inverse = reduced.inverse()
    return terms.real("fdiv", inverse, terms.fma(reduced.exponential(), reduced.root, inverse))
