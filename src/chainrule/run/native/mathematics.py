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

from chainrule.run.native.elementary.cipher import (
    threefry_first,
    threefry_mixed,
    threefry_second,
)
from chainrule.run.native.elementary.error_function import erf
from chainrule.run.native.elementary.exponential import exp, expm1, logistic, tanh
from chainrule.run.native.elementary.logarithm import log, log1p
from chainrule.run.native.elementary.order import fabs, fmax_nan, fmin_nan, sign
from chainrule.run.native.elementary.powers import integer_power, power, sqrt
from chainrule.run.native.elementary.trigonometric import cos, sin
from chainrule.run.native.emit import Operand

FUNCTIONS: Mapping[str, Callable[..., Operand]] = {
    "cos": cos,
    "erf": erf,
    "exp": exp,
    "expm1": expm1,
    "fabs": fabs,
    "fmax_nan": fmax_nan,
    "fmin_nan": fmin_nan,
    "log": log,
    "log1p": log1p,
    "logistic": logistic,
    "pow": power,
    "sign": sign,
    "sin": sin,
    "sqrt": sqrt,
    "tanh": tanh,
}

OF_WORDS: Mapping[str, Callable[..., Operand]] = {
    "threefry_first": threefry_first,
    "threefry_mixed": threefry_mixed,
    "threefry_second": threefry_second,
}

__all__ = ["FUNCTIONS", "OF_WORDS", "integer_power"]
