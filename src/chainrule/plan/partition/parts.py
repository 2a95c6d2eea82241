"""Merges nodes into parts that some best split leaves whole: fewer parts, far fewer down-sets.

Merged are nodes that must lie together (groups, and cycles of groups in a contiguous split), and
parts that take no time.  Moving such a part a to the device of b raises no load if every value
that ties a to parts other than b costs, together, at most what ties it to b alone; it must also be
able to go there: what must come before a comes before b, and likewise behind.  A part without time
and ties only restricts the order; it is left out, and goes later where its inputs are.

A value ties its producer and its readers: each device that has some of them, but not all, pays
for it once, whether it leaves or enters.  Costs therefore need no direction.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import cached_property

from chainrule.dataclass import dataclass
from chainrule.plan.partition.problem import Problem, Times
from chainrule.plan.recomputation.problem import Numbers, grouped


@dataclass(frozen=True)
class Parts:
    """Parts 0 to k - 1, in a topological order: times, bytes, and what ties them.

    `before[a]` has a bit for each part that must not come after a, all of them.  `ties` are
    pairs: two or more parts, and what each device that has some but not all of them pays.
    """

    nodes: tuple[Numbers, ...]
    seconds: Times
    host_seconds: Times
    nbytes: Numbers
    before: Numbers
    ties: tuple[tuple[Numbers, float], ...]
    left_out: tuple[tuple[Numbers, Numbers, Numbers], ...]  # nodes, nodes before, nodes behind

    @property
    def size(self) -> int:
        """How many parts there are."""
        return len(self.nodes)

    @cached_property
    def ties_of_parts(self) -> tuple[Numbers, ...]:
        """For each part, the numbers of the ties that it is in."""
        return grouped(
            self.size, ((a, at) for at, (members, _) in enumerate(self.ties) for a in members)
        )

    def stage_of_nodes(self, stage_of_parts: Sequence[int]) -> dict[int, int]:
        """The stage of every node, given that of every part."""
        found = {v: stage_of_parts[a] for a, nodes in enumerate(self.nodes) for v in nodes}
        for nodes, before, behind in reversed(self.left_out):
            stage = max((found[u] for u in before), default=-1)
            if stage < 0:
                stage = min((found[v] for v in behind), default=0)
            found.update((v, stage) for v in nodes)
        return found


def parts_of(problem: Problem, contiguous: bool) -> Parts:
    """The parts of a graph; only a contiguous split has an order to obey."""
    first = _Roots(problem.size)
    for group in problem.together:
        for v in group[1:]:
            first.merge(group[0], v)
    arrows = _arrows(problem, first) if contiguous else []
    for circle in _circles(problem.size, [(first.of(u), first.of(v)) for u, v in arrows]):
        for v in circle[1:]:
            first.merge(circle[0], v)
    names = sorted({first.of(v) for v in range(problem.size)})
    number = {name: at for at, name in enumerate(names)}
    part_of = [number[first.of(v)] for v in range(problem.size)]
    pairs = [(part_of[u], part_of[v]) for u, v in arrows if part_of[u] != part_of[v]]
    rank = {a: at for at, a in enumerate(ordered(len(names), pairs))}
    part_of = [rank[a] for a in part_of]
    pairs = [(rank[a], rank[b]) for a, b in pairs]
    work = _Merging(problem, part_of, len(names), pairs)
    work.reduce()
    return work.parts()


class _Roots:
    """Disjoint sets of nodes."""

    def __init__(self, size: int) -> None:
        self.above = list(range(size))

    def of(self, v: int) -> int:
        while self.above[v] != v:
            self.above[v] = self.above[self.above[v]]
            v = self.above[v]
        return v

    def merge(self, u: int, v: int) -> None:
        one, other = sorted((self.of(u), self.of(v)))
        self.above[other] = one


def _arrows(problem: Problem, first: _Roots) -> list[tuple[int, int]]:
    """Pairs (u, v) of nodes: the stage of v must not come before that of u.

    Backward nodes lie where the forward nodes of their group lie.  Those without one mirror what
    they read: gradients flow against the order of stages.
    """
    backward = problem.backward
    led = {first.of(v) for v in range(problem.size) if v not in backward}
    alone = {v for v in backward if first.of(v) not in led}
    found = []
    for u, v in problem.edges:
        if v not in backward:
            found.append((u, v))
        elif u in backward and (u in alone or v in alone):
            found.append((v, u))
    return found


def _circles(size: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The strongly connected components of more than one node (Tarjan, without recursion)."""
    following = grouped(size, pairs)
    number, low = [-1] * size, [0] * size
    stack: list[int] = []
    waiting = [False] * size
    found, count = [], 0
    for root in range(size):
        if number[root] >= 0:
            continue
        walk = [(root, 0)]
        while walk:
            v, at = walk.pop()
            if at == 0:
                number[v] = low[v] = count
                count += 1
                stack.append(v)
                waiting[v] = True
            for place in range(at, len(following[v])):
                other = following[v][place]
                if number[other] < 0:
                    walk += [(v, place + 1), (other, 0)]
                    break
                if waiting[other]:
                    low[v] = min(low[v], number[other])
            else:
                if low[v] == number[v]:
                    circle = []
                    while not circle or circle[-1] != v:
                        circle.append(stack.pop())
                        waiting[circle[-1]] = False
                    if len(circle) > 1:
                        found.append(sorted(circle))
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[v])
    return found


def ordered(size: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The numbers 0 to size - 1 so that the first of each pair comes before the second."""
    following = grouped(size, pairs)
    waits = [0] * size
    for row in following:
        for v in row:
            waits[v] += 1
    ready = [v for v in range(size) if not waits[v]]
    found = []
    while ready:
        found.append(heapq.heappop(ready))
        for v in following[found[-1]]:
            waits[v] -= 1
            if not waits[v]:
                heapq.heappush(ready, v)
    return found


class _Merging:
    """Parts on their way, in a topological order: merged in place, until nothing more can be."""

    def __init__(
        self, problem: Problem, part_of: list[int], size: int, pairs: list[tuple[int, int]]
    ) -> None:
        self.nodes: list[list[int]] = [[] for _ in range(size)]
        self.seconds, self.host_seconds = [0.0] * size, [0.0] * size
        self.nbytes = [0] * size
        for v, a in enumerate(part_of):
            self.nodes[a].append(v)
            self.seconds[a] += problem.seconds[v]
            self.host_seconds[a] += problem.host_seconds[v]
            self.nbytes[a] += problem.nbytes[v]
        least = min(problem.memory_nbytes, default=0)
        if not problem.memory_nbytes or sum(self.nbytes) <= least:
            self.nbytes = [0] * size  # everything fits everywhere
        self.before, self.behind = [0] * size, [0] * size
        following = grouped(size, pairs)
        for a in range(size):
            for b in following[a]:
                self.before[b] |= self.before[a] | 1 << a
        for a in reversed(range(size)):
            for b in following[a]:
                self.behind[a] |= self.behind[b] | 1 << b
        self.alive = (1 << size) - 1
        self.ties: dict[frozenset[int], float] = {}
        self.ties_of: list[set[frozenset[int]]] = [set() for _ in range(size)]
        for u, readers in enumerate(problem.readers):
            self.tie(frozenset(part_of[v] for v in (u, *readers)), problem.transfer_seconds[u])
        self.left_out: list[tuple[Numbers, Numbers, Numbers]] = []

    def tie(self, members: frozenset[int], cost: float) -> None:
        if len(members) > 1 and cost > 0:
            self.ties[members] = self.ties.get(members, 0.0) + cost
            for a in members:
                self.ties_of[a].add(members)

    def reduce(self) -> None:
        """Merge, and leave out, while something can be."""
        idle = [
            a
            for a in range(len(self.nodes))
            if not (self.seconds[a] or self.host_seconds[a] or self.nbytes[a])
        ]
        again = True
        while again:
            again = False
            for a in [one for one in idle if self.alive >> one & 1]:
                if not self.ties_of[a]:
                    self.leave_out(a)
                    again = True
                    continue
                smallest = min(self.ties_of[a], key=lambda one: (len(one), sorted(one)))
                for b in sorted(smallest - {a}):
                    if self.may_join(a, b):
                        self.join(a, b)
                        again = True
                        break

    def may_join(self, a: int, b: int) -> bool:
        """Whether a, which takes no time, can always go where b lies, at no device's cost."""
        others = sum(self.ties[one] for one in self.ties_of[a] if b not in one)
        if others > self.ties.get(frozenset((a, b)), 0.0):
            return False
        ahead = not self.before[a] & self.alive & ~(self.before[b] | 1 << b)
        after = not self.behind[a] & self.alive & ~(self.behind[b] | 1 << b)
        return (
            (ahead and after)
            or (ahead and bool(self.before[a] >> b & 1))
            or (after and bool(self.behind[a] >> b & 1))
        )

    def join(self, a: int, b: int) -> None:
        self.nodes[b] += self.nodes[a]
        for members in list(self.ties_of[a]):
            cost = self.ties.pop(members)
            for one in members:
                self.ties_of[one].discard(members)
            self.tie(members - {a} | {b}, cost)
        self.alive &= ~(1 << a)

    def leave_out(self, a: int) -> None:
        self.alive &= ~(1 << a)
        before, behind = (
            tuple(v for b in _bits(row & self.alive) for v in self.nodes[b])
            for row in (self.before[a], self.behind[a])
        )
        self.left_out.append((tuple(sorted(self.nodes[a])), before, behind))

    def parts(self) -> Parts:
        kept = [a for a in range(len(self.nodes)) if self.alive >> a & 1]
        number = {a: at for at, a in enumerate(kept)}
        return Parts(
            nodes=tuple(tuple(sorted(self.nodes[a])) for a in kept),
            seconds=tuple(self.seconds[a] for a in kept),
            host_seconds=tuple(self.host_seconds[a] for a in kept),
            nbytes=tuple(self.nbytes[a] for a in kept),
            before=_without(self.before, kept, self.alive),
            ties=tuple(
                sorted((tuple(sorted(number[a] for a in one)), c) for one, c in self.ties.items())
            ),
            left_out=tuple(self.left_out),
        )


def _without(rows: Sequence[int], kept: Sequence[int], alive: int) -> Numbers:
    """The rows that are kept, without the bits of the others."""
    found = [rows[a] for a in kept]
    for gone in reversed(_bits(~alive & (1 << len(rows)) - 1)):
        low = (1 << gone) - 1
        found = [row & low | row >> gone + 1 << gone for row in found]
    return tuple(found)


def _bits(row: int) -> list[int]:
    found = []
    while row:
        found.append((row & -row).bit_length() - 1)
        row &= row - 1
    return found
