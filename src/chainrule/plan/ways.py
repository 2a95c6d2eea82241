"""Ways to do the same tasks in less memory: some are done again, and their bytes are free between.

A task is an instruction of a plan, or the evaluation of a node: what is done again is the same code
on the same values, so that it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.ladder import EFFORT
from chainrule.plan.recomputation.problem import problem
from chainrule.plan.recomputation.sequence import measured
from chainrule.plan.remembered import sequences
from chainrule.plan.tasks import Tasks


@dataclass(frozen=True)
class Way:
    """The numbers of the tasks in the order in which they are done; `nanoseconds` is about what
    they take in all, `nbytes` about what they need at once."""

    sequence: tuple[int, ...]
    nanoseconds: int
    nbytes: int


@lru_cache(maxsize=64)  # a report asks for those of the code, too
def ways(tasks: Tasks, effort: int = EFFORT, highest: int | None = None) -> Sequence[Way]:
    """The ways that were found, the quickest first; they depend on no budget, so that more bytes
    never cost more time.  The more `effort`, the longer they are searched for; those for more than
    the `highest` bytes are not."""
    # Workspaces are no less than 0 there: all is so much larger.
    more = -min(0, *tasks.workspaces, 0)
    asked = problem(
        tasks.nbytes,
        tasks.costs,
        tasks.reads,
        range(len(tasks.nbytes)),
        0,
        workspace=[one + more for one in tasks.workspaces],
        kept=tasks.kept,
        once=tasks.once,
        before=tasks.before,
        fixed=tasks.fixed,
    )
    found: dict[tuple[int, ...], Way] = {}
    for sequence in sequences(asked, effort, highest):
        done = tasks.done(sequence)
        if done not in found:
            nanoseconds = sum(map(tasks.durations.__getitem__, done))
            nbytes = measured(asked, sequence).peak_nbytes - more
            found[done] = Way(done, nanoseconds, nbytes)
    return sorted(found.values(), key=lambda one: one.nanoseconds)
