"""What a sequence of executions costs and needs, counted from its lives: the referee of every
method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.plan.recomputation.arrays import Array
from chainrule.plan.recomputation.problem import Problem


@dataclass(frozen=True)
class Measured:
    """`usage[t]` are the bytes that are in use while position t of the sequence executes: all
    values that are alive, its own included, and its workspace."""

    cost: int
    peak_nbytes: int
    usage: tuple[int, ...]


class _Executions:
    """The executions of each node, in order: of which of them each read is."""

    def __init__(self, problem: Problem, sequence: Sequence[int] | Array) -> None:
        self.problem = problem
        self.nodes = np.array(sequence, np.int64)
        self.length = len(self.nodes)
        self.by_node = np.argsort(self.nodes, kind="stable")
        counts = np.bincount(self.nodes, minlength=problem.size)
        self.counts, self.ends = counts, np.cumsum(counts)
        self.reader, self.read = problem.arrays.inputs.of(self.nodes)

    @property
    def first(self) -> Array:
        """Of each node, the position of the first."""
        return self.by_node[self.ends - self.counts]

    @property
    def last(self) -> Array:
        """Of each node, the position of the last."""
        return self.by_node[self.ends - 1]

    def made(self) -> Array:
        """For each read of a valid sequence, the position that made what is read."""
        moments = self.nodes[self.by_node] * self.length + self.by_node
        asked = self.read * self.length + self.reader
        return self.by_node[np.searchsorted(moments, asked) - 1]

    def needed_until(self) -> Array:
        """For each position, the last that needs what it makes; see `lives`."""
        until = np.arange(self.length)
        until[self.made()] = self.reader  # of several readers, the last stays
        until[self.last[self.problem.arrays.kept == 1]] = self.length - 1
        return until

    def useful(self, until: Array) -> Array:
        """Which of them are needed, as `needed_until` says, or the last of their node."""
        useful = until > np.arange(self.length)
        useful[self.last[self.problem.arrays.kept == 1]] = True
        served = np.bincount(self.nodes, useful, minlength=self.problem.size) > 0
        useful[self.last[~served]] = True
        return useful

    def measured(self, until: Array) -> Measured:
        """What they cost and need, where values are needed until then."""
        arrays, nodes = self.problem.arrays, self.nodes
        nbytes = arrays.nbytes[nodes]
        change = np.append(nbytes, 0)
        np.subtract.at(change, until + 1, nbytes)
        usage = np.cumsum(change)[:-1] + arrays.workspace[nodes]
        cost = sum(map(self.problem.cost.__getitem__, nodes.tolist()))
        return Measured(cost, int(usage.max(initial=0)), tuple(usage.tolist()))

    def is_valid(self) -> bool:
        """Whether they compute the program."""
        arrays = self.problem.arrays
        if self.counts.min(initial=1) < 1 or self.counts[arrays.once == 1].max(initial=1) > 1:
            return False
        first, last = self.first, self.last
        before, after = arrays.before
        return bool((first[self.read] < self.reader).all() and (last[before] < first[after]).all())


def fault(problem: Problem, sequence: Sequence[int]) -> str | None:
    """Why the sequence does not compute the program, or None: the budget is not asked."""
    return None if _Executions(problem, sequence).is_valid() else _fault(problem, sequence)


def _fault(problem: Problem, sequence: Sequence[int]) -> str | None:
    """The same, position by position."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, node in enumerate(sequence):
        missing = next((u for u in problem.inputs[node] if u not in first), None)
        if missing is not None:
            return f"position {at} executes {node}, which reads {missing}, and that has not run"
        if node in first and node in problem.once:
            return f"position {at} executes {node} again, which may run only once"
        first.setdefault(node, at)
        last[node] = at
    for node in range(problem.size):
        if node not in first:
            return f"node {node} is not executed"
    for u, v in problem.before:
        if last[u] > first[v]:
            return f"position {last[u]} executes {u}, after {v} has run"
    return None


def lives(problem: Problem, sequence: Sequence[int]) -> list[int]:
    """For each position of a valid sequence, the last at which the value made there is needed.

    A read is of the last execution before it; the last life of a value that is kept goes on to
    the end of the sequence.
    """
    return _Executions(problem, sequence).needed_until().tolist()


def measured(problem: Problem, sequence: Sequence[int]) -> Measured:
    """What a valid sequence costs, and the bytes that it needs."""
    found = _Executions(problem, sequence)
    return found.measured(found.needed_until())


def useful_part(
    problem: Problem, sequence: Sequence[int]
) -> tuple[tuple[int, ...], Measured] | None:
    """The sequence less the executions whose value nobody needs, and what it costs and needs; each
    node keeps one.  None where the sequence does not compute the program.

    What remains is valid; neither its cost nor its peak is larger.
    """
    found = _Executions(problem, sequence)
    if not found.is_valid():
        return None
    while True:
        until = found.needed_until()
        useful = found.useful(until)
        if useful.all():
            return tuple(found.nodes.tolist()), found.measured(until)
        found = _Executions(problem, found.nodes[useful])


def without_useless(problem: Problem, sequence: Sequence[int]) -> tuple[int, ...]:
    """The same of a sequence that is valid."""
    found = useful_part(problem, sequence)
    assert found is not None
    return found[0]
