"""What is tried, for how long: greedy walks, and rounds of annealing at several temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.anneal import KERNEL
from chainrule.plan.recomputation.bounds import lower_bound
from chainrule.plan.recomputation.chains import best_of_chain
from chainrule.plan.recomputation.greedy import RULES, greedy
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import measured
from chainrule.plan.recomputation.slots import Slots, slots_of

CALL_MOVES = 20_000  # between two looks at the clock: some 20 ms
REFILLED = 10  # moves for each node before executions are spread evenly again
NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class Cooling:
    """The first and the last temperature, in mean costs of a node; the bytes above the budget that
    are allowed at the beginning, in mean values for each node and slot; and whether it begins with
    the best sequence so far, or with the order that was given."""

    warm: float
    cold: float
    excess: float
    from_best: bool


GENTLE = Cooling(0.3, 0.01, 0.3, True)  # good for training steps, whose order is nearly fixed
HOT = Cooling(1.0, 0.03, 3.0, False)  # finds other orders, where there are many
POLISH = Cooling(0.2, 0.01, 0.03, True)
# Parts of all moves, and of the time; None stands for what found the best sequence so far.
ROUNDS = ((0.05, GENTLE), (0.15, HOT), (0.5, None), (0.3, POLISH))
QUICK_ROUNDS = ((0.8, GENTLE), (0.2, POLISH))
LITTLE_EFFORT = 2_000
BOUND_SHARE = 0.15  # of the time at most, for the lower bound, behind the first round
EXCESS_LEFT = 0.01  # of the excess that is allowed, when it ends
EXCESS_ENDS = 0.7  # of the cooling
LATE = 0.01  # by how much of the time the moves may be behind
SWING = 1.01
SLOTS = 2.5  # for each execution


@dataclass(frozen=True)
class Found:
    """A valid sequence, what it costs, the bytes it needs, and how it was found."""

    sequence: tuple[int, ...]
    cost: int
    peak_nbytes: int
    strategy: str

    def beats(self, other: Found, budget: int) -> bool:
        """Whether it is the better one: within the budget if the other is not, or cheaper."""
        mine, others = max(self.peak_nbytes, budget), max(other.peak_nbytes, budget)
        return (mine, self.cost) < (others, other.cost)


def found(problem: Problem, sequence: Sequence[int], strategy: str) -> Found:
    """The sequence with what it costs and needs."""
    seen = measured(problem, sequence)
    return Found(tuple(sequence), seen.cost, seen.peak_nbytes, strategy)


def annealed(
    problem: Problem,
    start: Found,
    one: Cooling,
    moves: int,
    deadline: float,
    seed: int,
    bound: int,
    longest: int = 0,
) -> Found:
    """The best sequence of one cooling; `start` if it finds none that is better.

    The temperature falls with the moves made, or with the time if that is shorter.  It ends
    early with a sequence within the budget that costs no more than `bound`.  There are SLOTS for
    each execution of `start`, or for as many as in a sequence with the `longest` length.
    """
    begun, n = monotonic(), problem.size
    length = max(len(start.sequence), longest)
    s = slots_of(problem, int(SLOTS * length) + 64)
    excess = 0 if start.peak_nbytes <= problem.budget_nbytes else NO_LIMIT
    _lay(s, start, excess)
    s.random = np.random.default_rng(seed).integers(1, 1 << 32, 4, dtype=np.int64)
    cost = max(problem.plain_cost, 1) / n
    nbytes = max(sum(problem.nbytes), 1) / n
    s.weight, s.swing = cost / nbytes, SWING
    made, since_new = 0, NO_LIMIT
    while made < moves:
        progress, passed = made / moves, (monotonic() - begun) / max(deadline - begun, 1e-9)
        if passed > progress + LATE:  # else the clock has no part in what is found
            progress = min(passed, 1.0)
        if progress >= 1 or (s.best_excess == 0 and s.best_cost <= bound):
            break
        s.temperature = cost * one.warm * (one.cold / one.warm) ** progress
        falling = EXCESS_LEFT ** (progress / EXCESS_ENDS)
        s.allowed = 0
        if progress < EXCESS_ENDS:
            s.allowed = int(min(nbytes * n * one.excess * falling, 2.0**60))
        s.moves = min(CALL_MOVES, moves - made)
        s.is_new = int(since_new >= REFILLED * n)
        since_new = 0 if s.is_new else since_new
        KERNEL(s)
        made += s.moves
        since_new += s.moves
    if (s.best_cost, s.best_excess) == (start.cost, excess):
        return start
    best = found(problem, s.best[: s.best_length].tolist(), "annealing")
    return best if best.beats(start, problem.budget_nbytes) else start


def _lay(s: Slots, start: Found, excess: int) -> None:
    length = len(start.sequence)
    s.laid[:length] = s.best[:length] = start.sequence
    s.laid_length = s.best_length = length
    s.best_cost, s.best_excess = start.cost, excess


def searched(problem: Problem, deadline: float, effort: int, seed: int) -> tuple[Found, int]:
    """The best sequence of all methods, perhaps one above the budget, and a lower bound on the
    cost of all sequences within it; at most `effort` moves for each node."""
    budget, bound = problem.budget_nbytes, problem.plain_cost
    # A move walks along lives: 0.5 µs for small programs, 10 µs for 20,000 nodes.  What there is
    # no time for is not begun: a little effort does other things than a part of a large one.
    moves = (deadline - monotonic()) * 2e6 / (1 + problem.size / 1_000)
    rounds = ROUNDS if min(effort, moves / problem.size) > LITTLE_EFFORT else QUICK_ROUNDS
    plain = best = found(problem, problem.order, "each node once, in the given order")
    starts = [(best_of_chain(problem), "dynamic programming along the chain")]
    starts += [(greedy(problem, rule), "greedy eviction") for rule in RULES]
    for sequence, strategy in starts:
        if sequence is not None:
            one = found(problem, sequence, strategy)
            best = one if one.beats(best, budget) else best
    KERNEL.prepare()
    begun = monotonic()
    seconds = max(deadline - begun, 0.0)
    part, winner = 0.0, GENTLE
    for number, (share, cooling) in enumerate(rounds):
        if number == 1 and best.cost > bound:
            bound = lower_bound(problem, monotonic() + BOUND_SHARE * seconds, effort)
        if best.peak_nbytes <= budget and best.cost == bound:
            break
        part += share
        one = cooling or winner
        run = annealed(
            problem,
            best if one.from_best else plain,
            one,
            int(effort * problem.size * share),
            begun + part * seconds,
            seed + number,
            bound,
            len(best.sequence),
        )
        if run.beats(best, budget):
            best, winner = run, one
    return best, bound
