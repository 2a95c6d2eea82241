"""Exponential, Laplace, logistic, Gumbel, Cauchy and truncated normal numbers.

Each is the inverse of its distribution function at uniform numbers, with JAX's conventions; none
is infinite.  Scales and places are given by arithmetic: `place + scale * laplace(key, shape)`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of, unary
from chainrule.graph.dtypes import finfo
from chainrule.numpy.of_one_primitive import erf
from chainrule.primitives import library
from chainrule.random.distributions import (
    erfinv,
    float_type,
    in_dtype,
    is_number,
    of_shape,
    unit_interval,
)

log = unary(library.library_log, np.log, "log", """The logarithm, with NumPy's bits everywhere.""")
tan = unary(library.library_tan, np.tan, "tan", """The tangent, with NumPy's bits everywhere.""")


@composite(symbol="exponential", latex=r"\operatorname{Exp}")
def exponential(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Numbers of the density exp(-x) for x from 0: mean 1 and variance 1; below 16 (float64: 37).

    -log(1 - u) of uniform numbers u.
    """
    dtype = float_type(dtype, (key,), "exponential")
    return -log(1 - unit_interval(key, shape, dtype)) + 0.0  # u = 0 gives 0, not -0


@composite(symbol="Laplace", latex=r"\operatorname{Laplace}")
def laplace(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Numbers of the density exp(-|x|) / 2: mean 0 and variance 2; |x| is below 17 (float64: 37).

    sign(u) log(1 - |u|) of numbers u between -1 and 1.
    """
    dtype = float_type(dtype, (key,), "laplace")
    # Every step is exact, so u is the same however the sum is rounded.
    u = 2.0 * unit_interval(key, shape, dtype) - float(1 - finfo(dtype).epsneg)
    return np.sign(u) * log(1 - np.abs(u))


@composite(symbol="logistic", latex=r"\operatorname{Logistic}")
def logistic(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Numbers whose distribution function is the sigmoid: mean 0 and variance pi² / 3.

    log(u / (1 - u)) of uniform numbers u above 0.
    """
    dtype = float_type(dtype, (key,), "logistic")
    u = _positive(unit_interval(key, shape, dtype), finfo(dtype).eps)
    return log(u) - log(1 - u)


@composite(symbol="Gumbel", latex=r"\operatorname{Gumbel}")
def gumbel(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Numbers whose distribution function is exp(-exp(-x)): mean 0.577..., variance pi² / 6.

    -log(-log(u)) of uniform numbers u above 0.
    """
    return _gumbel(key, shape, float_type(dtype, (key,), "gumbel"))


def _gumbel(key: Any, shape: Any, dtype: np.dtype) -> Any:
    u = _positive(unit_interval(key, shape, dtype), finfo(dtype).tiny)
    return -log(-log(u))


@composite(symbol="Cauchy", latex=r"\operatorname{Cauchy}")
def cauchy(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Numbers of the density 1 / (pi (1 + x²)), which have no mean.

    tan(pi (u - 1/2)) of uniform numbers u above 0.
    """
    dtype = float_type(dtype, (key,), "cauchy")
    u = _positive(unit_interval(key, shape, dtype), finfo(dtype).eps)
    return tan(math.pi * (u - 0.5))


@composite(symbol="normal", latex=r"\mathcal{N}")
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = np.float32
) -> Any:
    """Normal numbers with mean 0 and variance 1, truncated to between lower and upper.

    sqrt(2) erfinv(u) of uniform numbers u between the error functions of the limits, so that
    derivatives flow to the limits.  Without `shape`, one for each pair of limits.  Where both are
    more than 5 (float64: 8) off on the same side, the numbers are the nearer one.
    """
    dtype = float_type(dtype, (key, lower, upper), "truncated_normal")
    if is_number(lower) and is_number(upper) and not lower < upper:
        trace = trace_of((key,))
        raise InputError(
            f"truncated_normal: lower={lower!r} is not below upper={upper!r}",
            where=trace.where() if trace is not None else "",
            hint="for instance cr.random.truncated_normal(key, -2, 2)",
        )
    low, high = in_dtype(lower, dtype), in_dtype(upper, dtype)
    if shape is None:
        shape = np.broadcast_shapes(np.shape(low), np.shape(high))
    unit = unit_interval(key, shape, dtype)
    root = float(dtype.type(math.sqrt(2)))
    first, last = erf(low / root), erf(high / root)
    u = unit * (last - first) + first
    largest = float(1 - finfo(dtype).epsneg)
    inside = root * erfinv(np.clip(u, -largest, largest))
    result = np.maximum(np.minimum(inside, high), low)
    return of_shape(result, unit, "truncated_normal", "limits")


def _positive(u: Any, least: Any) -> Any:
    """Numbers from 0 up to 1, with 0 replaced."""
    return np.maximum(u, float(least))
