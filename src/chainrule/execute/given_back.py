"""Gives freed arrays back to the system before a run within a budget would take more than that.

The C library keeps what is freed, for arrays to come; but small ones between them make holes in
which no other array fits.  So the pages of a process may be all that was freed, beside what is
there.  Here that is counted, and given back where it would be too much.  (An option of malloc,
M_MMAP_THRESHOLD, would give back every array at once, but for the whole process and for good: near
the least bytes, steps took 1.3 to 4 times as long with it, and take 1.07 to 1.1 times so.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chainrule.execute.free_memory import give_back
from chainrule.schedule.records import Compute
from chainrule.schedule.turns import Turn, obeying
from chainrule.schedule.usage import Usage

UNKEPT_NBYTES = 32 << 20  # larger arrays are given back when they are freed (glibc, 64 bits)


class TurnsWithin:
    """The evaluations of a schedule in turn, by which a process has at most `nbytes` of pages for
    arrays: those that are there, and those that were freed."""

    def __init__(self, usage: Usage, nbytes: int) -> None:
        self.schedule, self.nbytes = usage.schedule, nbytes
        self.turns = obeying(usage.schedule)
        self.amounts = _amounts(usage, self.turns)
        self.results_nbytes = sum(
            life.nbytes for life in usage.lives if life.last == usage.count and life.first
        )
        self.kept_nbytes = nbytes  # at most, when a run begins: nobody knows what was freed before

    def __iter__(self) -> Iterator[Turn]:
        kept, self.kept_nbytes = self.kept_nbytes, self.nbytes  # so after a run that fails, too
        for turn, (during, freed) in zip(self.turns, self.amounts, strict=True):
            if during + kept > self.nbytes and kept and during:
                give_back()
                kept = 0
            yield turn
            kept += freed
        self.kept_nbytes = kept + self.results_nbytes


def _amounts(usage: Usage, turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """By turn, the bytes that are there meanwhile, and those freed after it that may be kept; 0
    where no array is made."""
    freed = list(usage.workspaces)
    for life in usage.lives:
        if 0 < life.first and life.last < usage.count and life.nbytes <= UNKEPT_NBYTES:
            freed[life.last] += life.nbytes
    computes = [one for one in usage.schedule.instructions if isinstance(one, Compute)]
    found, number = [], 0
    for turn in turns:
        if number < len(computes) and computes[number].nodes == (turn.into.node,):
            number += 1
            found.append((usage.live_nbytes[number], freed[number]))
        else:
            found.append((0, 0))
    return found
