"""How many vector instructions compiled code takes for an elementwise expression."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chainrule.graph.dtypes import is_bfloat16
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind
from chainrule.plan.loops.sweeps import is_row_quotient
from chainrule.plan.roles import is_rounded_already
from chainrule.primitives.arithmetic import integer_power
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import Map

# By function, in float32 and in float64: the instructions that `execute.native.libm` emits, with
# divisions and square roots left out where they run beside the others.
FUNCTIONS: dict[str, tuple[int, int]] = {
    "acosh": (44, 48),
    "asinh": (44, 48),
    "atan2": (36, 49),
    "atanh": (39, 43),
    "cbrt": (56, 67),
    "cos": (32, 37),
    "cosh": (21, 28),
    "erf": (18, 35),
    "erfc": (55, 78),
    "erfcx": (45, 63),
    "erfcx_slope": (60, 93),
    "exp": (12, 17),
    "exp2": (18, 25),
    "expm1": (21, 27),
    "hypot": (11, 13),
    "i0e": (33, 63),
    "i0e_slope": (36, 69),
    "i1e": (35, 64),
    "i1e_slope": (35, 68),
    "log": (30, 34),
    "log10": (42, 46),
    "log1p": (34, 38),
    "log2": (40, 44),
    "logistic": (19, 26),
    "ndtr": (46, 64),
    "sign": (5, 5),
    "sin": (33, 38),
    "sinh": (24, 30),
    "tan": (32, 37),
    "tanh": (15, 27),
}
# Those that take others without AVX-512, which has tables in registers and scales by powers of 2.
NARROW = {
    "cbrt": (62, 75),
    "erf": (22, 68),
    "erfc": (62, 85),
    "erfcx": (52, 70),
    "erfcx_slope": (67, 100),
    "exp": (18, 25),
    "i0e": (39, 71),
    "i1e": (41, 72),
    "ndtr": (53, 71),
}
# What one call takes as long as so many instructions, where their number does not tell: remainders
# and powers are computed one element after another, inverse functions choose between ranges, those
# of Γ compute in double, and largest elements take units that others leave free.
TAKEN = {
    "acos": (46, 75),
    "asin": (48, 78),
    "atan": (31, 50),
    "digamma": (275, 140),
    "gammaln": (380, 215),
    "fmax_nan": (2, 2),
    "fmin_nan": (2, 2),
    "where": (0.5, 0.5),
    "pow": (390, 440),
    "fmod": (230, 130),
}
TAKEN_NARROW = {
    "acos": (60, 95),
    "asin": (62, 98),
    "atan": (40, 52),
    "digamma": (215, 105),
    "gammaln": (315, 165),
    "pow": (155, 215),
    "fmod": (97, 68),
}
TAKEN |= {name: TAKEN["fmod"] for name in ("remainder", "floor_divide")}
TAKEN_NARROW |= {name: TAKEN_NARROW["fmod"] for name in ("remainder", "floor_divide")}
# The divider works beside everything else; wide vectors take it twice.
DIVISION, DIVISION_NARROW = (7.5, 15.0), (5.5, 11.0)
ROOT, ROOT_NARROW = (12.0, 24.0), (9.0, 18.0)
DIVIDES = frozenset({"logistic", "tanh"})  # functions that divide beside their instructions
ROW_QUOTIENT = 5.0  # by a number of the row
# Of additions, comparisons and the like, which take turns with multiplications in other units.
SIMPLE = 0.5
CIPHER = 80  # of Threefry
ROUNDING = 9  # to bfloat16, by instructions on integers

_NAME = re.compile(r"([a-z_][a-z_0-9]*)\(")
_SIGN = re.compile(r"[-+*&|<>~]|==")


class Weight(NamedTuple):
    """How many instructions of a vector something takes, and how many the divider takes as long
    as beside them."""

    operations: float
    dividing: float = 0.0


def weight(one: Instance, vector_nbytes: int) -> Weight:
    """What one point of an instance takes, without its operands."""
    if one.kind is not Kind.MAP:
        return Weight(1.0)
    if is_row_quotient(one):
        return Weight(ROW_QUOTIENT)
    return expression_weight(one.node, vector_nbytes)


def expression_weight(node: Node, vector_nbytes: int) -> Weight:
    """The same for an element of an elementwise node."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Map)
    double = max(one.dtype.itemsize for one in (node, *node.inputs)) == np.dtype(float).itemsize
    wide = vector_nbytes >= 64
    if node.primitive is integer_power:
        exponent = node.param("exponent")
        products = abs(exponent).bit_length() + abs(exponent).bit_count() - 2
        division = (DIVISION if wide else DIVISION_NARROW)[double]
        return Weight(SIMPLE * max(products, 1), division if exponent < 0 else 0.0)
    if node.primitive is cast and is_bfloat16(node.dtype):
        return Weight(0.0 if is_rounded_already(node) else ROUNDING)
    return _weight(kernel.expression, double, wide)


@lru_cache(maxsize=1024)  # a graph has few, and each is asked for many times
def _weight(expression: str, double: bool, wide: bool) -> Weight:
    division, root = (DIVISION, ROOT) if wide else (DIVISION_NARROW, ROOT_NARROW)
    names = _NAME.findall(expression)
    quotients = expression.count("/") + sum(name in DIVIDES for name in names)
    dividing = quotients * division[double] + names.count("sqrt") * root[double]
    total = SIMPLE * len(_SIGN.findall(expression))
    total += sum(function_weight(name, double, wide) for name in names if name != "sqrt")
    return Weight(total if dividing else max(total, SIMPLE), dividing)


def function_weight(name: str, double: bool, wide: bool) -> float:
    """The same for a call of a function, in float32 or float64, with AVX-512 or without."""
    if name.startswith("threefry"):
        return CIPHER
    known = FUNCTIONS | TAKEN | ({} if wide else NARROW | TAKEN_NARROW)
    return known[name][double] if name in known else 1
