"""Division of many numbers by one: products with its reciprocal, within 1.5 ulp of the quotient."""

from __future__ import annotations

from chainrule.run.native.emit import Code, Operand, constant, element

# Beyond these powers of two a reciprocal may overflow or lose digits, so the divisor is scaled.
EXTREMES = {"float": (100, 64), "double": (1000, 512)}


def divisor(code: Code, y: Operand) -> tuple[Operand, Operand]:
    """(scale, reciprocal) of a scalar y: x / y is (x scale) reciprocal for every x.

    The scale is 1 but for tiny and huge y, where it brings y near 1; what then overflows or
    underflows in x scale does so in the quotient.  0, inf and NaN come out as in a division.
    """
    limit, power = EXTREMES[y.type]
    size = code.intrinsic("fabs", y)
    tiny = code.compare("fcmp olt", size, constant(2.0**-limit, y.type))
    huge = code.compare("fcmp ogt", size, constant(2.0**limit, y.type))
    one = constant(1.0, y.type)
    scale = code.select(huge, constant(2.0**-power, y.type), one)
    scale = code.select(tiny, constant(2.0**power, y.type), scale)
    return scale, code.binary("fdiv", one, code.binary("fmul", y, scale))


def quotient(code: Code, x: Operand, scale: Operand, reciprocal: Operand) -> Operand:
    """x divided by what `divisor` was given; all in as many lanes."""
    return code.binary("fmul", code.binary("fmul", x, scale), reciprocal)


def divides_floats(type_: str) -> bool:
    """Whether this is for the type: float or double."""
    return element(type_) in EXTREMES
