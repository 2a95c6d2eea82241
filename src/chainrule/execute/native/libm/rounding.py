"""Rounding to integers and the sign of another number: one instruction each."""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import Code, Operand


def floor(code: Code, x: Operand) -> Operand:
    """The largest integer that is at most x; -0 of -0."""
    return code.intrinsic("floor", x)


def ceil(code: Code, x: Operand) -> Operand:
    """The smallest integer that is at least x; -0 where x is negative and above -1."""
    return code.intrinsic("ceil", x)


def trunc(code: Code, x: Operand) -> Operand:
    """The next integer towards 0, with the sign of x."""
    return code.intrinsic("trunc", x)


def rint(code: Code, x: Operand) -> Operand:
    """The next integer, of two the even one, with the sign of x."""
    return code.intrinsic("rint", x)


def copysign(code: Code, x: Operand, y: Operand) -> Operand:
    """|x| with the sign of y."""
    return code.intrinsic("copysign", x, y)
