"""Strategies that place every block once, by one rule; milliseconds each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import inf, lcm, sqrt

from chainrule.schedule.placement.blocks import Block, Offsets, conflicts_of, up
from chainrule.schedule.placement.gaps import Gaps


def side_by_side(blocks: Sequence[Block]) -> tuple[Offsets, int]:
    """No byte used twice."""
    offsets, end = [], 0
    for block in blocks:
        offsets.append(up(end, block.alignment) if block.size else 0)
        end = max(end, offsets[-1] + block.size)
    return offsets, end


def strategies(
    blocks: Sequence[Block], bound: int
) -> Iterator[tuple[str, Callable[[float], Offsets | None]]]:
    """The name of each strategy, and what finds offsets with an arena below so many bytes, or gives
    up (the first two never do); the quickest first."""
    step = lcm(*(block.alignment for block in blocks if block.size))
    forward = [Block(up(block.size, step), block.first, block.last) for block in blocks]
    backward = [Block(block.size, -block.last, -block.first) for block in forward]
    yield "best fit in order of time", lambda _: in_order_of_time(forward, up(bound, step))
    yield "best fit backward in time", lambda _: in_order_of_time(backward, up(bound, step))
    conflicts = conflicts_of(blocks)
    if conflicts is not None:
        for name, order in _sorted(blocks, conflicts):
            yield f"one by one by {name}", partial(one_by_one, blocks, conflicts, order)


def _sorted(blocks: Sequence[Block], conflicts: list[list[int]]) -> Iterator[tuple[str, list[int]]]:
    """The blocks in several orders, with what each is by."""

    @cache
    def load(number: int) -> int:
        return sum([blocks[other].size for other in conflicts[number]])

    keys = {
        "size times life": lambda n: (-blocks[n].size * blocks[n].life,),
        "size times root of life": lambda n: (-blocks[n].size * sqrt(blocks[n].life),),
        "size": lambda n: (-blocks[n].size, -blocks[n].life),
        "size times conflicts": lambda n: (-blocks[n].size * load(n),),
        "conflicts": lambda n: (-load(n), -blocks[n].size),
        "beginning": lambda n: (blocks[n].first, -blocks[n].last),
        "end": lambda n: (-blocks[n].last, blocks[n].first),
    }
    for name, key in keys.items():
        yield name, sorted(range(len(blocks)), key=key)


def in_order_of_time(blocks: Sequence[Block], bound: int) -> Offsets:
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


def one_by_one(
    blocks: Sequence[Block], conflicts: list[list[int]], order: list[int], below: float = inf
) -> Offsets | None:
    """Each block in this order at the lowest offset that those before it leave free; None where one
    does not end below so many bytes."""
    offsets = [0] * len(blocks)
    spans: list[tuple[int, int] | None] = [None] * len(blocks)  # of those that are placed
    for number in order:
        size, alignment = blocks[number].size, blocks[number].alignment
        taken = sorted(filter(None, map(spans.__getitem__, conflicts[number])))
        free = 0
        for start, end in taken:
            if start - free >= size:
                break
            if end > free:
                free = end if alignment == 1 else up(end, alignment)
        if free + size >= below:
            return None
        offsets[number] = free
        spans[number] = free, free + size
    return offsets
