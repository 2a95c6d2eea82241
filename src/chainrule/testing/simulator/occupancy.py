"""Which value every byte of an arena holds; no byte ever holds two."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, Protocol, TypeVar

from chainrule.schedule.records import Buffer


class Holder(Protocol):
    """A value, or anything else, that fills a buffer."""

    @property
    def buffer(self) -> Buffer: ...


H = TypeVar("H", bound=Holder)


class Occupancy(Generic[H]):
    """The holders of one arena, sorted by offset; those of no bytes are nowhere.

    Finding, adding and removing one takes a binary search, and a move of pointers.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._holders: list[H] = []

    def overlapping(self, buffer: Buffer) -> H | None:
        """The first holder of a byte of `buffer`; None if all are free."""
        if not buffer.nbytes:
            return None
        place = bisect_right(self._starts, buffer.offset)
        if place and self._holders[place - 1].buffer.end > buffer.offset:
            return self._holders[place - 1]
        if place < len(self._starts) and self._starts[place] < buffer.end:
            return self._holders[place]
        return None

    def add(self, holder: H) -> None:
        """`holder` has its bytes from now on; they must be free."""
        if holder.buffer.nbytes:
            place = bisect_left(self._starts, holder.buffer.offset)
            self._starts.insert(place, holder.buffer.offset)
            self._holders.insert(place, holder)

    def remove(self, holder: H) -> None:
        """The bytes of `holder` are free from now on; it must be here."""
        if holder.buffer.nbytes:
            place = bisect_left(self._starts, holder.buffer.offset)
            assert self._holders[place] is holder
            del self._starts[place], self._holders[place]
