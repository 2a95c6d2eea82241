"""The helper of a rank: a thread that adds values up with other ranks while the rank goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter

import numpy as np

from chainrule.devices.instructions import AllReduce
from chainrule.devices.workers import in_thread

Add = Callable[[AllReduce, Sequence[np.ndarray]], float]


class _Sum:
    """A sum that was begun."""

    def __init__(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        self.one, self.arrays = one, arrays
        self.ended = threading.Event()
        self.error: BaseException | None = None


class Helper:
    """Adds up one sum after the other, in the order in which they were begun.

    `add` adds the arrays of a sum in place, and gives the time at which all ranks had begun it.
    `log` has the sums that are there, each with that time and the one of its end.
    """

    def __init__(self, add: Add, name: str) -> None:
        self.add, self.name = add, name
        self.begun: dict[AllReduce, _Sum] = {}
        self.log: list[tuple[AllReduce, float, float]] = []
        self._queue: SimpleQueue[_Sum | None] | None = None

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Begins a sum, and goes on."""
        if self._queue is None:
            self._queue = SimpleQueue()
            in_thread(self._work, self.name)
        self.begun[one] = _Sum(one, arrays)
        self._queue.put(self.begun[one])

    def wait(self, one: AllReduce) -> None:
        """Waits for a sum; raises what has ended it, or one before it."""
        found = self.begun.pop(one)
        found.ended.wait()
        if found.error is not None:
            raise found.error

    def close(self) -> None:
        """Lets the thread end after what was begun."""
        if self._queue is not None:
            self._queue.put(None)

    def _work(self) -> None:
        assert self._queue is not None
        failed: BaseException | None = None
        while (found := self._queue.get()) is not None:
            found.error = failed
            if failed is None:
                try:
                    ready = self.add(found.one, found.arrays)
                    self.log.append((found.one, ready, perf_counter()))
                except BaseException as error:
                    found.error = failed = error
            found.arrays = ()
            found.ended.set()
            del found
