"""A proved lower bound on the cost of every sequence within the budget, in whatever order.

When a node w executes for the first time, all its ancestors have been executed.  A value u of
them that is read by a descendant of w, or kept, is needed later: either it is alive at that
moment, beside what w itself needs, or u executes again afterwards, and then what u reads is
needed later, too.  So for each w there is a knapsack: what is alive fits into the budget.  A node
that executes again does so for all w.  These programs are solved over the nodes w that matter,
more of them as long as that adds something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import monotonic

from chainrule.plan.recomputation.covering import Moment, program_of
from chainrule.plan.recomputation.problem import Problem

MOST_MOMENTS = 400  # the first executions that are looked at,
MOST_ANCESTORS = 500_000  # and about how many ancestors they have together: some 50 MB
MOST_VARIABLES = 60_000  # of one linear program: a few seconds
BRANCHING_EFFORT = 2_000  # moves for each node; for less, the relaxation has to do
BATCH = 12  # moments that are added at a time


def lower_bound(problem: Problem, deadline: float, effort: int) -> int:
    """No sequence within the budget costs less; the cost of each node once, or more.

    More `effort` looks at more moments, and branches more; the same effort gives the same bound,
    unless the time has ended it.
    """
    moments = moments_of(problem, deadline, effort)
    again: Sequence[float] = [0.0] * problem.size
    chosen: list[Moment] = []
    program, extra, variables = None, 0, 0
    most_variables = min(MOST_VARIABLES, 20 * effort)
    while True:
        by_need = sorted(
            ((one.missing_nbytes(problem, again), -at) for at, one in enumerate(moments)),
            reverse=True,
        )
        more = [moments[-at] for missing, at in by_need[:BATCH] if missing > 0.5]
        before = len(chosen)
        for one in more:
            variables += len(one.past)
            if one not in chosen and variables <= most_variables:
                chosen.append(one)
        if len(chosen) == before:
            break
        program = program_of(problem, chosen)
        solved = program.relaxed(deadline)
        if solved is None:
            break
        extra, again = max(extra, solved[0]), solved[1]
    if program is not None and extra > 0 and effort >= BRANCHING_EFFORT:
        extra = max(extra, program.integral(deadline, effort // 10))
    return problem.plain_cost + extra


def moments_of(problem: Problem, deadline: float, effort: int) -> list[Moment]:
    """Moments at which not everything that is needed later can be alive."""
    most = min(MOST_MOMENTS, min(MOST_ANCESTORS, 1_000 * effort) // problem.size)
    step = math.ceil(problem.size / max(most, 1))
    found = []
    for w in problem.order[::-step]:
        if monotonic() > deadline:
            break
        past = _reached(w, [problem.inputs, problem.earlier])
        future = _reached(w, [problem.readers, problem.later])
        beside = past - set(problem.inputs[w])
        crossing = frozenset(
            u
            for u in beside
            if u in problem.kept or any(one in future for one in problem.readers[u])
        )
        fixed = frozenset(
            u
            for u in past
            if u in problem.once or any(v == w or v in past for v in problem.later[u])
        )
        allowed = problem.budget_nbytes - problem.needed_nbytes[w]
        moment = Moment(w, frozenset(past), crossing, fixed, allowed)
        if moment.missing_nbytes(problem, [0.0] * problem.size) > 0:
            found.append(moment)
    return found


def _reached(node: int, ways: Sequence[Sequence[Sequence[int]]]) -> set[int]:
    """All that can be reached from a node, without itself."""
    found: set[int] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        for rows in ways:
            new = [other for other in rows[one] if other not in found]
            found.update(new)
            pending += new
    return found
