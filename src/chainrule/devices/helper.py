"""The helper of a rank: a thread that adds values up with other ranks while the rank goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter

import numpy as np

from chainrule.devices.instructions import AllReduce
from chainrule.devices.system import woken_promptly
from chainrule.devices.workers import in_thread

Add = Callable[[AllReduce, Sequence[np.ndarray]], None]


class _Sum:
    """A sum that was begun."""

    def __init__(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        self.one, self.arrays = one, arrays
        self.ended = threading.Event()
        self.error: BaseException | None = None


class Helper:
    """Adds up one sum after the other, in the order in which they were begun.

    `add` adds the arrays of a sum in place.  `log` has the sums that are there, each with the times
    at which this rank began it and at which it was there.
    """

    def __init__(self, add: Add, name: str) -> None:
        self.add, self.name = add, name
        self.begun: dict[AllReduce, _Sum] = {}
        self.log: list[tuple[AllReduce, float, float]] = []
        self._queue: SimpleQueue[_Sum | None] = SimpleQueue()
        self._works = False

    def start(self) -> None:
        """Lets the thread wait for sums: one that starts while the rank computes starts late."""
        if not self._works:
            self._works = True
            in_thread(self._work, self.name)

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Begins a sum, and goes on."""
        self.start()
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
        self._queue.put(None)

    def _work(self) -> None:
        with woken_promptly():
            self._add_up()

    def _add_up(self) -> None:
        failed: BaseException | None = None
        while (found := self._queue.get()) is not None:
            found.error = failed
            if failed is None:
                try:
                    begun = perf_counter()
                    self.add(found.one, found.arrays)
                    self.log.append((found.one, begun, perf_counter()))
                except BaseException as error:
                    found.error = failed = error
            found.arrays = ()
            found.ended.set()
            del found
