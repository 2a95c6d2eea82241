"""Bounds the scratch memory that works need in an order, without looking for offsets: most of the
plans that a budget rules out are ruled out by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chainrule.graph.node import Node
from chainrule.plan.roles import nbytes_of
from chainrule.plan.storage import Outside
from chainrule.plan.work import Work
from chainrule.schedule.records import aligned


class _Touched(NamedTuple):
    """What a work reads and does not write, the scratch values that it writes, their bytes, and the
    bytes of the others."""

    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    nbytes: tuple[int, ...]
    outside: frozenset[int]


class LeastLoad:
    """The bytes of scratch memory below which no storage of works can be, for many orders of works
    that are the same, or nearly."""

    def __init__(self, outside: Outside) -> None:
        self._outside = {life.node for life in outside.buffers}
        self._touched: dict[Work, _Touched] = {}

    def of(self, works: Sequence[Work]) -> int:
        """The most in use at one work, whatever takes over whose bytes there."""
        known = self._touched
        now: dict[Node, int] = {}  # the number of the life that each value has
        first: list[int] = []
        last: list[int] = []
        nbytes: list[int] = []
        wanted: dict[int, set[int]] = {}  # bytes of what may lie where a result does, by work
        for number, work in enumerate(works):
            touched = known.get(work)
            if touched is None:
                touched = known[work] = self._of(work)
            for node in touched.reads:
                if node in now:
                    last[now[node]] = number
            for node in touched.writes:
                now[node] = len(first)
                first.append(number)
                last.append(number)
            nbytes += touched.nbytes
            if touched.outside:
                wanted[number] = {*touched.outside}
        inside = np.ones(len(first), bool)
        inside[_perhaps_outside(first, last, nbytes, wanted)] = False
        begin, end = np.array(first, int)[inside], np.array(last, int)[inside]
        size = np.array([aligned(one) for one in nbytes], np.int64)[inside]
        stays = begin < end
        count = len(works)

        def added(places: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            return np.bincount(places, sizes, count + 1)[:count]

        written, dying = added(begin, size), added(end[stays], size[stays])
        there = np.cumsum(added(begin[stays] + 1, size[stays]) - dying)
        spaces = np.array([aligned(work.workspace_nbytes) for work in works], float)
        return int((there + np.maximum(written, dying) + spaces).max(initial=0))

    def _of(self, work: Work) -> _Touched:
        writes = dict.fromkeys(work.writes)
        inside = tuple(node for node in writes if node not in self._outside)
        return _Touched(
            tuple(node for node in work.reads if node not in writes),
            inside,
            tuple(map(nbytes_of, inside)),
            frozenset(nbytes_of(node) for node in writes if node in self._outside),
        )


def _perhaps_outside(
    first: Sequence[int], last: Sequence[int], nbytes: Sequence[int], wanted: dict[int, set[int]]
) -> list[int]:
    """The lives that may lie in an array from outside, as those are read last that are as large, or
    where such a life does."""
    ending: dict[int, list[int]] = defaultdict(list)
    for life, number in enumerate(last):
        ending[number].append(life)
    found: list[int] = []
    for number in reversed(range(max(last, default=-1) + 1)):
        if number in wanted:
            for life in ending.get(number, ()):
                if nbytes[life] in wanted[number]:
                    found.append(life)
                    wanted.setdefault(first[life], set()).add(nbytes[life])
    return found
