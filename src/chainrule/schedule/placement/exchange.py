"""Local search: the order in which blocks are placed one by one, changed a little again and again.

A block that ends above what is aimed at was placed too late: it, or one of those in use together
with it that lie below, goes to an earlier place in the order.  A change is kept if the blocks
reach no higher than before; after long without success the search goes back to its best order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from chainrule.schedule.placement.blocks import Block, Offsets, arena_nbytes
from chainrule.schedule.placement.quick import one_by_one

PATIENCE = 100  # changes without success


def exchanges(
    blocks: Sequence[Block], conflicts: list[list[int]], offsets: Offsets
) -> Iterator[tuple[Offsets, int]]:
    """Offsets and their arena, better with each one, or the same again; without end.

    It begins with the order of the `offsets` given, from below.
    """
    random = Random(0)
    best_order = order = sorted(range(len(blocks)), key=lambda n: offsets[n])
    best = nbytes = arena_nbytes(blocks, offsets)
    best_offsets = offsets
    failures = 0
    while True:
        changed = _changed(order, blocks, conflicts, offsets, nbytes, random)
        found = one_by_one(blocks, conflicts, changed, nbytes + 1)
        failures += 1
        if found is not None:
            order, offsets, nbytes = changed, found, arena_nbytes(blocks, found)
            if nbytes < best:
                best_order, best_offsets, best, failures = changed, found, nbytes, 0
        if failures > PATIENCE:
            order, offsets, nbytes, failures = best_order, best_offsets, best, 0
        yield best_offsets, best


def _changed(
    order: list[int],
    blocks: Sequence[Block],
    conflicts: list[list[int]],
    offsets: Offsets,
    nbytes: int,
    random: Random,
) -> list[int]:
    """The order with a highest block, or one in use together with it, moved to the front or to
    any place before its own."""
    highest = [n for n in order if offsets[n] + blocks[n].size == nbytes]
    number = random.choice(highest)
    if conflicts[number] and random.random() < 0.5:
        number = random.choice(conflicts[number])
    place = order.index(number)
    moved = [*order[:place], *order[place + 1 :]]
    moved.insert(random.randrange(place + 1), number)
    return moved
