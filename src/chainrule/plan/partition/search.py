"""What is tried, in which order: splits along single orders, then all down-sets, or windows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from time import monotonic

from chainrule.dataclass import dataclass, replace
from chainrule.plan.partition.downsets import DownSets, down_sets
from chainrule.plan.partition.kinds import MOST_STATES, kinds_of
from chainrule.plan.partition.loads import Stages, loads
from chainrule.plan.partition.parts import Parts, parts_of
from chainrule.plan.partition.problem import Problem
from chainrule.plan.partition.stages import (
    CLOSE,
    ENDLESS,
    Filled,
    Stretches,
    best_stages,
    host_speed,
)
from chainrule.plan.recomputation.problem import Numbers

MOST_TESTS = 1_000_000_000  # of a part against a set: some seconds
LONG = 3_000  # parts; beyond, only one order is tried
GROWTH = (1.05, 1.2, 1.6, 3.0, 10.0)  # limits where no split is known, in lower bounds
SHARES = (0.3, 1.0)  # limits between the lower bound and the best split


@dataclass(frozen=True)
class Found:
    """The nodes of each place, the places in the order of data, the largest load, and the lower
    bound on that of any split."""

    stages: Stages
    order: Numbers
    load: float
    bound: float
    strategy: str


def bound_of(problem: Problem, parts: Parts, limit: float) -> float:
    """No split that is better than the limit has a smaller load: all parts share the places, and
    each is on one."""
    devices = len(problem.memory_nbytes)
    speed = host_speed(parts, limit) if problem.hosts else 0.0
    room = devices + problem.hosts * speed
    shared = sum(parts.seconds) / room if devices else sum(parts.host_seconds) / problem.hosts
    if devices and speed >= ENDLESS:
        shared = 0.0  # a host takes a part in no time, and there may be as many
    alone = [
        min([device] * (devices > 0) + [host] * (problem.hosts > 0))
        for device, host in zip(parts.seconds, parts.host_seconds, strict=True)
    ]
    return min(limit, max([shared, *alone]))


class Contiguous:
    """The search for a contiguous split, with the best so far."""

    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem, self.deadline = problem, deadline
        self.parts = parts_of(problem, True)
        self.kinds = kinds_of(problem, self.parts.size)
        self.stages: Stretches | None = None
        self.load = ENDLESS
        self.bound = bound_of(problem, self.parts, ENDLESS)
        self.is_complete = False
        self.strategy = ""

    def run(self) -> Found | None:
        """The best split; None where none was found (`is_complete`: there is none)."""
        size = self.parts.size
        for number, order in enumerate(orders(self.parts)):
            # One split is found whatever time it takes.
            self.try_window(order, 1, deadline=self.deadline if number else math.inf)
            if self.is_late or self.is_best:
                break
        if not self.is_best and not self.is_late:
            most = MOST_STATES // self.kinds.states
            most = min(most, MOST_TESTS // max(1, size * (1 + size // 62)))
            most = max(most, size + 1)  # where there is but one order
            sets = down_sets(self.parts.before, most)
            if sets is None:
                self.widen(most)
            else:
                what = f"dynamic programming over {sets.count:,} down-sets"
                whole = self.improve(self.parts, range(size), sets, what, self.deadline)
                self.is_complete = whole and self.kinds.is_exact
                if self.is_complete:
                    self.strategy = what
        if self.stages is None:
            return None
        if self.is_complete or self.is_best:
            self.bound = self.load
        else:
            self.bound = max(self.bound, bound_of(self.problem, self.parts, self.load))
        return Found(*self.laid_out(), self.load, self.bound, self.strategy)

    @property
    def is_late(self) -> bool:
        return monotonic() > self.deadline

    @property
    def is_best(self) -> bool:
        return self.load <= self.bound * (1 + CLOSE)

    def widen(self, most: int) -> None:
        """Look among the orders near the best one, as far as there are not too many sets."""
        width = 2
        order = self.order_of_stages()
        while not self.is_late and not self.is_best and width < self.parts.size:
            before = self.load
            if not self.try_window(order, width, most):
                break
            if self.load < before:
                order = self.order_of_stages()
            else:
                width = width * 3 // 2 + 1

    def order_of_stages(self) -> list[int]:
        """A topological order in which the stages of the best split follow each other."""
        if self.stages is None:
            return list(range(self.parts.size))
        return [a for _, stage in self.stages for a in stage]

    def try_window(
        self,
        order: Sequence[int],
        width: int,
        most: int = 1 << 40,
        deadline: float | None = None,
    ) -> bool:
        """Try all splits that keep the order of parts that are `width` apart; False where they are
        too many."""
        part = windowed(self.parts, order, width)
        sets = down_sets(part.before, most)
        if sets is None:
            return False
        what = "one order" if width == 1 else f"orders within windows of {width} parts"
        ends = self.deadline if deadline is None else deadline
        self.improve(part, order, sets, f"dynamic programming over {what}", ends)
        return True

    def improve(
        self, parts: Parts, names: Sequence[int], sets: DownSets, strategy: str, deadline: float
    ) -> bool:
        """Look for a better split among some down-sets; True if there is no other.  Part `a` is
        `names[a]` of all parts."""
        is_whole = parts is self.parts and self.kinds.is_exact
        for limit in self.limits():
            found = best_stages(parts, self.kinds, sets, limit, deadline)
            if found.stages is not None:
                self.take(found, names, strategy)
            if not found.is_complete:
                return False
            if found.stages is not None:
                return True
            if is_whole:
                self.bound = max(self.bound, min(limit, self.load))
        return True

    def limits(self) -> list[float]:
        """Loads to stay below: small ones first, which cost little time."""
        if self.load < ENDLESS:
            best = self.load * (1 - CLOSE)
            return [self.bound + (best - self.bound) * share for share in SHARES]
        return [*(self.bound * one for one in GROWTH if self.bound), ENDLESS]

    def take(self, found: Filled, names: Sequence[int], strategy: str) -> None:
        assert found.stages is not None
        stages = tuple(
            (place, tuple(sorted(names[a] for a in stage))) for place, stage in found.stages
        )
        former = self.stages, self.load
        self.stages = stages
        load = max(loads(self.problem, self.laid_out()[0]), default=0.0)
        if load < former[1]:
            self.load, self.strategy = load, strategy
        else:
            self.stages = former[0]

    def laid_out(self) -> tuple[Stages, Numbers]:
        """The nodes of each place, and the places in the order of stages."""
        assert self.stages is not None
        number = {a: at for at, (_, stage) in enumerate(self.stages) for a in stage}
        stage_of = self.parts.stage_of_nodes([number[a] for a in range(self.parts.size)])
        rows: list[list[int]] = [[] for _ in range(self.problem.places)]
        places = [place for place, _ in self.stages] or [0]
        for v in range(self.problem.size):
            rows[places[stage_of[v]]].append(v)
        return tuple(tuple(row) for row in rows), tuple(p for p in places if rows[p])


def windowed(parts: Parts, order: Sequence[int], width: int) -> Parts:
    """The parts in a topological order, which those keep that are `width` apart in it."""
    number = [0] * parts.size
    for at, a in enumerate(order):
        number[a] = at

    def moved(row: int) -> int:
        found = 0
        while row:
            found |= 1 << number[(row & -row).bit_length() - 1]
            row &= row - 1
        return found

    return replace(
        parts,
        nodes=tuple(parts.nodes[a] for a in order),
        seconds=tuple(parts.seconds[a] for a in order),
        host_seconds=tuple(parts.host_seconds[a] for a in order),
        nbytes=tuple(parts.nbytes[a] for a in order),
        before=tuple(
            (0 if width == 1 else moved(parts.before[a])) | (1 << max(0, at + 1 - width)) - 1
            for at, a in enumerate(order)
        ),
        ties=tuple((tuple(sorted(number[a] for a in one)), cost) for one, cost in parts.ties),
    )


def orders(parts: Parts) -> Iterator[Sequence[int]]:
    """Some topological orders: that of the parts, depth first from the inputs, and from the
    results."""
    size = parts.size
    yield range(size)
    if size > LONG:
        return
    behind: list[list[int]] = [[] for _ in range(size)]
    ahead: list[list[int]] = [[] for _ in range(size)]
    for b, row in enumerate(parts.before):
        for a in range(size):
            if row >> a & 1:
                behind[a].append(b)
                ahead[b].append(a)
    yield _depth_first(behind, ahead)
    yield _depth_first(ahead, behind)[::-1]


def _depth_first(behind: list[list[int]], ahead: list[list[int]]) -> list[int]:
    waits = [len(row) for row in ahead]
    ready = [a for a in reversed(range(len(waits))) if not waits[a]]
    found = []
    while ready:
        found.append(ready.pop())
        for b in behind[found[-1]]:
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    return found
