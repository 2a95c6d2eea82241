"""Computes the bytes in use during each instruction, by purpose."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from chainrule.dataclass import dataclass
from chainrule.explain.memory.run_memory import WORKSPACE, RunMemory


@dataclass(frozen=True)
class Moment:
    """The bytes in use during instruction `number`; 0 is before the first.

    `nbytes` has every kind of value, and the workspace.  `unused_nbytes` are allocated and hold
    nothing then: the native executor's block of scratch memory is there as a whole.  At the peak
    they are the padding.  `writes` are names of values.
    """

    number: int
    writes: tuple[str, ...]
    nbytes: Mapping[str, int]
    unused_nbytes: int

    @property
    def live_nbytes(self) -> int:
        """The bytes in use."""
        return sum(self.nbytes.values())

    @property
    def label(self) -> str:
        """What the instruction writes, in words."""
        return ", ".join(self.writes) or ("start" if self.number == 0 else "")


def timeline_of(run: RunMemory) -> tuple[Moment, ...]:
    """A moment for each instruction, from 0 (before the first) on."""
    usage, names = run.usage, run.names
    changes = {str(kind): [0] * (usage.count + 2) for kind in run.shown_kinds}
    for life in usage.lives:
        if not life.in_place:
            change = changes[str(run.kinds[life.node])]
            change[life.first] += life.nbytes
            change[life.last + 1] -= life.nbytes
    counted = {kind: list(accumulate(change)) for kind, change in changes.items()}
    moments = []
    for number, workspace in enumerate(usage.workspaces):
        nbytes = {kind: found[number] for kind, found in counted.items()} | {WORKSPACE: workspace}
        writes = tuple(names[node] for node in run.written_at(number)) if number else ()
        block = usage.scratch_nbytes is not None
        unused = usage.peak_nbytes - sum(nbytes.values()) if block else 0
        moments.append(Moment(number, writes, nbytes, unused))
    return tuple(moments)
