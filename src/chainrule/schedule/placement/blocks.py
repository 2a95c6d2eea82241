"""Blocks of bytes with lives, what is in use together, and the bounds that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

# Pairs of blocks that are alive together, up to which the strategies that look at every pair are
# tried (about 0.5 s for all of them).
MOST_CONFLICTS = 300_000

Offsets = list[int]


class Block(NamedTuple):
    """`size` bytes in use from instruction `first` to `last`, both included, that begin at a
    multiple of `alignment`."""

    size: int
    first: int
    last: int
    alignment: int = 1

    @property
    def life(self) -> int:
        return self.last - self.first + 1


class Found(NamedTuple):
    """Offsets in an arena of `nbytes`, the strategy they come from, and what no arena can be
    below."""

    offsets: Offsets
    nbytes: int
    strategy: str
    lower_bound: int


def up(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` from `offset` on."""
    return -(-offset // alignment) * alignment


def unit_of(blocks: Sequence[Block]) -> int:
    """What divides every size, and every offset of blocks that lie as low as they can; 0 where no
    block has bytes."""
    alignments = {block.alignment for block in blocks if block.size}
    unit = gcd(*(block.size for block in blocks))
    while (less := gcd(unit, *(one for one in alignments if unit % one))) != unit:
        unit = less
    return unit


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
