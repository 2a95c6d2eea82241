"""The functions that kernels' expressions call, by name, as emitters of vector and scalar code.

Each takes a `Code` and operands of one type (`float`, `double`, or a vector of them) and returns
an operand of that type.  Errors are at most 4 ulp over the whole range, subnormal numbers
included; NaN gives NaN; infinities and zeros (with their signs) give what C's libm gives.
Rounding to nearest is assumed.  No address depends on a value and, but for sin and cos of huge
numbers and `pow`, there are no branches: a vector costs the same whatever is in it.  Those of
OF_WORDS take words of 32 bits, and are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chainrule.execute.native.libm.bessel import i0e, i0e_slope, i1e, i1e_slope
from chainrule.execute.native.libm.cipher import (
    threefry_first,
    threefry_mixed,
    threefry_second,
)
from chainrule.execute.native.libm.complementary_error import erfc, erfcx, erfcx_slope, ndtr
from chainrule.execute.native.libm.division import floor_divide, fmod, remainder
from chainrule.execute.native.libm.error_function import erf
from chainrule.execute.native.libm.exponential import (
    exp,
    exp2,
    expm1,
    logistic,
)
from chainrule.execute.native.libm.gamma import digamma, gammaln
from chainrule.execute.native.libm.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from chainrule.execute.native.libm.integers import (
    left_shift,
    right_shift,
    whole_floor_divide,
    whole_fmod,
    whole_remainder,
)
from chainrule.execute.native.libm.inverse_trigonometric import acos, asin, atan, atan2
from chainrule.execute.native.libm.logarithm import log, log1p, log2, log10
from chainrule.execute.native.libm.order import fabs, fmax_nan, fmin_nan, sign
from chainrule.execute.native.libm.powers import integer_power, power, sqrt
from chainrule.execute.native.libm.roots import cbrt, hypot
from chainrule.execute.native.libm.rounding import ceil, copysign, floor, rint, trunc
from chainrule.execute.native.libm.trigonometric import cos, sin, tan
from chainrule.execute.native.plan_to_ir.emit import Code, Operand

FUNCTIONS: Mapping[str, Callable[..., Operand]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cbrt": cbrt,
    "ceil": ceil,
    "copysign": copysign,
    "cos": cos,
    "cosh": cosh,
    "digamma": digamma,
    "erf": erf,
    "erfc": erfc,
    "erfcx": erfcx,
    "erfcx_slope": erfcx_slope,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "fabs": fabs,
    "floor": floor,
    "floor_divide": floor_divide,
    "fmax_nan": fmax_nan,
    "fmin_nan": fmin_nan,
    "fmod": fmod,
    "gammaln": gammaln,
    "hypot": hypot,
    "i0e": i0e,
    "i0e_slope": i0e_slope,
    "i1e": i1e,
    "i1e_slope": i1e_slope,
    "log": log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "logistic": logistic,
    "ndtr": ndtr,
    "pow": power,
    "remainder": remainder,
    "rint": rint,
    "sign": sign,
    "sin": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": tan,
    "tanh": tanh,
    "trunc": trunc,
}

OF_INTEGERS: Mapping[str, Callable[[Code, Operand, Operand, str], Operand]] = {
    "floor_divide": whole_floor_divide,
    "fmod": whole_fmod,
    "left_shift": left_shift,
    "remainder": whole_remainder,
    "right_shift": right_shift,
}

OF_WORDS: Mapping[str, Callable[..., Operand]] = {
    "threefry_first": threefry_first,
    "threefry_mixed": threefry_mixed,
    "threefry_second": threefry_second,
}

__all__ = ["FUNCTIONS", "OF_INTEGERS", "OF_WORDS", "integer_power"]
