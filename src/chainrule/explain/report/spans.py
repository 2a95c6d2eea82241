"""Which instructions a step takes: from the one with which it begins to where the next begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from chainrule.schedule.usage import Usage


def step_at(instructions: Sequence[int], number: int) -> int:
    """The place of the step during which an instruction is done: of the last one that has begun.

    `instructions` are those with which the steps begin, and never fall.  The first step also takes
    what is done before it.
    """
    return max(bisect_right(instructions, number) - 1, 0)


def fullest_of(instructions: Sequence[int], usage: Usage) -> list[int]:
    """For each step the first instruction, of those that it takes, at which most bytes are in use.

    Of steps that begin with the same instruction all take that one, and the last of them also those
    up to the next step; the last step takes all to the end.
    """
    live = usage.live_nbytes
    found: list[int] = []
    for begin, after in pairwise([*instructions, len(live)]):
        first = begin if begin > instructions[0] else min(begin, 1)
        span = live[first : max(after, begin + 1)]
        found.append(first + span.index(max(span)))
    return found
