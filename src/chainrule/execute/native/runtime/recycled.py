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
from functools import lru_cache
from weakref import getweakrefcount

import numpy as np

from chainrule.execute.aligned import address_of, alignment_of
from chainrule.execute.native.runtime.arrays import pointer_of

SMALLEST = 1 << 16  # bytes from which this is worth its own half microsecond
MOST = 1 << 27  # bytes that are remembered at most
TRIES = 16  # results that are looked at: who keeps thousands does not wait for all to be counted

# The owner of the memory, the result that shows it, and where that begins.
Entry = tuple[np.ndarray, np.ndarray, int]


def _counted(entry: Entry) -> tuple[np.ndarray, int, int]:
    """The result, and how many references there are to it and to the owner.

    It is held before it is counted: whoever else looks meanwhile, in another thread or in the
    handler of a signal, finds it in use.
    """
    array = entry[1]
    return array, sys.getrefcount(array), sys.getrefcount(entry[0])


def _made(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> Entry:
    alignment = alignment_of(nbytes)
    owner = np.empty(nbytes + alignment, np.uint8)
    address = address_of(owner)
    start = -address % alignment
    return owner, np.ndarray(shape, dtype, owner, start), address + start


# As many references as there are where nobody else knows of them; NumPy lets every view refer to
# the owner.  A Python without its global lock counts otherwise: there nothing is given out again.
_, _NOBODY, _NOBODY_OF_OWNER = _counted(_made((1,), np.dtype(np.uint8), 1))
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Results:
    """The results that are remembered, by type; the types made last come last."""

    def __init__(self) -> None:
        self.known: OrderedDict[Kind, deque[Entry]] = OrderedDict()
        self.nbytes = 0
        self.lock = threading.RLock()  # a signal's handler may call compiled code, too


_results = _Results()


def _begin_anew() -> None:
    """After a fork: a thread that is not in this process may have held the lock."""
    global _results
    _results = _Results()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


class Kind:
    """A type of results; `kind_of` gives the one of a shape and a dtype."""

    __slots__ = ("dtype", "nbytes", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.nbytes = math.prod(shape) * dtype.itemsize

    def empty(self) -> tuple[np.ndarray, int]:
        """As `np.empty`, and where it begins; large arrays begin at a multiple of `alignment_of`
        bytes, and are recycled."""
        if self.nbytes < SMALLEST:
            array = np.empty(self.shape, self.dtype)
            return array, pointer_of(array)
        entries = _results.known.get(self)
        if entries is not None and _COUNTS:
            # Other threads may turn and shorten it meanwhile; what is found free is free.
            for _ in range(min(len(entries), TRIES)):
                try:
                    entry = entries[0]
                except IndexError:
                    break
                array, references, of_owner = _counted(entry)
                if (
                    references == _NOBODY
                    and of_owner == _NOBODY_OF_OWNER
                    and not getweakrefcount(array)
                    # somebody may have changed the array in place
                    and array.shape == self.shape
                    and array.dtype == self.dtype
                    and array.flags.carray
                ):
                    return array, entry[2]
                entries.rotate(-1)
        with _results.lock:
            return _remembered(self)


kind_of = lru_cache(maxsize=1024)(Kind)


def forget() -> None:
    """Remember nothing: memory that nobody uses goes back to the system."""
    with _results.lock:
        _results.known.clear()
        _results.nbytes = 0


def _remembered(kind: Kind) -> tuple[np.ndarray, int]:
    """A new result, for which old ones are forgotten if there are too many."""
    entry = _made(kind.shape, kind.dtype, kind.nbytes)
    result = entry[1:]  # a reference, before others see the entry: it must not look free
    if kind.nbytes <= MOST:
        while _results.nbytes + kind.nbytes > MOST:
            other, entries = next(iter(_results.known.items()))
            _results.nbytes -= entries.popleft()[1].nbytes
            if not entries:
                del _results.known[other]
        _results.known.setdefault(kind, deque()).append(entry)
        _results.known.move_to_end(kind)
        _results.nbytes += kind.nbytes
    return result
