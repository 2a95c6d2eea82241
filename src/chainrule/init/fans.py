"""Computes fans of weights: how many numbers make an output, and how many an input makes."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal

from chainrule.errors import InputError, ShapeError

Mode = Literal["fan_in", "fan_out"]


def checked_shape(shape: Any, asked: str) -> tuple[int, ...]:
    """The shape as integers; InputError where it is none."""
    try:
        found = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(shape)
        found = tuple([operator.index(size) for size in found])
    except TypeError:
        found = (-1,)
    if any(size < 0 for size in found):
        raise InputError(
            f"init.{asked}: the shape {shape!r} has to be integers",
            hint=f"cr.init.{asked}(key, (784, 256))",
        )
    return found


def fans(shape: tuple[int, ...], asked: str) -> tuple[int, int]:
    """(fan_in, fan_out) of weights as this library's layers take them.

    Of a dense layer, x @ W with W (in, out), these are in and out.  Of a convolution, with weight
    (out, in / groups, *window), they are in / groups and out, each times the elements of the
    window.  ShapeError for fewer than two axes: a bias has no fans.
    """
    if len(shape) < 2:
        raise ShapeError(
            f"init.{asked}: {list(shape)} has {len(shape)} axes, and fans are of at least two",
            hint="a dense layer has (in, out), a convolution (out, in, *window); "
            "a bias begins at 0: np.zeros(out, np.float32)",
        )
    if len(shape) == 2:
        return shape
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def fan_of(shape: tuple[int, ...], mode: Mode, asked: str) -> int:
    """One of the fans, by its name."""
    if mode not in ("fan_in", "fan_out"):
        raise InputError(
            f"init.{asked}: mode={mode!r} is neither 'fan_in' nor 'fan_out'",
            hint="mode='fan_in' keeps the variance of values, 'fan_out' that of gradients",
        )
    return fans(shape, asked)[mode == "fan_out"]
