"""Rounds of annealing, longer and longer, and at last from the best sequence: what is tried, for
how long, and at which temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from chainrule.plan.recomputation.anneal import KERNEL
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import measured
from chainrule.plan.recomputation.slots import Slots, slots_of

CALL_MOVES = 20_000  # between two looks at the clock: some 20 ms
REFILLED = 10  # moves for each node before executions are spread evenly again
NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class Round:
    """One run of annealing: its `part` of all moves and of all time; the first and the
    last temperature, in mean costs of a node; the bytes above the budget that are allowed at the
    beginning, in mean values for each node and slot; and whether it begins with the best sequence
    so far, or with the order that was given."""

    part: float
    warm: float
    cold: float
    excess: float
    from_best: bool


ROUNDS = (  # their parts are of all moves, and of the time
    Round(0.05, 1.0, 0.03, 3.0, False),
    Round(0.15, 1.0, 0.03, 3.0, False),
    Round(0.55, 1.0, 0.03, 3.0, False),
    Round(0.25, 0.2, 0.01, 0.03, True),
)
EXCESS_LEFT = 0.01  # of the excess that is allowed, when it ends
EXCESS_ENDS = 0.7  # of a round
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
    one: Round,
    moves: int,
    deadline: float,
    seed: int,
    bound: int,
) -> Found:
    """The best sequence of one round; `start` if it finds none that is better.

    The temperature falls with the moves made, or with the time if that is shorter.  The round ends
    early with a sequence within the budget that costs no more than `bound`.
    """
    begun, n = monotonic(), problem.size
    s = slots_of(problem, int(SLOTS * len(start.sequence)) + 64)
    _lay(s, problem, start)
    s.random = np.random.default_rng(seed).integers(1, 1 << 32, 4, dtype=np.int64)
    cost = max(problem.plain_cost, 1) / n
    nbytes = max(sum(problem.nbytes), 1) / n
    s.weight, s.swing = cost / nbytes, SWING
    made, since_new = 0, NO_LIMIT
    while made < moves:
        now = monotonic()
        progress = max(made / moves, min(1.0, (now - begun) / max(deadline - begun, 1e-9)))
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
        if s.executions * 3 > s.slots * 2:  # nearly full
            s = _roomier(s, problem)
            since_new = NO_LIMIT
    best = found(problem, s.best[: s.best_length].tolist(), "annealing")
    return best if best.beats(start, problem.budget_nbytes) else start


def _lay(s: Slots, problem: Problem, start: Found) -> None:
    length = len(start.sequence)
    s.laid[:length] = s.best[:length] = start.sequence
    s.laid_length = s.best_length = length
    s.best_cost = start.cost
    s.best_excess = 0 if start.peak_nbytes <= problem.budget_nbytes else NO_LIMIT


def _roomier(s: Slots, problem: Problem) -> Slots:
    """The same sequences with twice as many slots."""
    larger = slots_of(problem, 2 * s.slots)
    for name in ("laid", "best"):
        getattr(larger, name)[: s.slots] = getattr(s, name)
    for name in (
        "laid_length",
        "best_length",
        "best_cost",
        "best_excess",
        "random",
        "weight",
        "swing",
    ):
        setattr(larger, name, getattr(s, name))
    return larger
