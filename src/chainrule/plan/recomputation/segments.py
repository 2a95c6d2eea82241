"""Keeps what segments of the initial order begin with, and computes the rest of a segment again
when it is read behind the peak: the schedules that people place by hand, as starts for a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from chainrule.plan.recomputation.greedy import Walk, Weights
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import lives, measured, without_useless

COUNTS = (2, 3, 4, 6, 8, 12, 18, 27, 40, 60)
FARTHEST = Weights(nbytes=0, distance=1, cost=0)
REACH = 0.4  # of a segment, within which it ends where fewest bytes go on


def segments(problem: Problem) -> Iterator[tuple[int, ...]]:
    """The places in the order where segments end, the last at the peak: more and more of them."""
    order = problem.order
    usage, ends = measured(problem, order).usage, lives(problem, order)
    peak = int(np.argmax(usage)) if usage else 0
    saved = [problem.nbytes[node] * (ends[at] > peak) for at, node in enumerate(order[:peak])]
    filled, through = np.cumsum(saved), _through(problem, peak)
    for count in COUNTS:
        if 2 * count > np.count_nonzero(saved):
            return
        each = filled[-1] / count
        bounds = [
            np.searchsorted(filled, each * (number + np.array((-REACH, REACH))))
            for number in range(1, count)
        ]
        cuts = [int(low + np.argmin(through[low : high + 1])) for low, high in bounds]
        yield *dict.fromkeys(cuts), peak


def _through(problem: Problem, peak: int) -> np.ndarray:
    """For each place before the peak, the bytes that were made up to it and are read between."""
    place = {node: at for at, node in enumerate(problem.order)}
    change = np.zeros(peak + 2)
    for at, node in enumerate(problem.order[:peak]):
        reads = [min(place[one], peak) for one in problem.readers[node]]
        last = max((one for one in reads if one < peak), default=at)
        change[at] += problem.nbytes[node]
        change[last] -= problem.nbytes[node]
    return np.cumsum(change)


def segmented(problem: Problem, cuts: Sequence[int]) -> tuple[int, ...] | None:
    """A valid sequence within the budget, with segments that end at these places; None where none
    is found.

    Where the rest of a segment does not fit when it is computed again, less of it stays.
    """
    walk = Walk(problem, FARTHEST)
    following = dict(pairwise(cuts))
    begins = np.zeros(problem.size, bool)  # what segments begin with
    for at, node in enumerate(problem.order):
        walk.now = at
        if not walk.advance(node):
            return None
        if at not in following:
            continue
        alive = walk.resident & (walk.next_read >= 0)
        begins |= alive & (walk.next_read <= following[at])
        walk.evictable &= ~begins
        for value in np.flatnonzero(alive & walk.evictable & walk.may_run_again):
            inputs = list(problem.inputs[value])
            if (walk.resident[inputs] | walk.may_run_again[inputs]).all():
                walk.drop(int(value))
    return without_useless(problem, walk.sequence) if walk.finish() else None
