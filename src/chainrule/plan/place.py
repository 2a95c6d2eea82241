"""Offsets for buffers of known sizes and lifetimes, in an arena that is as small as can be.

Finding the smallest arena is NP-hard (Garey and Johnson, SR2: dynamic storage allocation).  A few
quick strategies are tried, and the best result is taken; none can be below the largest load, the
bytes that are alive at one moment, so reaching that ends the search.  With more time, a local and
an exact search go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from chainrule.plan.placing.blocks import Block, arena_nbytes, largest_load
from chainrule.plan.placing.improve import Found, improved
from chainrule.plan.placing.quick import side_by_side, strategies
from chainrule.plan.schedule import aligned


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

    `largest_load` is the largest sum of bytes in use at one moment, each buffer rounded up;
    `lower_bound` is proved, too: no arena can be smaller.  It is the largest load, or more where
    an exact search has proved more.  `strategy` says how the offsets were found.
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
    """Offsets such that no two requests that are in use together share a byte.

    The arena is never larger than all requests side by side.  Where the quick strategies waste
    bytes, the search goes on for `seconds`, until the arena is proved to be the smallest.  With a
    `capacity` in bytes it ends as soon as the arena is within it, or, with a `lower_bound` above
    the capacity, when that is proved to be impossible.  The same requests give the same
    placement, unless the time has ended the search.
    """
    deadline = monotonic() + seconds
    blocks, block_of = _blocks(requests)
    load = largest_load(blocks)
    goal = max(load, capacity or 0)
    best = _quick(blocks, load, goal)
    if seconds > 0 and best.nbytes > goal:
        best = improved(blocks, best, deadline, capacity)
    return _placement(best, block_of, load)


def place_by_cp_sat(
    requests: Sequence[Request],
    *,
    seconds: float = 60.0,
    capacity: int | None = None,
    threads: int = 1,
) -> Placement:
    """As `place`, by the solver CP-SAT of OR-tools; UnsupportedError where that is missing."""
    from chainrule.plan.placing.cp_sat import solved

    blocks, block_of = _blocks(requests)
    load = largest_load(blocks)
    best = solved(blocks, _quick(blocks, load, load), seconds, capacity, threads)
    return _placement(best, block_of, load)


def _quick(blocks: Sequence[Block], load: int, goal: int) -> Found:
    """The best of the quick strategies; none is tried after one has reached the goal."""
    offsets, nbytes = side_by_side(blocks)
    best = Found(offsets, nbytes, "side by side", load)
    quick = strategies(blocks, load)
    while best.nbytes > goal and (found := next(quick, None)) is not None:
        strategy, offsets = found
        nbytes = arena_nbytes(blocks, offsets)
        if nbytes < best.nbytes:
            best = Found(offsets, nbytes, strategy, load)
    return best


def _placement(found: Found, block_of: Sequence[int], load: int) -> Placement:
    offsets = tuple(found.offsets[block] for block in block_of)
    return Placement(offsets, found.nbytes, load, found.lower_bound, found.strategy)


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
