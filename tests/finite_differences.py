"""Derivatives by central differences: the referee of gradients of plain functions."""

from __future__ import annotations

from typing import Any

import numpy as np


def close(one: Any, other: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def differences(function: Any, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function by each element of one array."""
    x = np.asarray(x, float)
    result = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        high, low = x.copy(), x.copy()
        high[place] += step
        low[place] -= step
        result[place] = (function(high) - function(low)) / (2 * step)
    return result
