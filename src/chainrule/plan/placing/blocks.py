"""Blocks of bytes with lives, what is in use together, and the bounds that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

# Pairs of blocks that are alive together, up to which the strategies that look at every pair are
# tried (about 0.5 s for all of them).
MOST_CONFLICTS = 300_000

Offsets = list[int]


@dataclass(frozen=True, slots=True)
class Block:
    """`size` bytes in use from instruction `first` to `last`, both included."""

    size: int
    first: int
    last: int

    @property
    def life(self) -> int:
        return self.last - self.first + 1


def largest_load(blocks: Sequence[Block]) -> int:
    """The largest sum of the sizes of blocks that are in use together."""
    change: defaultdict[int, int] = defaultdict(int)
    for block in blocks:
        change[block.first] += block.size
        change[block.last + 1] -= block.size
    load = largest = 0
    for moment in sorted(change):
        load += change[moment]
        largest = max(largest, load)
    return largest


def arena_nbytes(blocks: Sequence[Block], offsets: Offsets) -> int:
    """The bytes up to the end of the highest block."""
    ends = (offset + block.size for block, offset in zip(blocks, offsets, strict=True))
    return max(ends, default=0)


def conflicts_of(blocks: Sequence[Block]) -> list[list[int]] | None:
    """For each block those that are in use together with it; None if they are too many."""
    found: list[list[int]] = [[] for _ in blocks]
    alive: list[int] = []
    total = 0
    for number in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        first = blocks[number].first
        alive = [other for other in alive if blocks[other].last >= first]
        total += len(alive)
        if total > MOST_CONFLICTS:
            return None
        for other in alive:
            found[other].append(number)
        found[number] += alive
        if blocks[number].size:
            alive.append(number)
    return found
