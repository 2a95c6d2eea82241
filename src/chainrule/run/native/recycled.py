"""Memory of results: what the caller has let go of is used again, so that no page faults anew.

Fresh memory of a few megabytes costs more time than a kernel that fills it (4 MiB: 0.8 ms to have,
0.07 ms to write).  A result from here is an ordinary array; when it and all views of it are gone,
its memory comes back, and stays for later results of that size.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.plan.schedule import ALIGNMENT

SMALLEST = 1 << 16  # bytes from which this is worth its own microsecond
MOST = 1 << 27  # bytes that are kept for later at most


class _Store:
    """The memory that nobody uses, by size."""

    def __init__(self) -> None:
        self.free: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        self.nbytes = 0


_store = _Store()


@lru_cache(maxsize=256)
def _lease_type(nbytes: int) -> Any:
    """The owner of a result's memory, as seen by the result: it gives the memory back.

    (An array cannot be that: NumPy looks through arrays for the owner of their memory.)
    """

    class Lease(ctypes.c_char * nbytes):
        memory: np.ndarray

        def __del__(self) -> None:
            _give_back(self.memory)

    return Lease


def _give_back(memory: np.ndarray) -> None:
    nbytes = memory.nbytes
    if _store.nbytes + nbytes <= MOST:
        _store.nbytes += nbytes
        _store.free[nbytes].append(memory)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """As `np.empty`; large arrays begin at a multiple of ALIGNMENT bytes."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < SMALLEST:
        return np.empty(shape, dtype)
    try:
        memory = _store.free[nbytes].pop()
        _store.nbytes -= nbytes
    except IndexError:
        memory = _aligned(nbytes)
    lease = _lease_type(nbytes).from_address(memory.__array_interface__["data"][0])
    lease.memory = memory
    return np.ndarray(shape, dtype, lease)


def forget() -> None:
    """Give all memory that nobody uses back to the system."""
    _store.free.clear()
    _store.nbytes = 0


def _aligned(nbytes: int) -> np.ndarray:
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + nbytes]
