"""Further activation functions, with PyTorch's conventions at their kinks."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.frontend.composite import composite
from chainrule.numpy.of_one_primitive import sigmoid


@composite(symbol="silu", latex=r"\operatorname{silu}")
def silu(x: Any) -> Any:
    """x times the sigmoid of x, elementwise: the sigmoid linear unit, also called swish."""
    return x * sigmoid(x)


@composite(symbol="log σ", latex=r"\log\sigma")
def log_sigmoid(x: Any) -> Any:
    """The logarithm of the sigmoid, elementwise; exact in both tails."""
    negative = x < 0
    return np.where(negative, x, 0) - np.log1p(np.exp(np.where(negative, x, -x)))


@composite(symbol="elu", latex=r"\operatorname{elu}")
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where positive, else alpha (exp(x) - 1) (Clevert and others, 2016); alpha is its derivative
    at 0."""
    positive = x > 0
    return np.where(positive, x, alpha * np.expm1(np.where(positive, 0, x)))


@composite(symbol="leaky relu", latex=r"\operatorname{leaky\,relu}")
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """x where positive, else negative_slope x (Maas and others, 2013), as also at 0."""
    return np.where(x > 0, x, negative_slope * x)
