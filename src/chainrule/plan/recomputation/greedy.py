"""Follows the initial order, evicts values where the budget is reached, and computes them again
where they are read: the quick start of the search, and a baseline.

The rule which value goes first is that of dynamic tensor rematerialization (Kirisame and others,
ICLR 2021), with the distance to the next read, which is known here, for the staleness.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import without_useless

MOST_REPEATS = 4  # executions, in all, for each node: a thrashing walk is given up,
MOST_LOOKS = 200_000_000  # and one that looks at too many values for what to evict: some seconds
LOOK, VISIT = 1, 40  # what it costs to look at a value in an array, and to follow a read


@dataclass(frozen=True)
class Weights:
    """How much the bytes, the distance to the next read, and the cost count: exponents."""

    nbytes: float
    distance: float
    cost: float


RULES = (
    Weights(nbytes=1, distance=1, cost=1),
    Weights(nbytes=0, distance=1, cost=0),
    Weights(nbytes=1, distance=1, cost=0),
    Weights(nbytes=1, distance=0, cost=1),
)


def greedy(problem: Problem, weights: Weights) -> tuple[int, ...] | None:
    """A valid sequence within the budget, or None where this rule finds none."""
    walk = Walk(problem, weights)
    for at, node in enumerate(problem.order):
        walk.now = at
        if not walk.advance(node):
            return None
    if not walk.finish():
        return None
    return without_useless(problem, walk.sequence)


class Walk:
    """The state on the way through the order: what is there, and where it is read next."""

    def __init__(self, problem: Problem, weights: Weights) -> None:
        self.problem = problem
        self.sequence: list[int] = []
        self.now = 0
        self.looks = 0
        size = problem.size
        # One by one, bytes are read faster than elements of NumPy, which sees the same memory.
        self.resident = bytearray(size)
        self.alive_nbytes = 0
        self.place = [0] * size
        for at, node in enumerate(problem.order):
            self.place[node] = at
        self.reads_at = [sorted(self.place[w] for w in problem.readers[v]) for v in range(size)]
        # Of values that are needed: where they are read next.  The end, for those that are kept.
        self.next_read = array("q", [-1] * size)
        nbytes = np.maximum(np.array(problem.nbytes, float), 1e-9)
        cost = np.array(problem.cost, float) + 1e-6 * (1 + problem.plain_cost) / (size or 1)
        self.merit = nbytes**weights.nbytes / cost**weights.cost
        self.distance = weights.distance
        self.evictable = nbytes >= 1
        self.may_run_again = bytearray([1]) * size
        self.blocked = bytearray(size)  # computed from what may not run again
        self.runs_no_more(problem.once)
        self.residents = np.frombuffer(self.resident, bool)
        self.able = np.frombuffer(self.may_run_again, bool)
        self.next_reads = np.frombuffer(self.next_read, np.int64)

    def advance(self, node: int) -> bool:
        """Execute the node, and before it all that has to be computed again for it."""
        if not self.compute(node):
            return False
        self.runs_no_more(self.problem.earlier[node])
        for u in (*self.problem.inputs[node], node):
            self.set_next_read(u)
            if self.next_read[u] < 0:
                self.drop(u)
        return True

    def finish(self) -> bool:
        """Compute again what is kept, and was evicted after its last read."""
        self.now = self.problem.size
        kept = sorted(self.problem.kept)
        self.evictable[kept] = False
        return all(self.resident[v] or (self.may_run_again[v] and self.compute(v)) for v in kept)

    def runs_no_more(self, nodes: Iterable[int]) -> None:
        """These may not run again."""
        pending = list(nodes)
        for node in pending:
            self.may_run_again[node] = False
        while pending:
            node = pending.pop()
            if not self.blocked[node]:
                self.blocked[node] = True
                pending += self.problem.readers[node]

    def set_next_read(self, u: int) -> None:
        """Where the main walk reads u after this moment."""
        reads = self.reads_at[u]
        at = bisect_right(reads, self.now)
        kept = self.problem.size if u in self.problem.kept else -1
        self.next_read[u] = reads[at] if at < len(reads) else kept

    def compute(self, target: int) -> bool:
        """Execute the target, and first, depth first, what it reads and is not there."""
        problem = self.problem
        pinned: dict[int, int] = {}
        stack = [(target, iter(problem.inputs[target]))]
        self.pin(target, pinned)
        while stack:
            node, rest = stack[-1]
            missing = next((u for u in rest if not self.resident[u]), None)
            if missing is not None:
                if not self.may_run_again[missing]:
                    return False
                self.pin(missing, pinned)
                stack.append((missing, iter(problem.inputs[missing])))
                continue
            if not self.run(node, pinned):
                return False
            stack.pop()
            for u in (node, *problem.inputs[node]):
                pinned[u] -= 1
                unused = not pinned[u] and self.next_read[u] < 0 and u != target
                if unused and self.resident[u]:
                    self.drop(u)
        return True

    def pin(self, node: int, pinned: dict[int, int]) -> None:
        """What a node reads, and its value until it is read, stays."""
        for u in (node, *self.problem.inputs[node]):
            pinned[u] = pinned.get(u, 0) + 1

    def run(self, node: int, pinned: dict[int, int]) -> bool:
        """Execute one node whose inputs are there, with room made for it."""
        problem = self.problem
        more = problem.nbytes[node] + problem.workspace[node]
        if not self.make_room(problem.budget_nbytes - more, pinned):
            return False
        if len(self.sequence) > MOST_REPEATS * problem.size or self.looks > MOST_LOOKS:
            return False
        self.sequence.append(node)
        self.resident[node] = True
        self.alive_nbytes += problem.nbytes[node]
        return True

    def make_room(self, allowed: int, pinned: dict[int, int]) -> bool:
        """Evict until no more than the allowed bytes are in use; False where that cannot be."""
        if self.alive_nbytes <= allowed:
            return True
        self.looks += LOOK * self.problem.size
        evictable = self.evictable & self.able
        candidates = np.flatnonzero(self.residents & evictable & (self.next_reads >= 0))
        score = self.merit[candidates]
        if self.distance:
            distance = np.maximum(self.next_reads[candidates] - self.now, 1)
            score = score * (distance if self.distance == 1 else distance**self.distance)
        for u in candidates[np.argsort(-score, kind="stable")].tolist():
            if not pinned.get(u) and self.recoverable(u):
                self.drop(u)
                if self.alive_nbytes <= allowed:
                    return True
        return False

    def recoverable(self, node: int) -> bool:
        """Whether a value, once evicted, can be computed from what is there."""
        if not self.blocked[node]:
            self.looks += VISIT
            return True
        pending, seen = [node], {node}
        while pending:
            self.looks += VISIT
            one = pending.pop()
            if not self.blocked[one]:
                continue
            if not self.may_run_again[one]:
                return False
            for u in self.problem.inputs[one]:
                if not self.resident[u] and u not in seen:
                    seen.add(u)
                    pending.append(u)
        return True

    def drop(self, node: int) -> None:
        self.resident[node] = False
        self.alive_nbytes -= self.problem.nbytes[node]
