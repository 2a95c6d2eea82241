"""Derivatives of Bessel functions by mpmath: SciPy's differences of these lose digits."""

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


def _of_arrays(function: Any, *, odd: bool) -> Any:
    def one(x: float) -> float:
        if not abs(x) < 1e30:
            return x if np.isnan(x) else -np.copysign(0, x if odd else 1)
        with mpmath.workdps(80):
            return float(function(mpmath.mpf(float(x))))

    return np.vectorize(one, otypes=[np.float64])


EXACT_SLOPES = {
    "i0e_slope": _of_arrays(slope_of_i0e, odd=True),
    "i1e_slope": _of_arrays(slope_of_i1e, odd=False),
}
