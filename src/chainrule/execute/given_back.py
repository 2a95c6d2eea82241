"""Gives freed arrays back to the system before a run within a budget would take more than that.

The C library keeps what is freed, for arrays to come; but small ones between them make holes in
which no other array fits.  So a process may have pages for much more than the arrays that are
there.  Here what may be kept is counted, looked at where it could be too much, and given back where
it is.  (An option of malloc, M_MMAP_THRESHOLD, would give back every array at once, but for the
whole process and for good: steps took 1.3 to 4 times as long with it.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chainrule.execute.free_memory import give_back, resident_nbytes
from chainrule.schedule.records import Compute
from chainrule.schedule.turns import Turn, obeying
from chainrule.schedule.usage import Usage

UNKEPT_NBYTES = 32 << 20  # larger arrays are given back when they are freed (glibc, 64 bits)


class Amounts(NamedTuple):
    """Bytes of arrays before an evaluation, those made by it, and those freed then that may be
    kept."""

    before: int = 0
    made: int = 0
    freed: int = 0


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
        self.most_made = max((one.before + one.made for one in self.amounts if one.made), default=0)
        self.freed = sum(one.freed for one in self.amounts)
        self.kept_nbytes = nbytes  # at most, when a run begins: nobody knows what was freed before
        self.others_nbytes: int | None = None  # resident, and no arrays of a run

    def __iter__(self) -> Iterator[Turn]:
        kept, self.kept_nbytes = self.kept_nbytes, self.nbytes  # so after a run that fails, too
        if self.most_made + kept + self.freed <= self.nbytes:  # all that is freed may be kept
            yield from self.turns
            self.kept_nbytes = kept + self.freed + self.results_nbytes
            return
        for turn, (before, made, freed) in zip(self.turns, self.amounts, strict=True):
            if made and kept and before + made + kept > self.nbytes:
                kept = self._kept(before, made)
            yield turn
            kept += freed
        self.kept_nbytes = kept + self.results_nbytes

    def _kept(self, before: int, made: int) -> int:
        """What is kept now, after all was given back if that would be too much."""
        if self.others_nbytes is not None:
            pages = resident_nbytes() - self.others_nbytes
            if pages + made <= self.nbytes:
                return max(pages - before, 0)
        give_back()
        self.others_nbytes = resident_nbytes() - before
        return 0


def _amounts(usage: Usage, turns: Sequence[Turn]) -> list[Amounts]:
    """By turn; nothing where no array is made."""
    made, freed = list(usage.workspaces), list(usage.workspaces)
    for life in usage.lives:
        if life.first:
            made[life.first] += life.nbytes
            if life.last < usage.count and life.nbytes <= UNKEPT_NBYTES:
                freed[life.last] += life.nbytes
    computes = [one for one in usage.schedule.instructions if isinstance(one, Compute)]
    found, number = [], 0
    for turn in turns:
        if number < len(computes) and computes[number].nodes == (turn.into.node,):
            number += 1
            before = usage.live_nbytes[number] - made[number]
            found.append(Amounts(before, made[number], freed[number]))
        else:
            found.append(Amounts())
    return found
