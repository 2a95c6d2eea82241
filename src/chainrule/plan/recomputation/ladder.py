"""Sequences for budgets one below the other: what less and less memory costs.

The budgets are parts of what the initial order needs, so they do not depend on what anybody asks
for: who takes the cheapest sequence within a budget never pays more for more bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf

from chainrule.dataclass import dataclass, replace
from chainrule.machine_code.target import native_refusal
from chainrule.plan.recomputation.chains import ChainSchedules
from chainrule.plan.recomputation.early import early
from chainrule.plan.recomputation.greedy import RULES, greedy
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.search import Cooling, Found, annealed, found
from chainrule.plan.recomputation.staged import StagedSchedules

RUNGS = 32
EFFORT = 300  # moves for each node and budget, of few nodes; of more, those of a round
SMALL, LARGE = 150, 500  # nodes: of fewer, all moves and rules of eviction are tried; of more, one
LONG = 2
IN_PYTHON = 100  # times as long takes a move where there is no machine code


@dataclass(frozen=True)
class Round:
    """How many moves are made, and besides for each node; each of the coolings has a part of them,
    and goes on from the best."""

    moves: int
    moves_of_node: int
    coolings: tuple[tuple[float, Cooling], ...]


COOLINGS = ((2 / 3, Cooling(0.5, 0.01, 0.03, True)), (1 / 3, Cooling(0.1, 0.01, 0.03, True)))
POLISH = Round(6_000, 1, ((1, Cooling(0.1, 0.01, 0.003, True)),))  # from within the budget
DESCENT = Round(16_000, 5, COOLINGS)  # from others
LAST = Round(60_000, 5, COOLINGS)  # where that has not led into the budget
FAILURES = 3  # budgets in a row for which nothing is found
# Of the cost of all nodes once, between two: up to so many between them are looked for.
JUMP, BETWEEN = 0.1, 3
HALVINGS = 3  # of the distance between the last two, for the least bytes


def ladder(
    problem: Problem, *, effort: int = EFFORT, seed: int = 0, highest: int | None = None
) -> list[Found]:
    """Sequences from the initial order, which costs least, to the least bytes that are found; the
    budget of the problem is not asked.  Where a `highest` budget is given, none is looked for that
    is above it.

    The same numbers give the same sequences.
    """
    climb = _Climb(problem, effort, seed)
    most, failures = climb.best.peak_nbytes, 0
    highest = most if highest is None else highest
    lowest, missed = min(highest, most), 0
    for rung in range(RUNGS - 1, 0, -1):
        budget = most * rung // RUNGS
        if budget > highest:
            continue
        if climb.down_to(budget):
            lowest, missed, failures = budget, 0, 0
        else:
            missed, failures = max(missed, budget), failures + 1
            if failures == FAILURES:
                break
    for above, below in list(pairwise(climb.found)):
        for _ in range(BETWEEN):
            between = (above.peak_nbytes + below.peak_nbytes) // 2
            jump = below.cost - above.cost
            if not JUMP * problem.plain_cost < jump < LONG * problem.plain_cost:
                break
            if between > highest:
                break
            climb.best = above
            climb.down_to(between)
            if climb.best.peak_nbytes > between or climb.best is above:
                break
            above, below = _dearer(above, climb.best, below)
    climb.best = min(climb.found, key=lambda one: one.peak_nbytes)
    for _ in range(HALVINGS):
        middle = (lowest + max(missed, problem.least_nbytes)) // 2
        if climb.down_to(middle):
            lowest = middle
        else:
            missed = middle
    return climb.found


def _dearer(above: Found, middle: Found, below: Found) -> tuple[Found, Found]:
    """Those two of three neighbours between which the cost jumps more."""
    pairs = (above, middle), (middle, below)
    return max(pairs, key=lambda pair: pair[1].cost - pair[0].cost)


class _Climb:
    """What was found so far; `best` is where the search goes on."""

    def __init__(self, problem: Problem, effort: int, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.chains = ChainSchedules()
        self.effort, self.slower = effort, IN_PYTHON if native_refusal() else 1
        self.best = found(problem, problem.order, "each node once, in the given order")
        order = early(problem)
        self._ordered = [found(problem, order, "each node once, what frees bytes early")]
        self.found = [self.best, *self._ordered]
        self.staged = StagedSchedules(replace(problem, order=order))

    def down_to(self, budget: int) -> bool:
        """Look for a sequence within the budget."""
        problem = self.problem.within(budget)
        if problem.least_nbytes > budget:
            return False
        best, staged = self.best, self.staged.best(budget)
        for one in (*self._ordered, self._along_the_chain(problem), staged):
            best = one if one is not None and one.beats(best, budget) else best
        if best.peak_nbytes <= budget and problem.size > SMALL:
            best = self._annealed(problem, best, POLISH)
        else:
            best = self._annealed(problem, best, DESCENT)
        if best.peak_nbytes > budget:
            for walk in self._walks(problem):
                best = walk if walk.beats(best, budget) else best
            best = self._annealed(problem, best, LAST)
        if best is not self.best:
            self.found.append(best)
        self.best = best
        return best.peak_nbytes <= budget

    def _walks(self, problem: Problem) -> Iterator[Found]:
        """Sequences within the budget, found without moves: all of a small program, else one."""
        for rule in RULES if problem.size <= LARGE else RULES[:1]:
            walk = greedy(problem, rule)
            if walk is not None:
                yield found(problem, walk, "greedy eviction")
                if problem.size > SMALL:
                    return

    def _along_the_chain(self, problem: Problem) -> Found | None:
        """The best sequence of a chain."""
        chain = self.chains.best(problem)
        return found(problem, chain, "dynamic programming along the chain") if chain else None

    def _annealed(self, problem: Problem, best: Found, a_round: Round) -> Found:
        """The best sequence after a round at most."""
        budget, bound = problem.budget_nbytes, problem.plain_cost
        if best.cost > LONG * bound or (best.peak_nbytes <= budget and best.cost <= bound):
            return best
        every = (a_round.moves + a_round.moves_of_node * problem.size) * self.effort // EFFORT
        if problem.size <= SMALL:
            every = self.effort * problem.size
        every = min(self.effort * problem.size, every) // self.slower
        for number, (part, one) in enumerate(a_round.coolings):
            moves, longest = int(part * every), len(best.sequence)
            run = annealed(problem, best, one, moves, inf, self.seed + number, bound, longest)
            best = run if run.beats(best, budget) else best
        return best
