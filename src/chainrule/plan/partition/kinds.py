"""Devices that are alike need not be told apart: it counts how many of each kind are used."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.plan.partition.problem import Problem

NO_LIMIT = 1 << 62  # bytes
MOST_STATES = 4_000_000  # of all down-sets: 64 MiB


@dataclass(frozen=True)
class Kinds:
    """Places that are alike: the numbers of the first kind's places, and so on.

    They are not exact where there are too many kinds to count how many of each are used: then
    some devices count as having the memory of smaller ones.
    """

    places: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]
    is_host: tuple[bool, ...]
    is_exact: bool = True

    @property
    def states(self) -> int:
        """In how many ways places of each kind can be used, by their number."""
        return math.prod(len(one) + 1 for one in self.places)


def kinds_of(problem: Problem, parts: int) -> Kinds:
    """The kinds of places; of each no more than there are parts."""
    levels = sorted(set(problem.memory_nbytes))
    is_exact = True
    while True:
        found = _kinds(problem, parts, levels, is_exact)
        if (parts + 1) * found.states <= MOST_STATES:
            return found
        if len(levels) < 2:
            raise InputError(
                f"{parts:,} parts on {problem.places:,} devices are too many to count",
                hint="fewer parts: name more nodes that lie together=",
            )
        gaps = [high - low for low, high in pairwise(levels)]
        del levels[gaps.index(min(gaps)) + 1]
        is_exact = False


def _kinds(problem: Problem, parts: int, levels: Sequence[int], is_exact: bool) -> Kinds:
    """The kinds of places, where each device has the largest of these memories that it holds."""
    groups: dict[int, list[int]] = {}
    for at, nbytes in enumerate(problem.memory_nbytes):
        groups.setdefault(levels[bisect_right(levels, nbytes) - 1], []).append(at)
    sizes = sorted(groups, reverse=True)
    places = [groups[one] for one in sizes]
    if problem.hosts:
        sizes.append(NO_LIMIT)
        places.append(list(range(len(problem.memory_nbytes), problem.places)))
    return Kinds(
        tuple(tuple(one[: max(1, parts)]) for one in places),
        tuple(sizes),
        tuple(problem.is_host(one[0]) for one in places),
        is_exact,
    )
