"""The way in: a sequence of executions within a budget of bytes, and how far it is from the best.

Which values to compute again for the least cost is NP-hard.  Every answer is checked by the plain
count of `sequence.py`, and carries a proved lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from time import monotonic

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError, MemoryLimitError
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.recomputation.problem import Problem, problem
from chainrule.plan.recomputation.search import LITTLE_EFFORT, Found, found, searched
from chainrule.plan.recomputation.sequence import fault
from chainrule.tracebacks import entry

DEFAULT_EFFORT = 50_000  # moves for each node


@dataclass(frozen=True)
class Recomputation(ShownByText):
    """A sequence of executions: node numbers, repeated where a value is computed again.

    `cost` is the sum over all executions, `plain_cost` that of each node once, `peak_nbytes` the
    most bytes in use at once.  `lower_bound` is proved: no sequence within the budget costs less.
    `strategy` says how the sequence was found.
    """

    sequence: tuple[int, ...]
    cost: int
    plain_cost: int
    peak_nbytes: int
    budget_nbytes: int
    lower_bound: int
    strategy: str

    @property
    def extra(self) -> float:
        """The cost of what is computed again, as a fraction of the plain cost."""
        return _fraction(self.cost - self.plain_cost, self.plain_cost)

    @property
    def gap(self) -> float:
        """By which fraction of the lower bound the cost is above it: the best is in between."""
        return _fraction(self.cost - self.lower_bound, self.lower_bound)

    @property
    def proved_optimal(self) -> bool:
        """Whether it is known that no sequence within the budget costs less."""
        return self.cost == self.lower_bound

    def __str__(self) -> str:
        again = len(self.sequence) - len(set(self.sequence))
        proof = "proved optimal" if self.proved_optimal else f"at least {self.lower_bound:,}"
        return (
            f"{len(self.sequence)} executions, {again} of them again, cost {self.cost:,} "
            f"({100 * self.extra:.2f} % extra; {proof}), "
            f"{self.peak_nbytes:,} of {self.budget_nbytes:,} bytes: {self.strategy}"
        )


def _fraction(part: int, whole: int) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole else math.inf


@entry
def recompute(
    nbytes: Sequence[int],
    cost: Sequence[int],
    reads: Iterable[tuple[int, int]],
    order: Sequence[int],
    budget_nbytes: int,
    *,
    workspace: Sequence[int] | None = None,
    kept: Iterable[int] | None = None,
    once: Iterable[int] = (),
    before: Iterable[tuple[int, int]] = (),
    seconds: float = 60.0,
    effort: int | None = None,
    seed: int = 0,
) -> Recomputation:
    """The cheapest sequence of executions that can be found whose peak is within the budget.

    Node v has a value of `nbytes[v]` bytes and costs `cost[v]` each time it executes; (u, v) of
    `reads` says that v reads u; `order` is a sequence that executes each node once, after what it
    reads.  All numbers are integers.  While v executes, what is in use are its value, its
    `workspace[v]`, and every value that is alive: from an execution to its last read before the
    next execution.  Values of `kept` (default: those that nobody reads) stay to the end.  Nodes of
    `once` execute once.  For each (u, v) of `before`, no execution of u comes after the first of
    v, as where v overwrites what u reads.

    The result may have another order.  The search makes at most `effort` moves for each node, and
    ends after about `seconds`: the same numbers give the same result, unless the time has ended
    it.  InputError for numbers that describe no program.  MemoryLimitError where no sequence
    within the budget was found: its `needed_nbytes` are bytes for which one is known, and its
    text says below which no sequence can be.
    """
    asked = problem(
        nbytes,
        cost,
        reads,
        order,
        budget_nbytes,
        workspace=workspace,
        kept=kept,
        once=once,
        before=before,
    )
    if not seconds >= 0:
        raise InputError(f"seconds is {seconds}", hint="a time in seconds, 0 or more")
    if effort is not None and effort < 0:
        raise InputError(f"effort is {effort}", hint="moves for each node, 0 or more")
    return _answer(asked, monotonic() + seconds, DEFAULT_EFFORT if effort is None else effort, seed)


def _answer(asked: Problem, deadline: float, effort: int, seed: int) -> Recomputation:
    budget = asked.budget_nbytes
    best = found(asked, asked.order, "each node once, in the given order")
    bound = asked.plain_cost
    if budget < asked.least_nbytes:
        nearest = replace(asked, budget_nbytes=asked.least_nbytes)
        raise _refusal(asked, searched(nearest, deadline, min(effort, LITTLE_EFFORT), seed)[0])
    if budget < best.peak_nbytes:
        best, bound = searched(asked, deadline, effort, seed)
    if best.peak_nbytes > budget:
        raise _refusal(asked, best)
    fails = fault(asked, best.sequence)
    assert fails is None, fails
    return Recomputation(
        best.sequence, best.cost, asked.plain_cost, best.peak_nbytes, budget, bound, best.strategy
    )


def _refusal(asked: Problem, nearest: Found) -> MemoryLimitError:
    """Why there is no answer, with the bytes of a sequence that needs little."""
    least, budget, known = asked.least_nbytes, asked.budget_nbytes, nearest.peak_nbytes
    hint = f"a budget of {known:,} bytes, for which a sequence is known"
    if budget < least:
        needed = list(asked.needed_nbytes)
        which = (
            f"node {needed.index(least)} needs {least:,} with what it reads"
            if least in needed
            else f"the values that are kept have {least:,}"
        )
        what = f"no sequence fits into {budget:,} bytes: {which}"
    else:
        what = f"no sequence within {budget:,} bytes was found, and none can be below {least:,}"
        hint += "; or more seconds, and more effort"
    error = MemoryLimitError(what, hint=hint)
    error.needed_nbytes, error.free_nbytes, error.source = known, budget, "budget_nbytes"
    return error
