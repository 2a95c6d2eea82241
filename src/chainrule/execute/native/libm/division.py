"""Division of floats with a remainder, with NumPy's meaning of the signs."""

from __future__ import annotations

from chainrule.execute.native.libm.library import each
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant


def fmod(code: Code, x: Operand, y: Operand) -> Operand:
    """The exact rest of x, of its sign: libm's for each lane."""
    return each(code, "fmod", x, y)


def remainder(code: Code, x: Operand, y: Operand) -> Operand:
    """The rest of the sign of y; a zero too has that sign."""
    rest = fmod(code, x, y)
    zero = constant(0.0, x.type)
    moved = code.select(_on_the_wrong_side(code, rest, y), code.binary("fadd", rest, y), rest)
    signed = code.intrinsic("copysign", zero, y)
    return code.select(code.compare("fcmp oeq", rest, zero), signed, moved)


def floor_divide(code: Code, x: Operand, y: Operand) -> Operand:
    """The floor of x / y as Python has it: of what remains after the exact rest is taken off."""
    rest = fmod(code, x, y)
    zero, one = constant(0.0, x.type), constant(1.0, x.type)
    exact = code.binary("fdiv", code.binary("fsub", x, rest), y)
    below = code.binary("and", _on_the_wrong_side(code, rest, y), _differs(code, rest, zero))
    exact = code.select(below, code.binary("fsub", exact, one), exact)
    whole = code.intrinsic("floor", exact)
    short = code.compare("fcmp ogt", code.binary("fsub", exact, whole), constant(0.5, x.type))
    whole = code.select(short, code.binary("fadd", whole, one), whole)
    ratio = code.binary("fdiv", x, y)
    signed = code.intrinsic("copysign", zero, ratio)
    whole = code.select(_differs(code, exact, zero), whole, signed)
    return code.select(_differs(code, y, zero), whole, ratio)


def _differs(code: Code, x: Operand, y: Operand) -> Operand:
    return code.compare("fcmp une", x, y)


def _on_the_wrong_side(code: Code, rest: Operand, y: Operand) -> Operand:
    zero = constant(0.0, y.type)
    negative = [code.compare("fcmp olt", one, zero) for one in (rest, y)]
    return code.binary("xor", *negative)
