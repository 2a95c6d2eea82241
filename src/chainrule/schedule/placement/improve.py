"""From a quick placement to a better one: local search and exact search in turns, until a limit.

Without a given capacity several are aimed at, one turn each: the least that is not yet known to
be impossible, and some on the way from there to the best arena found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from time import monotonic

from chainrule.schedule.placement.blocks import (
    Block,
    Found,
    arena_nbytes,
    conflicts_of,
)
from chainrule.schedule.placement.branch import Answer
from chainrule.schedule.placement.effort import Attempt, Problem, problem
from chainrule.schedule.placement.exchange import exchanges

EXCHANGES_PER_ROUND = 5  # about as long as one turn of the exact search for a small piece
AIMS = (0, 1 / 4, 1 / 2, 3 / 4)  # of the way from the bound to the best arena


def improved(blocks: Sequence[Block], found: Found, deadline: float, capacity: int | None) -> Found:
    """The best found until `deadline` (of `time.monotonic`), or until it is proved to be the best.

    With a capacity, the search ends as soon as the arena is within it, or that is proved to be
    impossible: then the lower bound is above it.
    """
    rounds = _rounds(blocks, found, capacity, deadline)
    while monotonic() < deadline and (better := next(rounds, None)) is not None:
        found = better
    return found


def _rounds(
    blocks: Sequence[Block], found: Found, capacity: int | None, deadline: float
) -> Iterator[Found]:
    """The best so far, after each turn."""
    asked = problem(blocks)
    conflicts = conflicts_of(blocks)
    searches = exchanges(blocks, conflicts, found.offsets) if conflicts is not None else iter(())
    attempts: dict[int, Attempt] = {}
    while not _is_enough(found, capacity):
        for offsets, nbytes in islice(searches, EXCHANGES_PER_ROUND):
            if nbytes < found.nbytes:
                found = Found(offsets, nbytes, "local search", found.lower_bound)
            yield found
            if _is_enough(found, capacity):
                return
        aims = _aims(found, asked, capacity) if asked.is_small_enough else []
        attempts = {aim: attempts.get(aim) or Attempt(asked, aim) for aim in aims}
        for aim, attempt in attempts.items():
            if found.lower_bound <= aim < found.nbytes:
                found = _after_a_turn(blocks, found, attempt, asked.unit, deadline)
                yield found
        if not aims and conflicts is None:
            return


def _is_enough(found: Found, capacity: int | None) -> bool:
    if capacity is not None and not found.lower_bound <= capacity < found.nbytes:
        return True
    return found.nbytes == found.lower_bound


def _aims(found: Found, asked: Problem, capacity: int | None) -> list[int]:
    """The capacities to try: every arena without gaps at its bottom is a multiple of the unit."""
    if capacity is not None:
        return [capacity]
    unit, way = asked.unit, found.nbytes - found.lower_bound
    return sorted({found.lower_bound + int(way * part) // unit * unit for part in AIMS})


def _after_a_turn(
    blocks: Sequence[Block], found: Found, attempt: Attempt, unit: int, deadline: float
) -> Found:
    answer = attempt.turn(deadline)
    if answer is Answer.FITS:
        nbytes = arena_nbytes(blocks, attempt.offsets)
        return Found(attempt.offsets, nbytes, "branch and bound", found.lower_bound)
    if answer is Answer.CANNOT_FIT:
        bound = attempt.capacity // unit * unit + unit
        return Found(found.offsets, found.nbytes, found.strategy, bound)
    return found
