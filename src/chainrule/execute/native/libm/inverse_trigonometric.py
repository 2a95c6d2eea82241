"""atan: the series, around 0, 1 and infinity; the others are atan of a ratio.

Up to √2 - 1 it is the series itself.  Beyond, atan x = π/4 + atan((x - 1)/(x + 1)), and from
√2 + 1 on π/2 - atan(1/x) (Moshier, *Methods and Programs for Mathematical Functions*, 1989).
"""

from __future__ import annotations

import math

from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, element

NEAR, FAR = math.sqrt(2) - 1, math.sqrt(2) + 1
# The series ends where a term is less than a digit: NEAR² to the power of as many.
TERMS = {"float": 10, "double": 22}
# What is left out of π/2 in the format of the number.
HALF = {"float": 1.57079637050628662109375, "double": math.pi / 2}
REST = {"float": -4.37113900018624283e-8, "double": 6.123233995736765886e-17}


def atan(code: Code, x: Operand) -> Operand:
    """The angle whose tangent is x; -0 of -0."""
    terms = Terms(code, x)
    return code.intrinsic("copysign", _of_size(terms, terms.absolute(x)), x)


def _of_size(terms: Terms, size: Operand) -> Operand:
    """atan of what is not negative, inf too."""
    base = element(size.type)
    middle, far = terms.compare("ogt", size, NEAR), terms.compare("ogt", size, FAR)
    above = terms.select(far, -1.0, terms.select(middle, terms.real("fsub", size, 1.0), size))
    below = terms.select(far, size, terms.select(middle, terms.real("fadd", size, 1.0), 1.0))
    ratio = terms.real("fdiv", above, below)
    square = terms.real("fmul", ratio, ratio)
    series = terms.polynomial(square, [(-1) ** k / (2 * k + 1) for k in range(1, TERMS[base])])
    share = terms.select(far, 1.0, terms.select(middle, 0.5, 0.0))
    rest = terms.real("fmul", share, REST[base])
    cube = terms.real("fmul", terms.real("fmul", square, ratio), series)
    small = terms.real("fadd", ratio, terms.real("fadd", cube, rest))
    return terms.fma(share, HALF[base], small)


def asin(code: Code, x: Operand) -> Operand:
    """atan(x / √(1 - x²)): NaN beyond 1."""
    terms = Terms(code, x)
    product = terms.real("fmul", terms.real("fsub", 1.0, x), terms.real("fadd", 1.0, x))
    return atan(code, terms.real("fdiv", x, code.intrinsic("sqrt", product)))


def acos(code: Code, x: Operand) -> Operand:
    """2 atan √((1 - x)/(1 + x)): NaN beyond 1."""
    terms = Terms(code, x)
    ratio = terms.real("fdiv", terms.real("fsub", 1.0, x), terms.real("fadd", 1.0, x))
    half = _of_size(terms, code.intrinsic("sqrt", ratio))
    return terms.real("fadd", half, half)


def atan2(code: Code, y: Operand, x: Operand) -> Operand:
    """The angle of the point (x, y), from -π to π; of zeros and infinities what C has."""
    terms, base = Terms(code, x), element(x.type)
    height, width = terms.absolute(y), terms.absolute(x)
    ratio = terms.real("fdiv", height, width)
    # 0/0 is an angle of 0, and inf/inf of π/4.
    same = terms.compare("oeq", height, width)
    none = terms.compare("oeq", height, 0.0)
    ratio = terms.select(same, terms.select(none, 0.0, 1.0), ratio)
    angle = _of_size(terms, ratio)
    turned = terms.real("fadd", terms.real("fsub", 2 * HALF[base], angle), 2 * REST[base])
    negative = code.compare("icmp slt", terms.bits(x), constant(0, terms.integer))
    value = terms.select(negative, turned, angle)
    return code.intrinsic("copysign", value, y)
