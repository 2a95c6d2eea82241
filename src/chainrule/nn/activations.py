"""Activation functions and the softmax family, stable for large arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite
from chainrule.nn import closed_forms
from chainrule.numpy.of_one_primitive import erf, stop_gradient
from chainrule.numpy.statistics import count_along, widened


@composite(symbol="relu", latex=r"\operatorname{relu}")
def relu(x: Any) -> Any:
    """max(x, 0), elementwise; the derivative at 0 is 0, and NaN stays NaN."""
    return np.where(x <= 0, 0, x)


@composite(symbol="softplus", latex=r"\operatorname{softplus}", gradients=closed_forms.SOFTPLUS)
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), elementwise; no overflow, right derivatives of every order at 0."""
    positive = x > 0
    return np.where(positive, x, 0) + np.log1p(np.exp(np.where(positive, -x, x)))


@composite(symbol="gelu", latex=r"\operatorname{gelu}")
def gelu(x: Any, approximate: str = "none") -> Any:
    """x Φ(x) with the normal distribution function Φ (Hendrycks and Gimpel, 2016), elementwise.

    `approximate="tanh"` is the paper's approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
    """
    if approximate == "none":
        return x * (0.5 * (1 + erf(x * math.sqrt(0.5))))
    if approximate == "tanh":
        wide, narrow = widened(x)
        square = np.minimum(wide * wide, 100)  # beyond, tanh is 1, and the cube may overflow
        inner = math.sqrt(2 / math.pi) * wide * (1 + 0.044715 * square)
        return narrow(0.5 * wide * (1 + np.tanh(inner)))
    raise InputError(
        f"gelu: approximate={approximate!r} is not known",
        hint='approximate is "none" or "tanh"',
    )


def largest_along(x: Any, axis: Any) -> Any:
    """The largest element along the axis, as a constant; 0 where it is infinite (or NaN), or where
    there is none."""
    if count_along(x, axis) == 0:
        return 0
    largest = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return np.where(np.abs(largest) < np.inf, largest, 0)


@composite(symbol="softmax", latex=r"\operatorname{softmax}", gradients=closed_forms.SOFTMAX)
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) over its sum along the axis; finite for any finite x."""
    e = np.exp(x - largest_along(x, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


@composite(
    symbol="log softmax",
    latex=r"\log\operatorname{softmax}",
    gradients=closed_forms.LOG_SOFTMAX,
)
def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of softmax along the axis, without ever forming the softmax."""
    shifted = x - largest_along(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@composite(
    symbol="logsumexp",
    latex=r"\operatorname{logsumexp}",
    gradients=closed_forms.LOGSUMEXP,
)
def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    """log of the sum of exp(x) along the axis (or axes); finite for any finite x.

    Where all are -inf, so is the result, and its derivative is 0, as PyTorch's.
    """
    shift = largest_along(x, axis)
    total = np.sum(np.exp(x - shift), axis=axis, keepdims=True)
    nothing = total == 0
    found = np.where(nothing, -np.inf, np.log(np.where(nothing, 1, total))) + shift
    return found if keepdims else np.squeeze(found, axis=axis)
