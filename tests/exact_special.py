"""Special functions by mpmath that NumPy has in no wider floats than float64."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np


def scaled_bessel(order: int) -> Any:
    """exp(-|x|) I(x)."""
    return lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(order, x)


def slope_of_i0e(x: Any) -> Any:
    difference = mpmath.besseli(1, abs(x)) - mpmath.besseli(0, x)
    return mpmath.sign(x) * mpmath.exp(-abs(x)) * difference


def slope_of_i1e(x: Any) -> Any:
    rest = mpmath.besseli(1, abs(x)) + (mpmath.besseli(1, x) / x if x else mpmath.mpf("0.5"))
    return mpmath.exp(-abs(x)) * (mpmath.besseli(0, x) - rest)


def slope_of_erfcx(x: Any) -> Any:
    return 2 * x * mpmath.exp(x * x) * mpmath.erfc(x) - 2 / mpmath.sqrt(mpmath.pi)


def log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def _of_arrays(function: Any, at_minus_infinity: float, at_infinity: float) -> Any:
    def one(x: float) -> float:
        if not abs(x) < 1e30:
            return x if np.isnan(x) else at_infinity if x > 0 else at_minus_infinity
        with mpmath.workdps(80):
            return float(function(mpmath.mpf(float(x))))

    return np.vectorize(one, otypes=[np.float64])


EXACT_SPECIAL = {
    "erfcx_slope": _of_arrays(slope_of_erfcx, -np.inf, -0.0),
    "i0e_slope": _of_arrays(slope_of_i0e, 0.0, -0.0),
    "i1e_slope": _of_arrays(slope_of_i1e, -0.0, -0.0),
    "log_ndtr": lambda x: -np.abs(_of_arrays(log_ndtr, -np.inf, 0.0)(x)),  # -0 far above
}
