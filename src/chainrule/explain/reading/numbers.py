"""Reads numbers as a person writes them: 2.8284271247461903 is √8."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 10_000  # under a root


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
