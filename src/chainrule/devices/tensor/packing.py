"""Packs arrays of one dtype into one exchange between processes, and takes them apart again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from chainrule.devices.tensor.arrays import joined, part_along

Exchange = Callable[[str, np.ndarray, np.ndarray], None]  # a collective of MPI, what is sent, found


def gathered(
    arrays: Sequence[np.ndarray], axes: Sequence[int], count: int, exchange: Exchange
) -> list[np.ndarray]:
    """What `count` ranks have, one after another along an axis of each array; in C order."""
    found: list[Any] = [None] * len(arrays)
    for alike in _by_dtype(arrays):
        own = np.concatenate([arrays[one].reshape(-1) for one in alike])
        rows = np.empty((count, own.size), own.dtype)
        exchange("Allgather", own, rows)
        ends = np.cumsum([arrays[one].size for one in alike])[:-1]
        for one, parts in zip(alike, np.split(rows, ends, axis=1), strict=True):
            shape = arrays[one].shape
            found[one] = joined([part.reshape(shape) for part in parts], axes[one])
    return found


def added_parts(
    arrays: Sequence[np.ndarray], axes: Sequence[int], count: int, exchange: Exchange
) -> list[np.ndarray]:
    """This rank's parts, along an axis of each array, of the sums of what `count` ranks have, added
    in their order; in C order."""
    found: list[Any] = [None] * len(arrays)
    for alike in _by_dtype(arrays):
        parts = [
            [part_along(arrays[one], axes[one], place, count) for one in alike]
            for place in range(count)
        ]
        sent = np.stack([np.concatenate([part.reshape(-1) for part in row]) for row in parts])
        rows = np.empty_like(sent)
        exchange("Alltoall", sent, rows)
        total = rows[0]
        for row in rows[1:]:
            total += row
        ends = np.cumsum([part.size for part in parts[0]])[:-1]
        for one, part, sums in zip(alike, parts[0], np.split(total, ends), strict=True):
            found[one] = sums.reshape(part.shape).copy()  # alone in its memory
    return found


def _by_dtype(arrays: Sequence[np.ndarray]) -> Iterable[list[int]]:
    """The numbers of arrays of each dtype."""
    found: dict[np.dtype, list[int]] = {}
    for number, array in enumerate(arrays):
        found.setdefault(array.dtype, []).append(number)
    return found.values()
