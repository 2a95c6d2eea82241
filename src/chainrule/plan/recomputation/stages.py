"""Parts a training step into stages: nodes that run forward one after another, and those that run
backward and read what they save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.cuts import cuts
from chainrule.plan.recomputation.keepings import Inside
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import lives, measured

TINY = 16  # times as large as a tiny value, which stays, is a mean one
SLACK = 3  # stages before its own, by whose way back a value has been read last


@dataclass(frozen=True)
class Stage:
    """Places in the initial order that run forward one after another, and those that run backward.

    `values` are those that can be computed again, numbered in `inside`.  On its way back,
    `backward_nbytes` are in use at most, and `gradient_nbytes` when it begins; what other stages
    can compute again does not count.
    """

    forward: range
    backward: range
    values: tuple[int, ...]
    inside: Inside
    backward_nbytes: int
    gradient_nbytes: int


def stages_of(problem: Problem) -> list[Stage]:
    """The stages, in the order in which they run forward; none where there are no two."""
    return list(_Parted(problem).stages())


class _Parted:
    """The initial order, cut into stages; places are numbers in that order."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.order = problem, problem.order
        self.ends = lives(problem, self.order)
        self.place = {node: at for at, node in enumerate(self.order)}
        # The way back begins where most is there that can be computed again.
        alive = self._alive(v for v in self.order if v not in problem.once | problem.kept)
        self.turn = int(np.argmax(alive)) if self.order else 0
        self.begins = [0, *cuts(problem, self.turn, self.ends), self.turn]
        self.count = len(self.begins) - 1
        self.stage: dict[int, int] = {}  # of each node that runs forward
        self.insides: dict[Inside, Inside] = {}  # stages that are alike share one
        for number in range(self.count):
            self.stage |= dict.fromkeys(self._forward(number), number)

    def stages(self) -> Iterator[Stage]:
        """All of them, the first first."""
        if self.count < 2:
            return
        values = self._values()
        bounds = self._bounds(values)
        values = [self._near(found, number, bounds) for number, found in enumerate(values)]
        usage = np.array(measured(self.problem, self.order).usage)
        other = usage - self._alive(node for nodes in values for node in nodes)
        for number, nodes in enumerate(values):
            yield self._stage(number, nodes, range(bounds[number + 1], bounds[number]), other)

    def _forward(self, number: int) -> Sequence[int]:
        """The nodes of a stage that run forward."""
        return self.order[self.begins[number] : self.begins[number + 1]]

    def _values(self) -> list[list[int]]:
        """Of each stage, the values that can be computed again, unless they are tiny, or read far
        from where they are made."""
        problem = self.problem
        mean = sum(problem.nbytes[node] for node in self.order[: self.turn]) / self.turn
        first = [self.turn] * (self.count + 1)  # place on the way back that reads of a stage
        found: list[list[int]] = []
        for number in reversed(range(self.count)):
            again = [
                node
                for node in self._forward(number)
                if node not in problem.once
                and node not in problem.kept
                and problem.nbytes[node] * TINY > mean
                and all(self.stage.get(one, number) <= number + 1 for one in problem.readers[node])
            ]
            found.append(again)
            reads = (self.place[one] for node in again for one in problem.readers[node])
            earliest = min((at for at in reads if at >= self.turn), default=self.turn)
            first[number] = max(earliest, first[number + 1])
        limits = [len(self.order)] * SLACK + first
        return [
            [node for node in nodes if self.ends[self.place[node]] <= limit]
            for nodes, limit in zip(reversed(found), limits, strict=False)
        ]

    def _bounds(self, values: Sequence[Iterable[int]]) -> list[int]:
        """Where the way back of each stage ends, and at last, where that of the last begins."""
        found = [self.turn]
        for nodes in reversed(values[1:]):
            found.append(max(found[-1], *(self.ends[self.place[node]] + 1 for node in nodes), 0))
        return [len(self.order), *reversed(found)]

    def _near(self, values: Iterable[int], number: int, bounds: Sequence[int]) -> list[int]:
        """Those values of a stage which only the next one reads besides."""
        begin = bounds[min(number + 2, self.count)]
        reads = ((v, [self.place[one] for one in self.problem.readers[v]]) for v in values)
        return [v for v, found in reads if not any(self.turn <= at < begin for at in found)]

    def _stage(
        self, number: int, nodes: Sequence[int], backward: range, other: np.ndarray
    ) -> Stage:
        problem, begin, end = self.problem, backward.start, self.begins[number + 1]
        within = {node: at for at, node in enumerate(nodes)}
        reads = [[self.place[one] for one in problem.readers[node]] for node in nodes]
        inside = Inside(
            tuple(problem.nbytes[node] for node in nodes),
            tuple(problem.cost[node] for node in nodes),
            tuple(problem.workspace[node] for node in nodes),
            tuple(tuple(within[u] for u in problem.inputs[v] if u in within) for v in nodes),
            frozenset(v for v, found in enumerate(reads) if any(end <= at < begin for at in found)),
            frozenset(v for v, found in enumerate(reads) if any(at >= begin for at in found)),
        )
        use = other[begin : backward.stop].copy()
        for node in nodes:
            use[: max(self.ends[self.place[node]] + 1 - begin, 0)] += problem.nbytes[node]
        gradient = 0
        if begin < len(self.order):
            first = self.order[begin]
            gradient = int(other[begin]) - problem.workspace[first] - problem.nbytes[first]
        most = int(use.max(initial=0))
        inside = self.insides.setdefault(inside, inside)
        return Stage(self._places(number), backward, tuple(nodes), inside, most, max(gradient, 0))

    def _places(self, number: int) -> range:
        return range(self.begins[number], self.begins[number + 1])

    def _alive(self, values: Iterable[int]) -> np.ndarray:
        """At each place, the bytes of such values."""
        change = np.zeros(len(self.order) + 1, np.int64)
        for node in values:
            at = self.place[node]
            change[at] += self.problem.nbytes[node]
            change[self.ends[at] + 1] -= self.problem.nbytes[node]
        return np.cumsum(change)[:-1]
