"""Roots and powers."""

from __future__ import annotations

from chainrule.execute.native.libm.library import each
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Operand,
    constant,
    element,
    is_float,
    like,
)

# Between these exponents, products in the number's own format stay within 4 ulp: errors of
# factors add up, every product makes one more, and so does 1/x.
LEAST, GREATEST = -2, 5


def sqrt(code: Code, x: Operand) -> Operand:
    """The square root, rounded rightly."""
    return code.intrinsic("sqrt", x)


def power(code: Code, x: Operand, y: Operand) -> Operand:
    """x to the power y of floats: libm's `pow` for each lane."""
    return each(code, "pow", x, y)


def integer_power(code: Code, x: Operand, exponent: int) -> Operand:
    """x to a power known now: products of squares, and of 1/x for a negative exponent.

    ValueError for integers to a negative power.
    """
    if not is_float(x.type):
        if exponent < 0:
            raise ValueError(f"integers to the negative power {exponent} are not integers")
        return _product(code, "mul", x, exponent)
    if LEAST <= exponent <= GREATEST:
        base = x if exponent >= 0 else code.binary("fdiv", constant(1.0, x.type), x)
        return _product(code, "fmul", base, abs(exponent))
    if element(x.type) == "double":
        return power(code, x, constant(float(exponent), x.type))
    # In double, neither rounding nor the range matter to a float.
    wide = code.convert("fpext", x, like("double", x.type))
    result = _product(code, "fmul", wide, abs(exponent))
    if exponent < 0:
        result = code.binary("fdiv", constant(1.0, wide.type), result)
    return code.convert("fptrunc", result, x.type)


def _product(code: Code, multiply: str, x: Operand, exponent: int) -> Operand:
    """x to a power of at least 0, by squaring."""
    result: Operand | None = None
    square = x
    while exponent:
        if exponent & 1:
            result = square if result is None else code.binary(multiply, result, square)
        exponent >>= 1
        if exponent:
            square = code.binary(multiply, square, square)
    return constant(1, x.type) if result is None else result
