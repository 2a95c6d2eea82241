"""Offsets for buffers of known sizes and lifetimes, in an arena that is as small as can be.

Finding the smallest arena is NP-hard (Garey and Johnson, SR2: dynamic storage allocation).  A few
quick strategies are tried, and the best result is taken; none can be below the largest load, the
bytes that are alive at one moment, so reaching that ends the search.  With more time, a local and
an exact search go on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from time import monotonic
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.graph.in_notebooks import ShownByText
from chainrule.schedule.placement.blocks import Block, Found, arena_nbytes, largest_load
from chainrule.schedule.placement.quick import side_by_side, strategies
from chainrule.schedule.records import aligned
from chainrule.tracebacks import entry

MOST_NBYTES = 1 << 62  # of all buffers together: the search counts in 64 bits


class Request(NamedTuple):
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
class Placement(ShownByText):
    """An offset for each buffer, in an arena of `nbytes`: where the highest one ends.

    `largest_load` is the largest sum of bytes in use at one moment; `lower_bound` is proved, too:
    no arena can be smaller.  It is the largest load, or more where an exact search has proved more.
    `strategy` says how the offsets were found.
    """

    offsets: tuple[int, ...]
    nbytes: int
    largest_load: int
    lower_bound: int
    strategy: str

    @property
    def wasted_nbytes(self) -> int:
        """How much larger than the largest load the arena is."""
        return self.nbytes - self.largest_load

    @property
    def proved_optimal(self) -> bool:
        """Whether it is known that no arena is smaller."""
        return self.nbytes == self.lower_bound

    def __str__(self) -> str:
        proof = "proved optimal" if self.proved_optimal else f"at least {self.lower_bound:,}"
        return (
            f"{len(self.offsets)} buffers in {self.nbytes:,} bytes ({proof}), "
            f"{self.wasted_nbytes:,} above the largest load: {self.strategy}"
        )


def place(
    requests: Sequence[Request], *, seconds: float = 0.0, capacity: int | None = None
) -> Placement:
    """Offsets, multiples of ALIGNMENT, such that no two requests that are in use together share a
    byte; `seconds` and `capacity` as for `place_buffers`."""
    blocks, block_of = _blocks(requests)
    return _placed(blocks, block_of, seconds, capacity)


def load_of(requests: Sequence[Request]) -> int:
    """The bytes below which no arena of these requests can be: the most in use at one moment."""
    return largest_load(_blocks(requests)[0])


@entry
def place_buffers(
    buffers: Iterable[Sequence[int]], *, seconds: float = 1.0, capacity: int | None = None
) -> Placement:
    """Offsets for buffers in one arena, such that no two that are in use together share a byte.

    A buffer is `(start, stop, nbytes)` or `(start, stop, nbytes, alignment)`, all integers: it is
    in use from moment `start` up to, not including, `stop`, and its offset is a multiple of
    `alignment` (1 if not given).

    The arena is never larger than all buffers side by side.  Where quick strategies waste bytes,
    the search goes on for `seconds`, or until the arena is proved to be the smallest.  With a
    `capacity` in bytes it ends as soon as the arena is within it, or, with a `lower_bound` above
    the capacity, when that is proved to be impossible.  The same buffers give the same placement,
    unless the time has ended the search.  InputError for a buffer that is none.
    """
    blocks = [_block(number, buffer) for number, buffer in enumerate(buffers)]
    total = sum(block.size + block.alignment for block in blocks)
    if total >= MOST_NBYTES:
        raise InputError(
            f"the buffers have {total:,} bytes together, their alignments counted, and at most "
            f"{MOST_NBYTES - 1:,} can be placed",
            hint="count in larger units, such as KiB",
        )
    return _placed(blocks, range(len(blocks)), seconds, capacity)


def _block(number: int, buffer: Sequence[int]) -> Block:
    try:
        numbers = [index(one) for one in buffer]
    except TypeError:
        numbers = []
    if not 3 <= len(numbers) <= 4:
        raise InputError(
            f"buffer {number} is {buffer!r}",
            hint="a buffer is (start, stop, nbytes) or (start, stop, nbytes, alignment), integers",
        )
    start, stop, nbytes, alignment = (*numbers, 1)[:4]
    wrong = None
    if start >= stop:
        wrong = f"it is in use from {start} up to {stop}, which is never"
    elif nbytes < 0:
        wrong = f"it has {nbytes} bytes"
    elif alignment < 1:
        wrong = f"its offset is to be a multiple of {alignment}"
    if wrong:
        raise InputError(
            f"buffer {number} is {buffer!r}: {wrong}",
            hint="(start, stop, nbytes, alignment): start < stop, nbytes >= 0, alignment >= 1",
        )
    return Block(nbytes, start, stop - 1, alignment)


def _placed(
    blocks: Sequence[Block], block_of: Sequence[int], seconds: float, capacity: int | None
) -> Placement:
    """The offset of each block that `block_of` names."""
    deadline = monotonic() + seconds
    load = largest_load(blocks)
    goal = max(load, capacity or 0)
    best = _quick(blocks, load, goal)
    if seconds > 0 and best.nbytes > goal:
        from chainrule.schedule.placement.improve import improved  # loaded where it searches

        best = improved(blocks, best, deadline, capacity)
    offsets = tuple(best.offsets[block] for block in block_of)
    return Placement(offsets, best.nbytes, load, best.lower_bound, best.strategy)


def _quick(blocks: Sequence[Block], load: int, goal: int) -> Found:
    """The best of the quick strategies; none is tried after one has reached the goal."""
    offsets, nbytes = side_by_side(blocks)
    best = Found(offsets, nbytes, "side by side", load)
    quick = strategies(blocks, load)
    while best.nbytes > goal and (found := next(quick, None)) is not None:
        strategy, offsets_below = found
        offsets = offsets_below(best.nbytes)
        if offsets is not None and (nbytes := arena_nbytes(blocks, offsets)) < best.nbytes:
            best = Found(offsets, nbytes, strategy, load)
    return best


def _blocks(requests: Sequence[Request]) -> tuple[list[Block], list[int]]:
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
    return [Block(*span) for span in spans], block_of
