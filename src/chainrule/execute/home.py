"""Where arrays that stay from call to call are: in memory, or on the device of an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class Home:
    """Arrays by name: all are in `memory`; `away` has the arrays on a device, if it `is_away`.

    The names in `newer` are out of date in memory: the device has their current values.  Call
    `come_back` before you read the memory, and `moved_in` before you write it.  `bring` reads an
    array that is away, and `where` says on which devices those are: see `move_to`.

    A run that takes over arrays sets `coming`: their names, and a list in which it will put what it
    gives, first of all the new arrays.  Whoever looks before `settle`, as the handler of a signal
    may, finds them there.  `left` are then these arrays, `left_as` their names, and `others` the
    other arrays that are away: a run does nothing for each array.
    """

    def __init__(self, memory: Mapping[str, np.ndarray]) -> None:
        self.memory = memory
        self.is_away = False
        self.left: Sequence[Any] = ()
        self.left_as: Sequence[str] | None = None
        self.others: dict[str, Any] = {}
        self.where: Any = None
        self.bring: Callable[[Any], np.ndarray] = np.asarray
        self.coming: tuple[Sequence[str], Sequence[Any]] | None = None
        self.ahead: Callable[[], Mapping[str, Any]] | None = None
        self.sent: dict[int, tuple[np.ndarray, Any]] = {}
        self._newer: set[str] = set()  # of the others: what is left is always newer

    @property
    def away(self) -> dict[str, Any]:
        """The arrays on a device, by name."""
        self.settle()
        if self.left_as is not None:
            self.others.update(zip(self.left_as, self.left, strict=True))
            self._newer.update(self.left_as)
            self.left, self.left_as = (), None
        return self.others

    @property
    def newer(self) -> set[str]:
        """The names of arrays that are out of date in memory."""
        return self._newer if self.away else set()

    def look_ahead(self, ahead: Callable[[], Mapping[str, Any]] | None) -> None:
        """From now on, `ahead` gives the arrays of the next run by the names of inputs, nobody
        changes them before it, and an executor may ask while a run goes on: `sent` has those that
        are on a device, by the ids of the arrays.  None ends that."""
        self.ahead, self.sent = ahead, {}

    def settle(self) -> None:
        """Take the new values, if they are there."""
        if self.coming is not None:
            names, made = self.coming
            if made:
                if names is not self.left_as:
                    self.is_away = True
                    for name in names:
                        self.others.pop(name, None)
                self.left, self.left_as, self.coming = made[0][0], names, None

    def come_back(self) -> None:
        """Bring the memory up to date; the device keeps its arrays."""
        away, newer = self.away, self._newer
        while newer:
            name = next(iter(newer))
            self.memory[name][...] = self.bring(away[name])
            newer.discard(name)

    def moved_in(self) -> None:
        """From now on the memory has the current values: the caller writes it."""
        self.settle()
        if self.is_away:
            self.come_back()
            self._clear()

    def put_back(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """A run failed that had taken over these arrays: they are away as before."""
        self.left, self.left_as = arrays, names

    def move_to(self, where: Any, bring: Callable[[Any], np.ndarray] = np.asarray) -> None:
        """From now on arrays that are away are on these devices: those on others come back."""
        if self.where != where:
            self.moved_in()
            self.where, self.bring = where, bring

    def forget(self) -> None:
        """Keep the memory as it is, and drop what the device has."""
        self.coming = None
        self._newer.clear()
        self._clear()

    def _clear(self) -> None:
        self.left, self.left_as = (), None
        self.others.clear()
        self.is_away = False
