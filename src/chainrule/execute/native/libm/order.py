"""Size and sign of floats: absolute value, sign, the larger and the smaller of two."""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant


def fabs(code: Code, x: Operand) -> Operand:
    """|x|."""
    return code.intrinsic("fabs", x)


def sign(code: Code, x: Operand) -> Operand:
    """-1, 0 or 1; NaN of NaN, and 0 (not -0) of -0."""
    zero = constant(0.0, x.type)
    rest = code.binary("fadd", x, zero)
    below = code.select(code.compare("fcmp olt", x, zero), constant(-1.0, x.type), rest)
    return code.select(code.compare("fcmp ogt", x, zero), constant(1.0, x.type), below)


def fmax_nan(code: Code, x: Operand, y: Operand) -> Operand:
    """The larger, NaN where either is; of 0 and -0 either."""
    return _choose(code, "fcmp ogt", x, y)


def fmin_nan(code: Code, x: Operand, y: Operand) -> Operand:
    """The smaller, NaN where either is; of 0 and -0 either."""
    return _choose(code, "fcmp olt", x, y)


def _choose(code: Code, relation: str, x: Operand, y: Operand) -> Operand:
    if _is_number(y):
        x, y = y, x
    chosen = code.select(code.compare(relation, x, y), x, y)  # y where either is NaN
    if _is_number(x):
        return chosen
    return code.select(code.compare("fcmp uno", x, x), x, chosen)


def _is_number(x: Operand) -> bool:
    """Whether it is a constant, and not NaN: then one instruction chooses (maximum(z, 0))."""
    return not x.text.startswith("%") and "0x7FF8" not in x.text
