"""log and log1p: the exponent times log 2, and a series in (m - 1)/(m + 1).

x = 2^k m with √½ <= m < √2; with f = m - 1 and s = f / (2 + f) = (m - 1)/(m + 1),
log m = 2 atanh s = f - f²/2 + s (f²/2 + R(s²)), in which only small terms are rounded (the
arrangement of FreeBSD's e_log.c; Muller, *Elementary Functions*, 3rd ed., 2016, section 5.5).
"""

from __future__ import annotations

import math

from chainrule.run.native.elementary.coefficients import LN2, LOGARITHM
from chainrule.run.native.elementary.formats import Terms
from chainrule.run.native.emit import Code, Operand, element

LEAST = {"float": 2.0**-126, "double": 2.0**-1022}  # the least normal number
SPARE = 4  # 2^(SPARE - k) is a normal number for every exponent k


def log(code: Code, x: Operand) -> Operand:
    """The natural logarithm: -inf of 0, NaN below."""
    terms = Terms(code, x)
    layout = terms.format
    subnormal = terms.compare("olt", x, LEAST[element(x.type)])
    shift = layout.digits + 1
    normal = terms.select(subnormal, terms.real("fmul", x, 2.0**shift), x)
    exponent, fraction = _split(terms, normal)
    # An exponent becomes a float as the last digits of 2^digits.
    biased = 2.0**layout.digits + layout.bias
    count = _count(terms, exponent, terms.select(subnormal, biased + shift, biased))
    value = _combine(terms, count, terms.real("fsub", fraction, 1.0))
    return _exceptions(terms, value, x, 0.0)


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
    s = terms.real("fdiv", f, terms.real("fadd", f, 2.0))
    z = terms.real("fmul", s, s)
    half = terms.real("fmul", terms.real("fmul", f, 0.5), f)
    series = terms.fma(z, terms.polynomial(z, LOGARITHM[element(f.type)]), half)
    small = terms.fma(count, low, terms.real("fmul", s, series))
    return terms.fma(count, high, terms.real("fsub", f, terms.real("fsub", half, small)))


def _exceptions(terms: Terms, value: Operand, x: Operand, pole: float) -> Operand:
    """-inf at the pole, NaN below it, inf and NaN as they are."""
    below = terms.select(terms.compare("oeq", x, pole), -math.inf, math.nan)
    value = terms.select(terms.compare("ogt", x, pole), value, below)
    return terms.select(terms.compare("olt", x, math.inf), value, terms.real("fadd", x, x))
