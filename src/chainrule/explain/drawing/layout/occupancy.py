"""Which cells of a grid are taken: the lowest free row over a range of columns, quickly."""

from __future__ import annotations


class Occupancy:
    """Rows as bits of integers, in a tree over the columns; asking and taking are logarithmic."""

    def __init__(self, columns: int) -> None:
        self._size = max(1, columns)
        self._under = [0] * (2 * self._size)  # rows taken anywhere under a node of the tree
        self._across = [0] * (2 * self._size)  # rows taken in all columns under it

    def take(self, first: int, last: int, row: int, height: int = 1) -> None:
        """Takes `height` rows from `row` up, in the columns from `first` to `last`."""
        bits = ((1 << height) - 1) << row
        low, high = first + self._size, last + self._size + 1
        left, right = low, high - 1
        while low < high:
            if low & 1:
                self._under[low] |= bits
                self._across[low] |= bits
                low += 1
            if high & 1:
                high -= 1
                self._under[high] |= bits
                self._across[high] |= bits
            low >>= 1
            high >>= 1
        for node in (left, right):
            while node > 1:
                node >>= 1
                self._under[node] |= bits

    def taken(self, first: int, last: int) -> int:
        """The rows that are taken in any of the columns, as bits."""
        low, high = first + self._size, last + self._size + 1
        left, right = low, high - 1
        found = 0
        while low < high:
            if low & 1:
                found |= self._under[low]
                low += 1
            if high & 1:
                high -= 1
                found |= self._under[high]
            low >>= 1
            high >>= 1
        for node in (left, right):
            while node > 1:
                node >>= 1
                found |= self._across[node]
        return found

    def is_free(self, first: int, last: int, row: int) -> bool:
        """Whether a row is free in all of the columns (of no columns: yes)."""
        return first > last or not self.taken(first, last) >> row & 1

    def lowest(self, first: int, last: int, least: int, height: int = 1) -> int:
        """The lowest row, not below `least`, from which `height` rows are free."""
        if first > last:
            return least
        taken = self.taken(first, last) >> least
        done = 1
        while done < height:  # a row is blocked if any of the `height` rows from it up is taken
            shift = min(done, height - done)
            taken |= taken >> shift
            done += shift
        return least + (~taken & (taken + 1)).bit_length() - 1
