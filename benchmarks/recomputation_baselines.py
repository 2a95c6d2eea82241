"""Simple ways to choose what is computed again, to compare with: each gives a sequence."""

import math
from collections.abc import Iterable
from time import monotonic

from chainrule.plan.recomputation.bounds import moments_of
from chainrule.plan.recomputation.covering import program_of
from chainrule.plan.recomputation.greedy import RULES, greedy
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import measured, without_useless

THRESHOLDS = (0.9, 0.7, 0.5, 0.3, 0.1, 0.01)
LP_SECONDS = 20.0
EFFORT = 50_000


def keep_all(problem: Problem) -> tuple[int, ...]:
    """Each node once, in the given order."""
    return problem.order


def square_root(problem: Problem) -> tuple[int, ...]:
    """Of every √n nodes of the order only the last is stored beyond them (Chen and others, 2016);
    what else is read later than in the next √n is computed again where it is read."""
    width = math.isqrt(problem.size)
    stored = {node for at, node in enumerate(problem.order) if at % width == width - 1}
    return _walk(problem, stored, width)


def greedily(problem: Problem) -> tuple[int, ...] | None:
    """The cheapest of the greedy walks, or None where none fits."""
    walks = [walk for rule in RULES if (walk := greedy(problem, rule)) is not None]
    return min(walks, key=lambda one: measured(problem, one).cost, default=None)


def rounded(problem: Problem) -> tuple[int, ...] | None:
    """What the linear relaxation executes again by more than a threshold is dropped wherever it is
    idle for long; the cheapest threshold that fits, or None where none does."""
    deadline = monotonic() + LP_SECONDS
    moments = moments_of(problem, deadline, EFFORT)[:24]
    if not moments:
        return None
    solved = program_of(problem, moments).relaxed(deadline)
    if solved is None:
        return None
    found = []
    for threshold in THRESHOLDS:
        stored = {u for u, times in enumerate(solved[1]) if times < threshold}
        for width in (4, math.isqrt(problem.size), 2 * math.isqrt(problem.size)):
            sequence = _walk(problem, stored, width)
            seen = measured(problem, sequence)
            if seen.peak_nbytes <= problem.budget_nbytes:
                found.append((seen.cost, sequence))
    return min(found, default=(0, None))[1]


def _walk(problem: Problem, stored: set[int], width: int) -> tuple[int, ...]:
    """The order in stretches of some width: at the beginning of each, what is not stored and not
    read in it goes; it is computed again, with all that this takes, where it is read."""
    stays = stored | problem.kept | problem.once
    there: set[int] = set()
    sequence: list[int] = []
    for at, node in enumerate(problem.order):
        if at % width == 0:
            stretch = problem.order[at : at + width]
            read = {u for one in stretch for u in problem.inputs[one]}
            there = {u for u in there if u in stays or u in read}
        sequence += _missing(problem, node, there)
    return without_useless(problem, sequence)


def _missing(problem: Problem, node: int, there: set[int]) -> Iterable[int]:
    """The executions that give a node, what it reads first; `there` then has them."""
    found: list[int] = []
    pending = [(node, iter(problem.inputs[node]))]
    while pending:
        one, rest = pending[-1]
        more = next((u for u in rest if u not in there), None)
        if more is not None:
            pending.append((more, iter(problem.inputs[more])))
            continue
        pending.pop()
        if one not in there or one == node:
            found.append(one)
            there.add(one)
    return found
