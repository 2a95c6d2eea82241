"""Draws initial weights by Xavier's, He's and other schemes, from a key.

Weights have the layouts of this library's layers: `fans` says which.  PyTorch keeps dense weights
transposed, (out, in), so the same call has the same fans there and here.  Every function gives
float32 or float64, and nodes where the key is traced.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from chainrule.errors import InputError, ShapeError
from chainrule.frontend.composite import composite
from chainrule.init.fans import Mode, checked_shape, fan_of, fans
from chainrule.random import normal, uniform
from chainrule.random import truncated_normal as between

Nonlinearity = Literal["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]


def gain(nonlinearity: Nonlinearity, slope: float = 0.01) -> float:
    """By how much the weights before a nonlinearity are larger than before none.

    1 for "linear" and "sigmoid", 5/3 for "tanh", sqrt(2) for "relu", sqrt(2 / (1 + slope²)) for
    "leaky_relu", 3/4 for "selu": those of `torch.nn.init.calculate_gain`.
    """
    known = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + slope**2)),
        "selu": 3 / 4,
    }
    if nonlinearity not in known:
        raise InputError(
            f"init.gain: the nonlinearity {nonlinearity!r} is not known",
            hint=f"one of {', '.join(map(repr, known))}; or give a number as gain=",
        )
    return known[nonlinearity]


@composite(symbol="xavier uniform", module="cr.init")
def xavier_uniform(key: Any, shape: Any, gain: float = 1.0, dtype: Any = np.float32) -> Any:
    """Uniform numbers between ±gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010, eq. 16).

    Their variance is gain² 2 / (fan_in + fan_out).
    """
    bound = math.sqrt(3) * _xavier(shape, gain, "xavier_uniform")
    return symmetric(key, checked_shape(shape, "xavier_uniform"), bound, dtype)


@composite(symbol="xavier normal", module="cr.init")
def xavier_normal(key: Any, shape: Any, gain: float = 1.0, dtype: Any = np.float32) -> Any:
    """Normal numbers of the variance gain² 2 / (fan_in + fan_out) (Glorot and Bengio, 2010,
    eq. 12)."""
    std = _xavier(shape, gain, "xavier_normal")
    return normal(key, checked_shape(shape, "xavier_normal"), dtype) * std


@composite(symbol="he uniform", module="cr.init")
def he_uniform(
    key: Any,
    shape: Any,
    gain: float = math.sqrt(2),
    mode: Mode = "fan_in",
    dtype: Any = np.float32,
) -> Any:
    """Uniform numbers between ±gain sqrt(3 / fan), for networks with relu (He et al., 2015,
    section 2.2): `torch.nn.init.kaiming_uniform_`, whose nonlinearity here is its `gain`."""
    bound = math.sqrt(3) * _he(shape, gain, mode, "he_uniform")
    return symmetric(key, checked_shape(shape, "he_uniform"), bound, dtype)


@composite(symbol="he normal", module="cr.init")
def he_normal(
    key: Any,
    shape: Any,
    gain: float = math.sqrt(2),
    mode: Mode = "fan_in",
    dtype: Any = np.float32,
) -> Any:
    """Normal numbers of the variance gain² / fan, for networks with relu (He et al., 2015, eq. 10;
    with mode="fan_out" eq. 14)."""
    std = _he(shape, gain, mode, "he_normal")
    return normal(key, checked_shape(shape, "he_normal"), dtype) * std


@composite(symbol="truncated normal", module="cr.init")
def truncated_normal(
    key: Any,
    shape: Any,
    std: float = 1.0,
    lower: float = -2.0,
    upper: float = 2.0,
    dtype: Any = np.float32,
) -> Any:
    """`std` times normal numbers between `lower` and `upper`, which count in standard deviations.

    So do JAX's.  `torch.nn.init.trunc_normal_` cuts at a and b themselves: lower = a / std.  For
    -2 and 2 the variance of what is left is 0.7737 std².
    """
    return between(key, lower, upper, checked_shape(shape, "truncated_normal"), dtype) * std


@composite(symbol="orthogonal", module="cr.init")
def orthogonal(key: Any, shape: Any, gain: float = 1.0, dtype: Any = np.float32) -> Any:
    """`gain` times a matrix with orthonormal columns, or rows where these are fewer, uniformly
    distributed over all such (Saxe et al., 2014; Mezzadri, 2007, section 5, for the signs).

    A convolution's weight (out, in, *window) is taken as the matrix (out, in · window), as in
    `torch.nn.init.orthogonal_`.
    """
    shape = checked_shape(shape, "orthogonal")
    if len(shape) < 2:
        raise ShapeError(
            f"init.orthogonal: {list(shape)} has {len(shape)} axes, and a matrix has two",
            hint="cr.init.orthogonal(key, (256, 256))",
        )
    rows, columns = shape[0], math.prod(shape[1:])
    tall = normal(key, (max(rows, columns), min(rows, columns)), np.float64)
    q, r = np.linalg.qr(tall)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # else it depends on LAPACK's own signs
    q = q if rows >= columns else q.T
    return (np.reshape(q, shape) * gain).astype(np.dtype(dtype))


def symmetric(key: Any, shape: tuple[int, ...], bound: float, dtype: Any) -> Any:
    """Uniform numbers between ±bound."""
    return uniform(key, shape, dtype, minval=-bound, maxval=bound)


def _xavier(shape: Any, gain: float, asked: str) -> float:
    fan_in, fan_out = fans(checked_shape(shape, asked), asked)
    return gain * math.sqrt(2 / max(fan_in + fan_out, 1))


def _he(shape: Any, gain: float, mode: Mode, asked: str) -> float:
    return gain / math.sqrt(max(fan_of(checked_shape(shape, asked), mode, asked), 1))
