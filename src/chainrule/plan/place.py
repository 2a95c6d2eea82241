"""Offsets for buffers of known sizes and lifetimes, in an arena that is as small as can be.

Finding the smallest arena is NP-hard (Garey and Johnson, SR2: dynamic storage allocation).  A few
quick strategies are tried, and the best result is taken; none can be below the largest load, the
bytes that are alive at one moment, so reaching that ends the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from chainrule.plan.gaps import Gaps
from chainrule.plan.schedule import aligned

# Pairs of buffers that are alive together, up to which the strategies that look at every pair are
# tried (about 0.5 s for all of them).
MOST_CONFLICTS = 300_000


@dataclass(frozen=True)
class Request:
    """A buffer of `nbytes` that is in use from instruction `first` to `last`, both included.

    `same_as` is the index of an earlier request whose bytes it takes over in place.  It does so if
    it begins with the last instruction of the other, which is not its first, is as large (rounded
    up to ALIGNMENT), and no request before it has taken them; else it gets other bytes.
    """

    nbytes: int
    first: int
    last: int
    same_as: int | None = None


@dataclass(frozen=True)
class Placement:
    """An offset for each request, a multiple of ALIGNMENT, in an arena of `nbytes`.

    `lower_bound` is the largest load, each buffer rounded up: no arena can be smaller.
    """

    offsets: tuple[int, ...]
    nbytes: int
    lower_bound: int

    @property
    def wasted_nbytes(self) -> int:
        """How much larger than the bound the arena is; 0 proves that it is the smallest."""
        return self.nbytes - self.lower_bound


def place(requests: Sequence[Request]) -> Placement:
    """Offsets such that no two requests that are in use together share a byte.

    The arena is never larger than all requests side by side.
    """
    blocks, block_of = _blocks(requests)
    bound = _largest_load(blocks)
    best_offsets, best = _side_by_side(blocks)
    strategies = _strategies(blocks, bound)
    while best > bound and (offsets := next(strategies, None)) is not None:
        nbytes = _arena(blocks, offsets)
        if nbytes < best:
            best_offsets, best = offsets, nbytes
    return Placement(tuple(best_offsets[block] for block in block_of), best, bound)


@dataclass(frozen=True, slots=True)
class _Block:
    """Bytes that one request has, or several one after another in place."""

    size: int
    first: int
    last: int

    @property
    def life(self) -> int:
        return self.last - self.first + 1


Offsets = list[int]


def _blocks(requests: Sequence[Request]) -> tuple[list[_Block], list[int]]:
    """The blocks of the requests, and for each request the number of its block."""
    spans: list[list[int]] = []  # size, first, last
    block_of: list[int] = []
    taken: set[int] = set()
    for number, request in enumerate(requests):
        size, other = aligned(request.nbytes), request.same_as
        if other is not None and other < number and other not in taken:
            span = spans[block_of[other]]
            handed_on = requests[other].first < requests[other].last == request.first
            if handed_on and span[0] == size:
                taken.add(other)
                span[2] = max(span[2], request.last)
                block_of.append(block_of[other])
                continue
        block_of.append(len(spans))
        spans.append([size, request.first, request.last])
    return [_Block(*span) for span in spans], block_of


def _largest_load(blocks: Sequence[_Block]) -> int:
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


def _arena(blocks: Sequence[_Block], offsets: Offsets) -> int:
    """The bytes up to the end of the highest block."""
    ends = (offset + block.size for block, offset in zip(blocks, offsets, strict=True))
    return max(ends, default=0)


def _side_by_side(blocks: Sequence[_Block]) -> tuple[Offsets, int]:
    """No byte used twice."""
    offsets, end = [], 0
    for block in blocks:
        offsets.append(end)
        end += block.size
    return offsets, end


def _strategies(blocks: Sequence[_Block], bound: int) -> Iterator[Offsets]:
    """The offsets that each strategy finds, the quickest first."""
    backward = [_Block(block.size, -block.last, -block.first) for block in blocks]
    yield _in_order_of_time(blocks, bound)
    yield _in_order_of_time(backward, bound)
    conflicts = _conflicts(blocks)
    if conflicts is None:
        return
    loads = [sum(blocks[other].size for other in others) for others in conflicts]
    keys = (
        lambda n: (-blocks[n].size * blocks[n].life,),
        lambda n: (-blocks[n].size * sqrt(blocks[n].life),),
        lambda n: (-blocks[n].size, -blocks[n].life),
        lambda n: (-blocks[n].size * loads[n],),
        lambda n: (-loads[n], -blocks[n].size),
        lambda n: (blocks[n].first, -blocks[n].last),
        lambda n: (-blocks[n].last, blocks[n].first),
    )
    for key in keys:
        yield _one_by_one(blocks, conflicts, sorted(range(len(blocks)), key=key))


def _in_order_of_time(blocks: Sequence[_Block], bound: int) -> Offsets:
    """Each block, when it begins, into the smallest gap; n log n.

    It goes to the side of the gap where the neighbour ends at about the same time, so that long
    lives gather at the bottom of the arena, short ones at the top, and larger gaps come free.
    """
    starting = sorted(
        range(len(blocks)), key=lambda n: (blocks[n].first, -blocks[n].last, -blocks[n].size)
    )
    ending = iter(sorted(starting, key=lambda n: blocks[n].last))
    horizon = max((block.last for block in blocks), default=0)
    gaps, offsets = Gaps(bound), [0] * len(blocks)
    last_below: dict[int, int] = {}  # the last instruction of a block, by where it ends
    last_above: dict[int, int] = {}  # and by where it begins
    leaving = next(ending, None)
    for number in starting:
        block = blocks[number]
        while leaving is not None and blocks[leaving].last < block.first:
            low = offsets[leaving]
            if size := blocks[leaving].size:
                del last_above[low], last_below[low + size]
                gaps.give(low, low + size)
            leaving = next(ending, None)
        if not block.size:
            continue
        low, high = gaps.take(block.size)
        below = abs(block.last - last_below.get(low, horizon))
        above = abs(block.last - last_above.get(high, block.first))
        offset = low if below <= above else high - block.size
        gaps.give(low, offset)
        gaps.give(offset + block.size, high)
        offsets[number] = offset
        last_above[offset] = last_below[offset + block.size] = block.last
    return offsets


def _conflicts(blocks: Sequence[_Block]) -> list[list[int]] | None:
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


def _one_by_one(blocks: Sequence[_Block], conflicts: list[list[int]], order: list[int]) -> Offsets:
    """Each block in this order at the lowest offset that those before it leave free."""
    offsets = [-1] * len(blocks)
    for number in order:
        size = blocks[number].size
        taken = sorted(
            (offsets[other], offsets[other] + blocks[other].size)
            for other in conflicts[number]
            if offsets[other] >= 0
        )
        free = 0
        for start, end in taken:
            if start - free >= size:
                break
            free = max(free, end)
        offsets[number] = free
    return offsets
