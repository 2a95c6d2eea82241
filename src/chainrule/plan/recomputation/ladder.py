"""Sequences for budgets one below the other: what less and less memory costs.

The budgets are parts of what the initial order needs, so they do not depend on what anybody asks
for: who takes the cheapest sequence within a budget never pays more for more bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from chainrule.machine_code.target import native_refusal
from chainrule.plan.recomputation.chains import ChainSchedules
from chainrule.plan.recomputation.greedy import RULES, greedy
from chainrule.plan.recomputation.problem import MOST_NBYTES, Problem
from chainrule.plan.recomputation.search import Cooling, Found, annealed, found
from chainrule.plan.recomputation.segments import segmented, segments

RUNGS = 24
EFFORT = 300  # moves for each node and budget, of few nodes; of more,
MOVES, MOVES_OF_NODE = 16_000, 5  # so many for each budget, and these for each node
HARD = 60_000  # in place of MOVES where these have not led into the budget
SMALL, LARGE = 150, 500  # nodes: of fewer, all moves and rules of eviction are tried; of more, one
IN_PYTHON = 100  # times as long takes a move where there is no machine code
PASSES = (  # parts of the moves; both go on from the best, at first that for the budget above
    (2 / 3, Cooling(0.5, 0.01, 0.03, True)),
    (1 / 3, Cooling(0.1, 0.01, 0.03, True)),
)
FAILURES = 3  # budgets in a row for which nothing is found
HALVINGS = 3  # of the distance between the last two, for the least bytes


def ladder(problem: Problem, *, effort: int = EFFORT, seed: int = 0) -> list[Found]:
    """Sequences from the initial order, which costs least, to the least bytes that are found; the
    budget of the problem is not asked.

    The same numbers give the same sequences.
    """
    climb = _Climb(problem, effort, seed)
    most, failures = climb.best.peak_nbytes, 0
    lowest, missed = most, 0
    for rung in range(RUNGS - 1, 0, -1):
        budget = most * rung // RUNGS
        if climb.down_to(budget):
            lowest, missed, failures = budget, 0, 0
        else:
            missed, failures = max(missed, budget), failures + 1
            if failures == FAILURES:
                break
    for _ in range(HALVINGS):
        middle = (lowest + max(missed, problem.least_nbytes)) // 2
        if climb.down_to(middle):
            lowest = middle
        else:
            missed = middle
    return climb.found


SEGMENTS = "segments that are computed again"


class _Climb:
    """What was found so far; `best` is where the search goes on."""

    def __init__(self, problem: Problem, effort: int, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.chains = ChainSchedules()
        self.effort = effort
        self.best = found(problem, problem.order, "each node once, in the given order")
        self.found = [self.best]
        unbounded = replace(problem, budget_nbytes=MOST_NBYTES)
        walks = [(cuts, segmented(unbounded, cuts)) for cuts in segments(problem)]
        self.segmented = [(found(problem, one, SEGMENTS), cuts) for cuts, one in walks if one]

    def down_to(self, budget: int) -> bool:
        """Look for a sequence within the budget."""
        problem = replace(self.problem, budget_nbytes=budget)
        if problem.least_nbytes > budget:
            return False
        best = self._along_the_chain(problem)
        for one, _ in self.segmented if problem.size > SMALL else ():
            best = one if one.beats(best, budget) else best
        best = self._annealed(problem, best, MOVES)
        if best.peak_nbytes > budget:
            for walk in self._walks(problem):
                best = walk if walk.beats(best, budget) else best
            best = self._annealed(problem, best, HARD)
        self.best = best
        if best.peak_nbytes > budget:
            return False
        self.found.append(best)
        return True

    def _walks(self, problem: Problem) -> Iterator[Found]:
        """Sequences within the budget, found without moves: all of a small program, else one."""
        if self.segmented:
            _, cuts = min(self.segmented, key=lambda one: one[0].peak_nbytes)
            walk = segmented(problem, cuts)
            if walk is not None:
                yield found(problem, walk, SEGMENTS)
                if problem.size > SMALL:
                    return
        for rule in RULES if problem.size <= LARGE else RULES[:1]:
            walk = greedy(problem, rule)
            if walk is not None:
                yield found(problem, walk, "greedy eviction")
                if problem.size > SMALL:
                    return

    def _along_the_chain(self, problem: Problem) -> Found:
        """The best sequence of a chain; of other programs that for the budget above."""
        chain = self.chains.best(problem)
        if chain is None:
            return self.best
        one = found(problem, chain, "dynamic programming along the chain")
        return one if one.beats(self.best, problem.budget_nbytes) else self.best

    def _annealed(self, problem: Problem, best: Found, most: int) -> Found:
        """The best sequence after at most so many moves, and some for each node."""
        budget, bound = problem.budget_nbytes, problem.plain_cost
        every = (most + MOVES_OF_NODE * problem.size) * self.effort // EFFORT
        if problem.size <= SMALL:
            every = self.effort * problem.size
        every = min(self.effort * problem.size, every) // (IN_PYTHON if native_refusal() else 1)
        for number, (part, one) in enumerate(PASSES):
            moves, longest = int(part * every), len(best.sequence)
            run = annealed(problem, best, one, moves, inf, self.seed + number, bound, longest)
            best = run if run.beats(best, budget) else best
        return best
