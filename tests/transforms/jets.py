"""Second derivatives of numbers, by the textbook: a referee that looks at nothing but what is used.

A `Jet` is a number with its gradient and Hessian, by the elements of one array; one without is a
constant.  Where a derivative does not exist, or is not finite, it is NaN, and so is all that uses
it.  What a program does not use, no jet ever sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

NOWHERE = (math.nan, math.nan, math.nan)
Slopes = Callable[[np.float64], tuple[Any, Any, Any]]


class Jet:
    """A value, and its first and second derivatives; None for those of a constant."""

    __slots__ = ("bend", "slope", "value")

    def __init__(self, value: Any, slope: Any = None, bend: Any = None) -> None:
        self.value = np.float64(value)
        self.slope = slope
        self.bend = bend

    def through(self, slopes: Slopes) -> Jet:
        """f of it, where `slopes` gives f, f' and f''."""
        with np.errstate(all="ignore"):
            value, first, second = slopes(self.value)
            if self.slope is None:
                return Jet(value)
            if not (np.isfinite(first) and np.isfinite(second)):
                return Jet(value).at_a_kink(len(self.slope))
            outer = np.outer(self.slope, self.slope)
            return Jet(value, first * self.slope, first * self.bend + second * outer)

    def at_a_kink(self, count: int | None = None) -> Jet:
        """The same value, without derivatives."""
        count = count or (None if self.slope is None else len(self.slope))
        if count is None:
            return self
        return Jet(self.value, np.full(count, np.nan), np.full((count, count), np.nan))

    def __add__(self, other: Jet) -> Jet:
        with np.errstate(all="ignore"):
            value = self.value + other.value
            if self.slope is None or other.slope is None:
                live = other if self.slope is None else self
                return Jet(value, live.slope, live.bend)
            return Jet(value, self.slope + other.slope, self.bend + other.bend)

    def __mul__(self, other: Jet) -> Jet:
        with np.errstate(all="ignore"):
            value = self.value * other.value
            if self.slope is None and other.slope is None:
                return Jet(value)
            if self.slope is None or other.slope is None:
                live, number = (other, self.value) if self.slope is None else (self, other.value)
                return Jet(value, number * live.slope, number * live.bend)
            cross = np.outer(self.slope, other.slope)
            bend = self.value * other.bend + other.value * self.bend + cross + cross.T
            return Jet(value, self.value * other.slope + other.value * self.slope, bend)


def power(exponent: float) -> Slopes:
    """x to a constant."""

    def slopes(x: np.float64) -> tuple[Any, Any, Any]:
        first = exponent * np.power(x, exponent - 1)
        return np.power(x, exponent), first, exponent * (exponent - 1) * np.power(x, exponent - 2)

    return slopes


def _tanh(x: np.float64) -> tuple[Any, Any, Any]:
    y = np.tanh(x)
    return y, 1 - y * y, -2 * y * (1 - y * y)


def _cbrt(x: np.float64) -> tuple[Any, Any, Any]:
    y = np.cbrt(x)
    return y, 1 / (3 * y * y), -2 / (9 * x * y * y)


def _exp(x: np.float64) -> tuple[Any, Any, Any]:
    return np.exp(x), np.exp(x), np.exp(x)


SLOPES: dict[str, Slopes] = {
    "tanh": _tanh,
    "exp": _exp,
    "negative": lambda x: (-x, -1.0, 0.0),
    "square": lambda x: (x * x, 2 * x, 2.0),
    "sin": lambda x: (np.sin(x), np.cos(x), -np.sin(x)),
    "sqrt": lambda x: (np.sqrt(x), 0.5 / np.sqrt(x), -0.25 / (x * np.sqrt(x))),
    "log": lambda x: (np.log(x), 1 / x, -1 / (x * x)) if not x < 0 else NOWHERE,
    "log1p": lambda x: (
        (np.log1p(x), 1 / (1 + x), -1 / ((1 + x) * (1 + x))) if not x < -1 else NOWHERE
    ),
    "reciprocal": lambda x: (1 / x, -1 / (x * x), 2 / (x * x * x)),
    "arccos": lambda x: (np.arccos(x), -1 / np.sqrt(1 - x * x), -x / (1 - x * x) ** 1.5),
    "arctanh": lambda x: (
        (np.arctanh(x), 1 / (1 - x * x), 2 * x / (1 - x * x) ** 2)
        if abs(x) < 1
        else (np.arctanh(x), math.nan, math.nan)
    ),
    "cbrt": _cbrt,
    "root": power(0.5),
    "power": power(1.3),
    "inverse_root": power(-1.5),
}
