"""The cube root and the length of a vector: an estimate set right, and a square root."""

from __future__ import annotations

import math

from chainrule.execute.native.libm.exponential import exp
from chainrule.execute.native.libm.formats import Terms
from chainrule.execute.native.libm.logarithm import log
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, element, like

# Below, y³ would lose digits; 2^162 is the cube of 2^54.
SMALL = 2.0**-700


def cbrt(code: Code, x: Operand) -> Operand:
    """The cube root, with the sign of x: exp(log|x| / 3), then one step of Newton in double.

    The estimate of a double is off by 2e-14 at most, that of a float by 1e-5; the step squares
    that.
    """
    terms = Terms(code, x)
    size = terms.absolute(x)
    small = terms.compare("olt", size, SMALL)
    scaled = size
    if element(x.type) == "double":
        scaled = terms.select(small, terms.real("fmul", size, 2.0**162), size)
    estimate = exp(code, terms.real("fmul", log(code, scaled), 1 / 3))
    wide = like("double", x.type)
    doubles = Terms(code, code.convert("fpext", scaled, wide))
    y, target = code.convert("fpext", estimate, wide), code.convert("fpext", scaled, wide)
    square = doubles.real("fmul", y, y)
    error = doubles.fma(square, y, code.negative(target))
    step = doubles.real("fdiv", error, doubles.real("fmul", square, 3.0))
    root = code.convert("fptrunc", doubles.real("fsub", y, step), x.type)
    if element(x.type) == "double":
        root = terms.select(small, terms.real("fmul", root, 2.0**-54), root)
    same = terms.compare("oeq", terms.real("fadd", size, size), size)  # 0 and inf
    return code.intrinsic("copysign", terms.select(same, size, root), x)


def hypot(code: Code, x: Operand, y: Operand) -> Operand:
    """√(x² + y²), without overflow; inf where either is infinite, the other even NaN."""
    terms = Terms(code, x)
    first, second = terms.absolute(x), terms.absolute(y)
    if element(x.type) == "float":
        length = _in_double(terms, first, second)
    else:
        length = _by_ratio(terms, first, second)
    for one in (first, second):
        length = terms.select(terms.compare("oeq", one, math.inf), math.inf, length)
    return length


def _in_double(terms: Terms, x: Operand, y: Operand) -> Operand:
    code = terms.code
    wide = [code.convert("fpext", one, like("double", x.type)) for one in (x, y)]
    doubles = Terms(code, wide[0])
    square = doubles.fma(wide[0], wide[0], doubles.real("fmul", wide[1], wide[1]))
    return code.convert("fptrunc", code.intrinsic("sqrt", square), x.type)


def _by_ratio(terms: Terms, x: Operand, y: Operand) -> Operand:
    """The larger times √(1 + ratio²); NaN stays NaN."""
    swapped = terms.compare("olt", x, y)
    large, small = terms.select(swapped, y, x), terms.select(swapped, x, y)
    ratio = terms.real("fdiv", small, large)
    root = terms.code.intrinsic("sqrt", terms.fma(ratio, ratio, 1.0))
    return terms.select(terms.compare("oeq", large, 0.0), small, terms.real("fmul", large, root))
