"""Memory of results: what the caller has let go of is used again, so that no page faults anew.

Fresh memory of a few megabytes costs more time than a kernel that fills it (4 MiB: 0.8 ms to have,
0.07 ms to write).  A result from here is an ordinary array that is also remembered here.  When
nobody else refers to it, nor to any view of it, it is given out again.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import OrderedDict, deque

import numpy as np

from chainrule.plan.schedule import ALIGNMENT

SMALLEST = 1 << 16  # bytes from which this is worth its own half microsecond
MOST = 1 << 27  # bytes that are remembered at most
TRIES = 16  # results that are looked at: who keeps thousands does not wait for all to be counted

Entry = tuple[np.ndarray, np.ndarray]  # the owner of the memory, and the result that shows it


def _counted(entry: Entry) -> tuple[np.ndarray, int, int]:
    """The result, and how many references there are to it and to the owner.

    It is held before it is counted: whoever else looks meanwhile, in another thread or in the
    handler of a signal, finds it in use.
    """
    array = entry[1]
    return array, sys.getrefcount(array), sys.getrefcount(entry[0])


def _made(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> Entry:
    owner = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -owner.__array_interface__["data"][0] % ALIGNMENT
    return owner, np.ndarray(shape, dtype, owner, start)


# As many references as there are where nobody else knows of them; NumPy lets every view refer to
# the owner.  A Python without its global lock counts otherwise: there nothing is given out again.
_, _NOBODY, _NOBODY_OF_OWNER = _counted(_made((1,), np.dtype(np.uint8), 1))
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Results:
    """The results that are remembered, by type; the types made last come last."""

    def __init__(self) -> None:
        self.known: OrderedDict[tuple[tuple[int, ...], np.dtype], deque[Entry]] = OrderedDict()
        self.nbytes = 0
        self.lock = threading.RLock()  # a signal's handler may call compiled code, too


_results = _Results()


def _begin_anew() -> None:
    """After a fork: a thread that is not in this process may have held the lock."""
    global _results
    _results = _Results()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """As `np.empty`; large arrays begin at a multiple of ALIGNMENT bytes, and are recycled."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < SMALLEST:
        return np.empty(shape, dtype)
    with _results.lock:
        entries = _results.known.get((shape, dtype))
        if entries is not None and _COUNTS:
            for _ in range(min(len(entries), TRIES)):
                array, references, of_owner = _counted(entries[0])
                if references == _NOBODY and of_owner == _NOBODY_OF_OWNER:
                    flags = array.flags  # somebody may have changed the array in place
                    same = array.shape == shape and array.dtype == dtype
                    if same and flags.c_contiguous and flags.writeable:
                        return array
                entries.rotate(-1)
        return _remembered(shape, dtype, nbytes)


def forget() -> None:
    """Remember nothing: memory that nobody uses goes back to the system."""
    with _results.lock:
        _results.known.clear()
        _results.nbytes = 0


def _remembered(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> np.ndarray:
    """A new result, for which old ones are forgotten if there are too many."""
    entry = _made(shape, dtype, nbytes)
    if nbytes > MOST:
        return entry[1]
    while _results.nbytes + nbytes > MOST:
        key, entries = next(iter(_results.known.items()))
        _results.nbytes -= entries.popleft()[1].nbytes
        if not entries:
            del _results.known[key]
    _results.known.setdefault((shape, dtype), deque()).append(entry)
    _results.known.move_to_end((shape, dtype))
    _results.nbytes += nbytes
    return entry[1]
