"""Chains with their backward pass: the best persistent schedule, by dynamic programming.

A chain is F0, F1, ..., each reading the one before, and as many nodes back, ..., B1, B0: Bi reads
Bi+1 and the values of Fi-1, of Fi, or of both.  A schedule is persistent if a value that was
stored stays until its backward node has run.  The best of these is found as Rotor does (Beaumont
and others, arXiv 1911.13214), so for equal nodes it is as good as Revolve's binomial schedule
(Griewank and Walther, ACM TOMS 26, 2000).  Schedules that drop a stored value earlier are rarely
cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.problem import Problem

MOST_LEVELS = 1_000  # of memory: where bytes have no such common unit, they are rounded up
MOST_WORK = 5e7  # levels times subchains times ways to part them: about two seconds
NEVER = 1 << 60

Array = np.ndarray


@dataclass(frozen=True)
class Chain:
    """`forward[i]` is Fi and `backward[i]` is Bi; -1 stands for a node that is not there, B0."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]


def chain_of(problem: Problem) -> Chain | None:
    """The chain that the program is, or None where it is something else."""
    n = problem.size
    half = (n + 1) // 2
    forward, back = problem.order[:half], problem.order[half:]
    backward = (*([-1] * (n % 2)), *reversed(back))
    if n < 2 or problem.once or problem.before or problem.kept != {problem.order[-1]}:
        return None
    for at, node in enumerate(forward):
        if problem.inputs[node] != forward[max(at - 1, 0) : at]:
            return None
    for at, node in enumerate(backward):
        if node < 0:
            continue
        after = backward[at + 1] if at + 1 < half else forward[at]
        allowed = {after, forward[at], *forward[max(at - 1, 0) : at]}
        if after not in problem.inputs[node] or not allowed.issuperset(problem.inputs[node]):
            return None
    return Chain(forward, backward)


def best_of_chain(problem: Problem) -> tuple[int, ...] | None:
    """The cheapest persistent schedule within the budget, where the program is a chain; None where
    it is none, or too long, or where no such schedule fits."""
    return ChainSchedules().best(problem)


class ChainSchedules:
    """Schedules of one chain for many budgets: what is computed for one serves others below it."""

    def __init__(self) -> None:
        self._known: _Programming | None = None

    def best(self, problem: Problem) -> tuple[int, ...] | None:
        """See `best_of_chain`; the problem differs from others before in its budget alone."""
        budget = problem.budget_nbytes
        known = self._known
        if known is None or not known.budget // 2 < budget <= known.budget:  # finer for less
            chain = chain_of(problem)
            if chain is None:
                return None
            length = len(chain.forward)
            levels = int(min(MOST_LEVELS, 6 * MOST_WORK / length**3))
            if levels < 2 * length:
                return None
            known = self._known = _Programming(problem, chain, levels)
        return known.schedule(budget)


class _Programming:
    """`costs[s, t, 0][m]` is the least cost of running Bt, ..., Bs in m units of memory beside the
    value of F(s-1), which is there; the value of B(t+1) is there, too, and counts.  With 1 for 0,
    the value of Ft is there and counts as well."""

    def __init__(self, problem: Problem, chain: Chain, levels: int) -> None:
        self.chain = chain
        self.length = len(chain.forward)
        self.budget = budget = problem.budget_nbytes
        common = max(1, math.gcd(*problem.nbytes, *problem.workspace))
        self.unit = max(common, -(-budget // levels))
        self.levels = budget // self.unit
        self.value = [self.units(problem.nbytes[v]) for v in chain.forward]
        self.space = [self.units(problem.workspace[v]) for v in chain.forward]
        self.cost = [problem.cost[v] for v in chain.forward]
        there = [v >= 0 for v in chain.backward]
        back = [max(v, 0) for v in chain.backward]
        pairs = list(zip(back, there, strict=True))
        self.gradient = [self.units(problem.nbytes[v]) if is_ else 0 for v, is_ in pairs] + [0]
        self.back_space = [self.units(problem.workspace[v]) if is_ else 0 for v, is_ in pairs]
        self.back_cost = [problem.cost[v] if is_ else 0 for v, is_ in pairs]
        self.reads_own = [
            is_ and one in problem.inputs[v]
            for (v, is_), one in zip(pairs, chain.forward, strict=True)
        ]
        self.costs: dict[tuple[int, int, int], Array] = {}
        self._fill()

    def units(self, nbytes: int) -> int:
        return -(-nbytes // self.unit)

    def _fill(self) -> None:
        for span in range(self.length):
            for s in range(self.length - span):
                for held in (0, 1):
                    ways = [found for *_, found in self.ways(s, s + span, held)]
                    self.costs[s, s + span, held] = np.minimum.reduce(ways)

    def schedule(self, budget: int) -> tuple[int, ...] | None:
        """The best schedule within a budget, at most that of the problem."""
        levels = budget // self.unit
        if self.costs[0, self.length - 1, 0][levels] >= NEVER:
            return None
        return tuple(self._follow(levels))

    def ways(self, s: int, t: int, held: int) -> Iterator[tuple[int, int, Array]]:
        """For each way to run Bt, ..., Bs, the least cost for each memory.

        -1 stores Fs, or for s == t runs it if it is needed.  j in s, ..., t - 1 runs Fs to Fj and
        stores only that: until Bj has run (1), or Bj+1 (0), the second number says.
        """
        if s == t:
            yield -1, 0, self.alone(s, held)
            return
        beside = self.value[t] * held
        # Fs is stored until Bs has run.
        need = max(self.at_forward(s, s, t) + beside, self.at_backward(s))
        inner = self.shifted(self.costs[s + 1, t, held], self.value[s])
        yield -1, 0, self.from_level(inner + (self.cost[s] + self.back_cost[s]), need)
        walked = need = 0
        for j in range(s, t):
            walked += self.cost[j]
            need = max(need, self.at_forward(s, j, t) + beside)
            inner = self.shifted(self.costs[j + 1, t, held], self.value[j]) + walked
            for stays in (0, 1):
                yield j, stays, self.from_level(inner + self.costs[s, j, stays], need)

    def alone(self, s: int, held: int) -> Array:
        """Bs behind Fs, which runs if it is needed."""
        runs = self.runs(s, held)
        need = max(self.at_forward(s, s, s) if runs else 0, self.at_backward(s))
        cost = self.back_cost[s] + (self.cost[s] if runs else 0)
        return self.from_level(np.full(self.levels + 1, cost), need)

    def runs(self, s: int, held: int) -> bool:
        """Whether Fs runs right before Bs: it is not there, and read, or it has never run."""
        return not held and (self.reads_own[s] or s == self.length - 1)

    def at_forward(self, s: int, j: int, t: int) -> int:
        """What is in use while Fj runs, on the way from F(s-1) with the value of B(t+1) there."""
        before = self.value[j - 1] if j > s else 0
        return before + self.value[j] + self.space[j] + self.gradient[t + 1]

    def at_backward(self, s: int) -> int:
        own = self.value[s] if self.reads_own[s] else 0
        return own + self.gradient[s] + self.gradient[s + 1] + self.back_space[s]

    def shifted(self, costs: Array, units: int) -> Array:
        """The costs if so many units are taken by something else."""
        found = np.full(self.levels + 1, NEVER)
        if units <= self.levels:
            found[units:] = costs[: self.levels + 1 - units]
        return found

    def from_level(self, costs: Array, need: int) -> Array:
        """The costs where there are as many units as are needed."""
        found = np.minimum(costs, NEVER)
        found[:need] = NEVER
        return found

    def _follow(self, levels: int) -> Iterator[int]:
        """The executions of the best schedule in so many units."""
        forward, backward = self.chain.forward, self.chain.backward
        pending = [(0, self.length - 1, 0, levels)]
        while pending:
            s, t, held, memory = pending.pop()
            if t < 0:  # of the subchain, only its last backward node is left
                if backward[s] >= 0:
                    yield backward[s]
                continue
            costs = self.costs[s, t, held][memory]
            way, stays, _ = next(one for one in self.ways(s, t, held) if one[2][memory] == costs)
            if s == t:
                if self.runs(s, held):
                    yield forward[s]
                pending.append((s, -1, 0, memory))
            elif way < 0:
                yield forward[s]
                pending.append((s, -1, 0, memory))
                pending.append((s + 1, t, held, memory - self.value[s]))
            else:
                yield from forward[s : way + 1]
                pending.append((s, way, stays, memory))
                pending.append((way + 1, t, held, memory - self.value[way]))
