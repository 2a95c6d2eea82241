"""The free bytes of an arena, as gaps between what is placed."""

from __future__ import annotations

from bisect import bisect_left, insort


class Gaps:
    """Gaps that never touch each other, found by size, by where they start and where they end."""

    def __init__(self, nbytes: int) -> None:
        """One gap: the whole arena."""
        self.arena_nbytes = nbytes
        self._by_size: list[tuple[int, int]] = []  # (size, start)
        self._size: dict[int, int] = {}  # by start
        self._start: dict[int, int] = {}  # by end
        if nbytes:
            self._add(0, nbytes)

    def take(self, size: int) -> tuple[int, int]:
        """Start and end of the smallest gap of at least `size`, which is one no more.

        Where none is large enough the arena grows; the gap ends at its new end.
        """
        place = bisect_left(self._by_size, (size, 0))
        if place < len(self._by_size):
            found, start = self._by_size[place]
            self._remove(start)
            return start, start + found
        start = self._start.get(self.arena_nbytes, self.arena_nbytes)
        if start < self.arena_nbytes:
            self._remove(start)
        self.arena_nbytes = start + size
        return start, self.arena_nbytes

    def give(self, start: int, end: int) -> None:
        """These bytes are free from now on, together with the gaps that they touch."""
        if start == end:
            return
        if end in self._size:
            end += self._remove(end)
        if start in self._start:
            before = self._start[start]
            self._remove(before)
            start = before
        self._add(start, end - start)

    def _add(self, start: int, size: int) -> None:
        insort(self._by_size, (size, start))
        self._size[start], self._start[start + size] = size, start

    def _remove(self, start: int) -> int:
        """The size of the gap that started here."""
        size = self._size.pop(start)
        del self._start[start + size], self._by_size[bisect_left(self._by_size, (size, start))]
        return size
