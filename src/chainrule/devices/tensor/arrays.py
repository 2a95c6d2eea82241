"""Takes parts of arrays, and joins them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def part_along(array: np.ndarray, axis: int, place: int, ways: int) -> np.ndarray:
    """One of equal parts of an array along an axis, as a view."""
    length = array.shape[axis] // ways
    where = slice(place * length, (place + 1) * length)
    return array[(*[slice(None)] * axis, where)]


def joined(parts: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """The arrays one after another along an axis, in C order."""
    first = parts[0]
    shape = (*first.shape[:axis], first.shape[axis] * len(parts), *first.shape[axis + 1 :])
    found = np.empty(shape, first.dtype)
    for place, part in enumerate(parts):
        part_along(found, axis, place, len(parts))[...] = part
    return found
