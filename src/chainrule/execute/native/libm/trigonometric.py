"""sin, cos, tan: |x| less a multiple of π/2, then one of two polynomials by the quadrant.

tan is the ratio of the two.

The multiple is taken off in parts whose products are exact (Cody and Waite, *Software Manual for
the Elementary Functions*, 1980, chapter 8), always in double precision.  Up to |x| = 2^20, two
parts serve float (of all floats next to a multiple of π/2, what is left out is at most 0.17 ulp
of the rest, at 170015 π/2), and four double (three leave out 3 million ulp, at 204551 π/2).
Where a lane is beyond, libm is called for it.
"""

from __future__ import annotations

import math

from chainrule.execute.native.libm.coefficients import COSINE, HALF_PI, SINE
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.libm.library import each
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, element, lanes, like

FAR = 2.0**20


def sin(code: Code, x: Operand) -> Operand:
    """The sine of radians."""
    terms = Terms(code, x)
    rest, quadrant = _reduce(terms, x)
    sign = terms.whole("and", terms.bits(x), terms.format.sign)
    return _near_or_far(terms, x, _wave(terms, rest, quadrant, sign), "sin")


def cos(code: Code, x: Operand) -> Operand:
    """The cosine of radians: the sine, a quadrant further."""
    terms = Terms(code, x)
    rest, quadrant = _reduce(terms, x)
    quadrant = terms.whole("add", quadrant, 1)
    return _near_or_far(terms, x, _wave(terms, rest, quadrant, None), "cos")


def tan(code: Code, x: Operand) -> Operand:
    """The tangent of radians: the sine over the cosine, or in odd quadrants -1 over that."""
    terms = Terms(code, x)
    rest, quadrant = _reduce(terms, x)
    sine, cosine = _sine(terms, rest), _cosine(terms, rest)
    odd = _is_odd(terms, quadrant)
    above = terms.select(odd, code.negative(cosine), sine)
    ratio = terms.real("fdiv", above, terms.select(odd, sine, cosine))
    sign = terms.whole("and", terms.bits(x), terms.format.sign)
    signed = terms.number(terms.whole("xor", terms.bits(ratio), sign))
    return _near_or_far(terms, x, signed, "tan")


def _reduce(terms: Terms, x: Operand) -> tuple[Operand, Operand]:
    """|x| - n π/2, between -π/4 and π/4, and n (its lowest bits at least)."""
    code = terms.code
    wide = code.convert("fpext", terms.absolute(x), like("double", x.type))
    doubles = Terms(code, wide)
    rounder = doubles.format.rounder
    shifted = doubles.fma(wide, 2 / math.pi, rounder)
    count = doubles.real("fsub", shifted, rounder)
    rest = wide
    for part in HALF_PI[: 2 if element(x.type) == "float" else 4]:
        rest = doubles.fma(count, -part, rest)
    quadrant = code.convert("trunc", doubles.bits(shifted), terms.integer)
    return code.convert("fptrunc", rest, x.type), quadrant


def _wave(terms: Terms, rest: Operand, quadrant: Operand, sign: Operand | None) -> Operand:
    """The sine of rest + quadrant π/2, its sign changed by `sign`."""
    value = terms.select(_is_odd(terms, quadrant), _cosine(terms, rest), _sine(terms, rest))
    turned = terms.whole(
        "and", terms.whole("shl", quadrant, terms.format.width - 2), terms.format.sign
    )
    if sign is not None:
        turned = terms.whole("xor", turned, sign)
    return terms.number(terms.whole("xor", terms.bits(value), turned))


def _is_odd(terms: Terms, quadrant: Operand) -> Operand:
    zero = constant(0, terms.integer)
    return terms.code.compare("icmp ne", terms.whole("and", quadrant, 1), zero)


def _sine(terms: Terms, rest: Operand) -> Operand:
    """The sine between -π/4 and π/4."""
    z = terms.real("fmul", rest, rest)
    curve = terms.polynomial(z, SINE[element(rest.type)])
    return terms.fma(terms.real("fmul", rest, z), curve, rest)


def _cosine(terms: Terms, rest: Operand) -> Operand:
    """The cosine between -π/4 and π/4."""
    z = terms.real("fmul", rest, rest)
    square = terms.real("fmul", z, z)
    flat = terms.fma(z, -0.5, 1.0)
    return terms.fma(square, terms.polynomial(z, COSINE[element(rest.type)]), flat)


def _near_or_far(terms: Terms, x: Operand, near: Operand, name: str) -> Operand:
    """`near`, but libm's result in lanes where |x| > FAR: only then it is called."""
    code = terms.code
    far = terms.compare("ogt", terms.absolute(x), FAR)
    count = lanes(x.type)
    found = far
    if count:
        found = code.convert("bitcast", far, f"i{count}")
        found = code.compare("icmp ne", found, Operand("0", found.type))
    number = code.fresh()
    call, after, before = f"far{number}", f"near{number}", code.block
    code.branch(found, call, after)
    code.label(call)
    mixed = terms.select(far, each(code, name, x), near)
    code.jump(after)
    code.label(after)
    return code.emit(f"phi {x.type} [ {near.text}, %{before} ], [ {mixed.text}, %{call} ]", x.type)
