"""The works of a plan in other orders that are as right, to find one that needs less memory.

What a work reads and writes is settled by now; only when it runs is not.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.checks import reliance
from chainrule.plan.work import Work
from chainrule.schedule.lives import Life, Lives, lives_of


def orders(
    graph: Graph, works: Sequence[Work], results: Iterable[Node], overwrites: Mapping[Node, Node]
) -> Iterator[list[Work]]:
    """The plain order, that of the graph; then those in which what frees memory comes early.

    `works` are in a right order; `results` and `overwrites` as in `plan`.
    """
    lives = lives_of((work.reads, work.writes) for work in works)
    after = _followers(works, lives, overwrites)
    position = {node: place for place, node in enumerate(graph.nodes)}
    plain = [max(position[node] for node in work.writes) for work in works]
    yield [works[number] for number in _in_order(after, plain.__getitem__)]
    outside = {*results, *overwrites.values()}
    for together in (after, [()] * len(works)):
        early = _FreeingEarly(lives, after, outside, together)
        yield [works[number] for number in early.order()]


def _followers(
    works: Sequence[Work], lives: Lives, overwrites: Mapping[Node, Node]
) -> list[list[int]]:
    """The numbers of the works that come after each work: those that read what it writes.

    One that overwrites a given array comes after all that read the array, and all that may stop
    the run; one that cannot since an index was checked before, after the one that checks it; one
    that writes a value again, after all that read its life before.
    """
    readers: dict[Life, list[int]] = defaultdict(list)
    for number, read in enumerate(lives.reads):
        for life in read:
            readers[life].append(number)
    found: list[set[int]] = [set() for _ in works]
    for number, written in enumerate(lives.writes):
        for life in written:
            found[number].update(readers[life])
            if life.number:
                before = Life(life.node, life.number - 1)
                for one in (lives.first[before], *readers[before]):
                    found[one].add(number)
    updates = [lives.first[Life(result)] for result in overwrites.values()]
    for given, result in overwrites.items():
        for number in readers[Life(given)]:
            found[number].add(lives.first[Life(result)])
    stops, relies = reliance(works)
    for number, checking in enumerate(relies):
        for one in checking:
            found[one].add(number)
    failing = [number for number, one in enumerate(stops) if one]
    for one, following in pairwise(failing):  # so that the last one stands for all
        found[one].add(following)
    if failing:
        assert all(failing[-1] < update for update in updates), works[failing[-1]].label
        found[failing[-1]].update(updates)
    return [sorted(one - {number}) for number, one in enumerate(found)]


def _in_order(after: Sequence[Sequence[int]], key: Callable[[int], int]) -> list[int]:
    """All numbers, each after those before it, the smallest key first."""
    waiting = Counter(number for one in after for number in one)
    ready = [(key(number), number) for number in range(len(after)) if not waiting[number]]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        found.append(number)
        for following in after[number]:
            waiting[following] -= 1
            if not waiting[following]:
                heapq.heappush(ready, (key(following), following))
    return found


class _FreeingEarly:
    """The order in which a work that frees more than it takes runs as soon as it can.

    One counts `together` with those of the works after it that it alone makes possible: a gradient
    with the update that uses it up.  The others stay in the order in which they are.  `outside` are
    values that take no scratch memory.
    """

    def __init__(
        self,
        lives: Lives,
        after: Sequence[Sequence[int]],
        outside: Collection[Node],
        together: Sequence[Sequence[int]],
    ) -> None:
        self.lives, self.after, self.together = lives, after, together
        self.before: list[list[int]] = [[] for _ in after]
        for number, following in enumerate(after):
            for one in following:
                self.before[one].append(number)
        self.waiting = [len(one) for one in self.before]
        self.nbytes = {
            life: 0 if life.node in outside else int(life.node.type.nbytes)
            for written in lives.writes
            for life in written
        }
        self.readers: dict[Life, set[int]] = defaultdict(set)
        for number, read in enumerate(lives.reads):
            for life in read:
                self.readers[life].add(number)
        self.done: set[int] = set()
        self.ready: list[tuple[int, int, int]] = []

    def order(self) -> list[int]:
        """The numbers of the works."""
        found: list[int] = []
        for number in range(len(self.after)):
            self._offer(number)
        while self.ready:
            entry = heapq.heappop(self.ready)
            number = entry[-1]
            if number in self.done:
                continue
            if entry != self._entry(number):
                self._offer(number)
                continue
            found.append(number)
            self._finish(number)
        return found

    def _finish(self, number: int) -> None:
        """The work is done; what it was in the way of is offered."""
        self.done.add(number)
        for life in self.lives.reads[number]:
            left = self.readers[life]
            left.discard(number)
            if len(left) == 1:
                self._offer_with_causes(*left)
        for following in self.after[number]:
            self.waiting[following] -= 1
            if self.waiting[following] < 2:
                self._offer_with_causes(following)

    def _offer_with_causes(self, number: int) -> None:
        """The work, and the one it may still wait for, count differently now."""
        self._offer(number)
        if self.waiting[number] == 1:
            for one in self.before[number]:
                if one not in self.done:
                    self._offer(one)

    def _offer(self, number: int) -> None:
        if not self.waiting[number] and number not in self.done:
            heapq.heappush(self.ready, self._entry(number))

    def _entry(self, number: int) -> tuple[int, int, int]:
        """What it takes, if less than it frees: alone, and together; and its place in the order.

        What frees memory by itself comes first: the others take some before.
        """
        enabled = (one for one in self.together[number] if self.waiting[one] == 1)
        alone = self._net(number)
        more = sum(min(self._net(one), 0) for one in enabled)
        return min(alone, 0), min(alone + more, 0), number

    def _net(self, number: int) -> int:
        """The bytes that a work takes, less those that nobody needs after it."""
        taken = sum(self.nbytes[life] for life in self.lives.writes[number])
        mine = (life for life in self.lives.reads[number] if self.readers[life] == {number})
        return taken - sum(self.nbytes.get(life, 0) for life in mine)
