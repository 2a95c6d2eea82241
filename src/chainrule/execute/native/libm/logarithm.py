"""log, log1p, log2, log10: the exponent times log 2, and a series in (m - 1)/(m + 1).

x = 2^k m with √½ <= m < √2; with f = m - 1 and s = f / (2 + f) = (m - 1)/(m + 1),
log m = 2 atanh s = f - f²/2 + s (f²/2 + R(s²)), in which only small terms are rounded (the
arrangement of FreeBSD's e_log.c; Muller, *Elementary Functions*, 3rd ed., 2016, section 5.5).
"""

from __future__ import annotations

import math
from fractions import Fraction

from chainrule.execute.native.libm.coefficients import LN2, LOGARITHM
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, element

LEAST = {"float": 2.0**-126, "double": 2.0**-1022}  # the least normal number
INVERSE_LN2 = Fraction("1.44269504088896340735992468100189213742664595415299")
INVERSE_LN10 = Fraction("0.43429448190325182765112891891660508229439700580367")
LOG10_OF_2 = Fraction("0.30102999566398119521373889472449302676818988146211")
# Bits cut off a number, and the digits of what it is multiplied by, so that products are exact.
CUT = {"float": 12, "double": 32}
UNIT_DIGITS = {"float": 12, "double": 32}
TWO_DIGITS = {"float": 16, "double": 42}
SPARE = 4  # 2^(SPARE - k) is a normal number for every exponent k


def log(code: Code, x: Operand) -> Operand:
    """The natural logarithm: -inf of 0, NaN below."""
    terms = Terms(code, x)
    count, f = _reduced(terms, x)
    return _exceptions(terms, _combine(terms, count, f), x, 0.0)


def log2(code: Code, x: Operand) -> Operand:
    """The logarithm to the base 2, exact for its whole powers."""
    return _to_base(Terms(code, x), x, INVERSE_LN2, None)


def log10(code: Code, x: Operand) -> Operand:
    """The logarithm to the base 10, exact for its whole powers."""
    return _to_base(Terms(code, x), x, INVERSE_LN10, LOG10_OF_2)


def _to_base(terms: Terms, x: Operand, unit: Fraction, of_two: Fraction | None) -> Operand:
    """log x times `unit`; `of_two` is the logarithm of 2, if it is not 1.

    Both factors are taken in two parts, so that the products of the high ones are exact: the
    error stays near half a digit, and whole results come out whole (as in FreeBSD's e_log10.c).
    """
    base = element(x.type)
    count, f = _reduced(terms, x)
    half, small = _corrections(terms, f)
    high = terms.real("fsub", f, half)
    high = terms.number(terms.whole("and", terms.bits(high), -1 << CUT[base]))
    low = terms.real("fadd", terms.real("fsub", terms.real("fsub", f, high), half), small)
    unit_high, unit_low = _split_number(unit, UNIT_DIGITS[base])
    first = terms.real("fmul", high, unit_high)
    rest = terms.fma(terms.real("fadd", low, high), unit_low, terms.real("fmul", low, unit_high))
    if of_two is not None:
        two_high, two_low = _split_number(of_two, TWO_DIGITS[base])
        rest = terms.fma(count, two_low, rest)
        count = terms.real("fmul", count, two_high)
    value = terms.real("fadd", count, first)
    lost = terms.real("fadd", terms.real("fsub", count, value), first)
    value = terms.real("fadd", value, terms.real("fadd", rest, lost))
    return _exceptions(terms, value, x, 0.0)


def _split_number(value: Fraction, digits: int) -> tuple[float, float]:
    """The first binary digits of a positive number, and the rest."""
    fraction, exponent = math.frexp(float(value))
    high = math.ldexp(math.floor(math.ldexp(fraction, digits)), exponent - digits)
    return high, float(value - Fraction(high))


def _reduced(terms: Terms, x: Operand) -> tuple[Operand, Operand]:
    """k (a float) and f of x = 2^k (1 + f), √½ <= 1 + f < √2; x may be subnormal."""
    layout = terms.format
    subnormal = terms.compare("olt", x, LEAST[element(x.type)])
    shift = layout.digits + 1
    normal = terms.select(subnormal, terms.real("fmul", x, 2.0**shift), x)
    exponent, fraction = _split(terms, normal)
    # An exponent becomes a float as the last digits of 2^digits.
    biased = 2.0**layout.digits + layout.bias
    count = _count(terms, exponent, terms.select(subnormal, biased + shift, biased))
    return count, terms.real("fsub", fraction, 1.0)


def log1p(code: Code, x: Operand) -> Operand:
    """log(1 + x), accurate near 0: -inf of -1, NaN below, x where |x| is tiny (so -0 of -0)."""
    terms = Terms(code, x)
    layout = terms.format
    exponent, _ = _split(terms, terms.real("fadd", x, 1.0))
    count = _count(terms, exponent, 2.0**layout.digits + layout.bias)
    # f = 2^-k (1 + x) - 1 from x itself, with one rounding: 1 + x was rounded, but gives k alone.
    bits = terms.whole("sub", 2 * layout.bias + SPARE, exponent)
    scale = terms.number(terms.whole("shl", bits, layout.digits))
    spared = terms.real("fmul", x, 2.0**-SPARE)
    one = terms.fma(scale, 2.0**-SPARE, -1.0)
    value = _combine(terms, count, terms.fma(spared, scale, one))
    value = _exceptions(terms, value, x, -1.0)
    tiny = terms.compare("olt", terms.absolute(x), 2.0 ** -(layout.digits + 3))
    return terms.select(tiny, x, value)


def _split(terms: Terms, x: Operand) -> tuple[Operand, Operand]:
    """The exponent (an integer, biased) and the fraction, between √½ and √2, of a normal x > 0."""
    layout = terms.format
    # The bit pattern of √½, and from there on one exponent up for each doubling.
    start = (layout.bias << layout.digits) - _below_one(layout.digits)
    moved = terms.whole("sub", terms.bits(x), start - (layout.bias << layout.digits))
    exponent = terms.whole("lshr", moved, layout.digits)
    kept = terms.whole("and", moved, layout.mantissa)
    return exponent, terms.number(terms.whole("add", kept, start))


def _below_one(digits: int) -> int:
    """How many numbers of so many digits lie from √½ to 1."""
    return round((1 - math.sqrt(0.5)) * 2 ** (digits + 1))


def _count(terms: Terms, exponent: Operand, biased: Operand | float) -> Operand:
    layout = terms.format
    pattern = (layout.bias + layout.digits) << layout.digits  # of 2^digits
    return terms.real("fsub", terms.number(terms.whole("or", exponent, pattern)), biased)


def _combine(terms: Terms, count: Operand, f: Operand) -> Operand:
    """count log 2 + log(1 + f)."""
    high, low = LN2[element(f.type)]
    half, small = _corrections(terms, f)
    small = terms.fma(count, low, small)
    return terms.fma(count, high, terms.real("fsub", f, terms.real("fsub", half, small)))


def _corrections(terms: Terms, f: Operand) -> tuple[Operand, Operand]:
    """f²/2 and what else is between f and log(1 + f): log(1 + f) = f - (f²/2 - it)."""
    s = terms.real("fdiv", f, terms.real("fadd", f, 2.0))
    z = terms.real("fmul", s, s)
    half = terms.real("fmul", terms.real("fmul", f, 0.5), f)
    series = terms.fma(z, terms.polynomial(z, LOGARITHM[element(f.type)]), half)
    return half, terms.real("fmul", s, series)


def _exceptions(terms: Terms, value: Operand, x: Operand, pole: float) -> Operand:
    """-inf at the pole, NaN below it, inf and NaN as they are."""
    below = terms.select(terms.compare("oeq", x, pole), -math.inf, math.nan)
    value = terms.select(terms.compare("ogt", x, pole), value, below)
    return terms.select(terms.compare("olt", x, math.inf), value, terms.real("fadd", x, x))
