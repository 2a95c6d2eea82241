"""Integers divided with a remainder, and shifted, with NumPy's meaning: no value stops a program.

Each function takes the letter "s" of signed integers or "u" of others, for LLVM's have no sign.
"""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import BITS, Code, Operand, constant, element


def whole_fmod(code: Code, x: Operand, y: Operand, letter: str) -> Operand:
    """The rest of x, of its sign; 0 where y is 0."""
    return _divided(code, x, y, letter)[1]


def whole_remainder(code: Code, x: Operand, y: Operand, letter: str) -> Operand:
    """The rest of x, of the sign of y; 0 where y is 0."""
    return _divided_below(code, x, y, letter)[1]


def whole_floor_divide(code: Code, x: Operand, y: Operand, letter: str) -> Operand:
    """The floor of x / y; 0 where y is 0."""
    return _divided_below(code, x, y, letter)[0]


def left_shift(code: Code, x: Operand, y: Operand, letter: str) -> Operand:
    """x moved by y places to the left; 0 where y is not from 0 to the number of bits."""
    return _shifted(code, "shl", x, y, constant(0, x.type))


def right_shift(code: Code, x: Operand, y: Operand, letter: str) -> Operand:
    """x moved by y places to the right, with its sign; else 0, or -1 where x is negative."""
    zero = constant(0, x.type)
    if letter == "u":
        return _shifted(code, "lshr", x, y, zero)
    end = code.select(code.compare("icmp slt", x, zero), constant(-1, x.type), zero)
    return _shifted(code, "ashr", x, y, end)


def _divided(code: Code, x: Operand, y: Operand, letter: str) -> tuple[Operand, Operand]:
    """The quotient towards 0, and the rest.

    The processor would stop at y = 0, and at the least number divided by -1, whose quotient is
    here that number.
    """
    zero, one, minus = (constant(value, x.type) for value in (0, 1, -1))
    nothing = code.compare("icmp eq", y, zero)
    safe = code.select(nothing, one, y)
    turned = code.compare("icmp eq", y, minus)
    if letter == "s":
        safe = code.select(turned, one, safe)
    quotient = code.binary(f"{letter}div", x, safe)
    rest = code.binary("sub", x, code.binary("mul", quotient, safe))
    if letter == "s":
        quotient = code.select(turned, code.binary("sub", zero, x), quotient)
    return code.select(nothing, zero, quotient), rest


def _divided_below(code: Code, x: Operand, y: Operand, letter: str) -> tuple[Operand, Operand]:
    """The floor of the quotient, and the rest of the sign of y."""
    quotient, rest = _divided(code, x, y, letter)
    if letter == "u":
        return quotient, rest
    zero, one = constant(0, x.type), constant(1, x.type)
    apart = code.compare("icmp slt", code.binary("xor", rest, y), zero)
    below = code.binary("and", apart, code.compare("icmp ne", rest, zero))
    quotient = code.select(below, code.binary("sub", quotient, one), quotient)
    return quotient, code.select(below, code.binary("add", rest, y), rest)


def _shifted(code: Code, word: str, x: Operand, y: Operand, end: Operand) -> Operand:
    """`shl`, `lshr` or `ashr`, which say nothing of a y beyond the bits: there, `end`."""
    inside = code.compare("icmp ult", y, constant(BITS[element(y.type)], y.type))
    places = code.select(inside, y, constant(0, y.type))
    return code.select(inside, code.binary(word, x, places), end)
