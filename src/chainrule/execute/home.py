"""Where arrays that stay from call to call are: in memory, or on the device of an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Home:
    """Arrays by name: in `memory`, and those that a device has, too, in `away`.

    Of those in `newer` the device has the values that count.  Who reads the memory calls
    `come_back` first, and who writes it `moved_in`.  What is away is read by `np.asarray`.
    """

    def __init__(self, memory: Mapping[str, np.ndarray]) -> None:
        self.memory = memory
        self.away: dict[str, Any] = {}
        self.newer: set[str] = set()
        self._coming: tuple[Sequence[str], list[Any]] | None = None

    def expect(self, names: Sequence[str], made: list[Any]) -> None:
        """A run takes over the arrays of these names; at its end, `made` has their new values.

        So whoever looks in the same moment (the handler of a signal) finds them.
        """
        self._coming = names, made

    def settle(self) -> None:
        """Take the new values, if they are there."""
        if self._coming is not None:
            names, made = self._coming
            if made:
                self.newer.update(names)
                self.away.update(zip(names, made[0], strict=True))
                self._coming = None

    def come_back(self) -> None:
        """Bring the memory up to date; the device keeps its arrays."""
        self.settle()
        while self.newer:
            name = next(iter(self.newer))
            self.memory[name][...] = np.asarray(self.away[name])
            self.newer.discard(name)

    def moved_in(self) -> None:
        """The memory is what counts from now on, since somebody writes it."""
        self.settle()
        if self.away:
            self.come_back()
            self.away.clear()

    def forget(self) -> None:
        """The memory counts as it is: what the device has is of no use any more."""
        self._coming = None
        self.newer.clear()
        self.away.clear()
