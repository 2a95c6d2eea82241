"""Division of many numbers by one: three products and two sums each, and the quotients are IEEE's.

A product with the rounded reciprocal r of y is off by up to 1.5 units of the last place: 49 / 49
would not be 1.  What is left, x - (x r) y, is a floating-point number that a fused multiply-add
gives exactly; times r it corrects the product (Markstein, *Computation of elementary functions on
the IBM RISC System/6000 processor*, 1990).  A processor without that instruction divides.
"""

from __future__ import annotations

from typing import NamedTuple

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, element

# Beyond these powers of two a reciprocal may overflow or lose digits, so the divisor is scaled.
EXTREMES = {"float": (100, 64), "double": (1000, 512)}
FUSED_NBYTES = 32  # processors with vectors of so many bytes have fused multiply-add


class Divisor(NamedTuple):
    """`scaled` is y times `scale`, and `reciprocal` is 1 / scaled."""

    scale: Operand
    scaled: Operand
    reciprocal: Operand


def divisor(code: Code, y: Operand) -> Divisor:
    """What `quotient` needs of y, a scalar or one in each lane.

    The scale is 1 but for tiny and huge y, where it brings y near 1; what then overflows or
    underflows in x scale does so in the quotient.
    """
    limit, power = EXTREMES[element(y.type)]
    size = code.intrinsic("fabs", y)
    tiny = code.compare("fcmp olt", size, constant(2.0**-limit, y.type))
    huge = code.compare("fcmp ogt", size, constant(2.0**limit, y.type))
    one = constant(1.0, y.type)
    scale = code.select(huge, constant(2.0**-power, y.type), one)
    scale = code.select(tiny, constant(2.0**power, y.type), scale)
    scaled = code.binary("fmul", y, scale)
    return Divisor(scale, scaled, code.binary("fdiv", one, scaled))


def quotient(code: Code, x: Operand, by: Divisor) -> Operand:
    """x / y; 0, inf and NaN too come out as in a division.  All are in as many lanes.

    Where what is left is subnormal (|x| below 1e-30 in float32), the last digit may be another.
    """
    moved = code.binary("fmul", x, by.scale)
    near = code.binary("fmul", moved, by.reciprocal)
    rest = code.fma(code.negative(near), by.scaled, moved)
    exact = code.fma(rest, by.reciprocal, near)
    # Corrected, 0 would lose its sign, and infinity would be NaN.
    is_number = code.compare("fcmp one", exact, constant(0.0, exact.type))
    return code.select(is_number, exact, near)


def divides_floats(type_: str) -> bool:
    """Whether this is for the type: float or double."""
    return element(type_) in EXTREMES
