"""Uniform and normal numbers, and Bernoulli events, from a key's random bits.

Each is a formula in the bits, so a draw is differentiable by the limits and probabilities that
come after it, and the bits themselves have derivative zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of, unary
from chainrule.frontend.traced import Traced
from chainrule.primitives.special import special
from chainrule.random.keys import bits, words

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

erfinv = unary(
    special.erfinv, np.exp, "erfinv", """The inverse of the error function, elementwise."""
)


@composite(symbol="uniform", latex=r"\mathcal{U}")
def uniform(
    key: Any, shape: Any = (), dtype: Any = np.float32, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform numbers from minval up to, but not including, maxval.

    A float32 has 23 random bits, a float64 52: multiples of 2**-23 and 2**-52 of the interval.
    (So minval may come up, and maxval only where the sum is rounded to it.)
    """
    dtype = float_type(dtype, (key, minval, maxval), "uniform")
    unit = unit_interval(key, shape, dtype)
    if is_number(minval) and is_number(maxval) and (minval, maxval) == (0, 1):
        return unit
    low, high = in_dtype(minval, dtype), in_dtype(maxval, dtype)
    return of_shape(unit * (high - low) + low, unit, "uniform", "minval and maxval")


@composite(symbol="normal", latex=r"\mathcal{N}")
def normal(key: Any, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Normal numbers with mean 0 and variance 1.

    The inverse of the distribution function at uniform numbers: sqrt(2) erfinv(u), with u the
    2**23 (for float64, 2**52) midpoints that JAX takes; all |x| are below 5.5 (8.3).
    """
    dtype = float_type(dtype, (key,), "normal")
    # Every step is exact, so u is the same however the sum is rounded.
    u = 2.0 * unit_interval(key, shape, dtype) + float(np.nextafter(dtype.type(-1), dtype.type(0)))
    return float(dtype.type(np.sqrt(2))) * erfinv(u)


@composite(symbol="Bernoulli", latex=r"\operatorname{Bernoulli}")
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Booleans that are True with probability p; without `shape`, one for each element of p.

    Made of float32 numbers, of float64 ones where p is float64: p is rounded up to a multiple of
    2**-23 or 2**-52.
    """
    if is_number(p) and not 0 <= p <= 1:
        trace = trace_of((key,))
        raise InputError(
            f"bernoulli: the probability p={p!r} is not from 0 to 1",
            where=trace.where() if trace is not None else "",
            hint="for per cents divide by 100",
        )
    wide = getattr(p, "dtype", None) == np.float64
    if isinstance(p, Traced) and p.node.type.weak:
        wide = False
    dtype = np.dtype(np.float64 if wide else np.float32)
    unit = unit_interval(key, np.shape(p) if shape is None else shape, dtype)
    return of_shape(unit < in_dtype(p, dtype), unit, "bernoulli", "p")


def unit_interval(key: Any, shape: Any, dtype: np.dtype) -> Any:
    """Multiples of 2**-23 or 2**-52 from 0 up to 1, without rounding."""
    if dtype == np.float32:
        return (bits(key, shape) & 0xFFFFFE00).astype(dtype) * 2.0**-32
    high, low = words(key, shape, "float64 numbers")
    return high.astype(dtype) * 2.0**-32 + (low & 0xFFFFF000).astype(dtype) * 2.0**-64


def is_number(value: Any) -> bool:
    """Whether the value is one of Python's numbers."""
    return isinstance(value, (bool, int, float))


def in_dtype(value: Any, dtype: np.dtype) -> Any:
    """The value rounded to the dtype, as a NumPy number or an array."""
    if isinstance(value, Traced):
        return value.astype(dtype)
    return np.asarray(value).astype(dtype)[()]


def float_type(dtype: Any, given: tuple[Any, ...], asked: str) -> np.dtype:
    """float32 or float64; a DTypeError for others."""
    chosen = np.dtype(dtype)
    if chosen not in FLOATS:
        trace = trace_of(given)
        raise DTypeError(
            f"{asked} numbers are float32 or float64, not {chosen}",
            where=trace.where() if trace is not None else "",
            hint="convert them with .astype(...)",
        )
    return chosen


def of_shape(result: Any, unit: Any, asked: str, what: str) -> Any:
    """The result, if it has the shape that was asked for."""
    if tuple(np.shape(result)) != tuple(np.shape(unit)):
        trace = trace_of((result,))
        shown, wanted = (", ".join(map(str, np.shape(one))) for one in (result, unit))
        raise ShapeError(
            f"{asked} of shape [{wanted}] with {what} that broadcast to [{shown}]",
            where=trace.where() if trace is not None else "",
            hint=f"ask for the whole shape: shape=({shown})",
        )
    return result
