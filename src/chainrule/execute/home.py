"""Where arrays that stay from call to call are: in memory, or on the device of an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class Home:
    """Arrays by name: all are in `memory`; `away` has the arrays on a device.

    The names in `newer` are out of date in memory: the device has their current values.  Call
    `come_back` before you read the memory, and `moved_in` before you write it.  `bring` reads an
    array that is away, and `where` says on which devices those are: see `move_to`.  `left` are the
    arrays that the last run left, and `left_as` the names that it expected them as: as long as they
    are those that are away.
    """

    def __init__(self, memory: Mapping[str, np.ndarray]) -> None:
        self.memory = memory
        self.away: dict[str, Any] = {}
        self.newer: set[str] = set()
        self.left: list[Any] = []
        self.left_as: Sequence[str] | None = None
        self.where: Any = None
        self.bring: Callable[[Any], np.ndarray] = np.asarray
        self._coming: tuple[Sequence[str], list[Any]] | None = None
        self.ahead: Callable[[], Mapping[str, Any]] | None = None
        self.sent: dict[int, tuple[np.ndarray, Any]] = {}

    def look_ahead(self, ahead: Callable[[], Mapping[str, Any]] | None) -> None:
        """From now on, `ahead` gives the arrays of the next run by the names of inputs, nobody
        changes them before it, and an executor may ask while a run goes on: `sent` has those that
        are on a device, by the ids of the arrays.  None ends that."""
        self.ahead, self.sent = ahead, {}

    def expect(self, names: Sequence[str], made: list[Any]) -> None:
        """A run takes over the arrays of these names; at its end, what it gives is in `made`, first
        of all the new values of these.

        A signal handler that looks at that moment finds them here.
        """
        self._coming = names, made

    def settle(self) -> None:
        """Take the new values, if they are there."""
        if self._coming is not None:
            names, made = self._coming
            if made:
                left = made[0][0]
                self.newer.update(names)
                self.away.update(zip(names, left, strict=True))
                self.left, self.left_as, self._coming = left, names, None

    def come_back(self) -> None:
        """Bring the memory up to date; the device keeps its arrays."""
        self.settle()
        while self.newer:
            name = next(iter(self.newer))
            self.memory[name][...] = self.bring(self.away[name])
            self.newer.discard(name)

    def moved_in(self) -> None:
        """From now on the memory has the current values: the caller writes it."""
        self.settle()
        if self.away:
            self.come_back()
            self._clear()

    def put_back(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """A run failed that had taken over these arrays: they are away as before."""
        self.left, self.left_as = [], None
        self.away.update(zip(names, arrays, strict=True))

    def move_to(self, where: Any, bring: Callable[[Any], np.ndarray] = np.asarray) -> None:
        """From now on arrays that are away are on these devices: those on others come back."""
        if self.where != where:
            self.moved_in()
            self.where, self.bring = where, bring

    def forget(self) -> None:
        """Keep the memory as it is, and drop what the device has."""
        self._coming = None
        self.newer.clear()
        self._clear()

    def _clear(self) -> None:
        self.left, self.left_as = [], None
        self.away.clear()
