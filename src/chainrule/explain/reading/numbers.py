"""Reads numbers as a person writes them: 2.8284271247461903 is √8; 0, 1, … are positions."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 10_000  # under a root


def counted(array: np.ndarray) -> tuple[int, int] | None:
    """The first and the last of integers that follow each other; None of another array."""
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size < 2:
        return None
    first = int(array[0])
    is_counted = bool((array == first + np.arange(array.size)).all())
    return (first, int(array[-1])) if is_counted else None


def root_of(value: Any) -> int | None:
    """8 where a floating-point number is √8 to its last bit, −8 where it is 1/√8; else None."""
    if not isinstance(value, float | np.floating) or not 0 < value <= LARGEST**0.5:
        return None
    kind = type(value)
    for sign, square in ((1, float(value) ** 2), (-1, float(value) ** -2)):
        if not 1 < square < LARGEST + 1:
            continue
        inside = round(square)
        root = np.sqrt(kind(inside))
        if float(root).is_integer():
            continue
        if value in ((root,) if sign > 0 else (kind(1) / root, kind(inside) ** kind(-0.5))):
            return sign * inside
    return None
