"""Where a training step can be cut into stages: where few bytes go on in the way forward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.plan.recomputation.problem import Problem

MOST_STAGES = 64
CLEARLY = 1.5  # times as many bytes go on at a place than at both places beside it: no place to cut
CHEAP = 4  # times as much is computed in a mean stage as in one that costs little


def cuts(problem: Problem, turn: int, ends: Sequence[int]) -> list[int]:
    """The places in the initial order that stages begin with, but the first, before the place
    `turn` where the way back begins; `ends` are the places where values are read last."""
    last = _last_reads(problem, turn)
    change = np.zeros(turn + 1)
    for at, node in enumerate(problem.order[:turn]):
        # What does not stay for the way back is dearer to hand on.
        nbytes = problem.nbytes[node] * (1 if ends[at] > turn else 2)
        change[at] += nbytes
        change[last[at]] -= nbytes
    through = np.cumsum(change)[:turn]  # right behind each place
    found = [
        at
        for at in range(1, turn - 1)
        if through[at - 1] > through[at] <= through[at + 1] and through[at] > 0
    ]
    found = _without_high(found, through)
    found = _without_long(problem, found, through, last)
    found = _without_cheap(problem, found, through, turn)
    every = -(-len(found) // MOST_STAGES)
    return [at + 1 for at in found[every - 1 :: every]] if found else []


def _last_reads(problem: Problem, turn: int) -> list[int]:
    """Where the value made at each place is read last on the way forward."""
    place = {node: at for at, node in enumerate(problem.order[:turn])}
    reads = ([place[one] for one in problem.readers[v] if one in place] for v in place)
    return [max(found, default=at) for at, found in enumerate(reads)]


def _without_high(found: Sequence[int], through: np.ndarray) -> list[int]:
    """The places less those at which clearly more goes on than at both places beside them."""
    left, before = list(found), -1
    while before != len(left):
        before = len(left)
        beside = [np.inf, *(through[at] for at in left), np.inf]
        most = [CLEARLY * max(pair) for pair in zip(beside, beside[2:], strict=False)]
        left = [at for at, limit in zip(left, most, strict=True) if through[at] <= limit]
    return left


def _without_long(
    problem: Problem, found: Sequence[int], through: np.ndarray, last: Sequence[int]
) -> list[int]:
    """The places less the dearer one of two that a value goes on through."""
    left = np.array(found, int)
    for at, read in enumerate(last):
        crossed = left[np.searchsorted(left, at) : np.searchsorted(left, read)]
        if len(crossed) == 2 and problem.order[at] not in problem.once:
            left = left[left != crossed[np.argmax(through[crossed])]]
    return left.tolist()


def _without_cheap(
    problem: Problem, found: Sequence[int], through: np.ndarray, turn: int
) -> list[int]:
    """The places less the dearer one of two between which little is computed."""
    costs = [0 if v in problem.once else problem.cost[v] for v in problem.order[:turn]]
    total, left = np.cumsum([0, *costs]), list(found)
    while left:
        between = np.diff(total[[0, *(at + 1 for at in left), turn]])
        least = int(np.argmin(between))
        if between[least] * CHEAP >= total[-1] / len(between):
            break
        beside = [at for at in (least - 1, least) if 0 <= at < len(left)]
        del left[max(beside, key=lambda at: through[left[at]])]
    return left
