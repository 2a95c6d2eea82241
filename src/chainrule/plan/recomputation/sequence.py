"""What a sequence of executions costs and needs, counted plainly: the referee of every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainrule.plan.recomputation.problem import Problem


@dataclass(frozen=True)
class Measured:
    """`usage[t]` are the bytes that are in use while position t of the sequence executes: all
    values that are alive, its own included, and its workspace."""

    cost: int
    peak_nbytes: int
    usage: tuple[int, ...]


def fault(problem: Problem, sequence: Sequence[int]) -> str | None:
    """Why the sequence does not compute the program, or None: the budget is not asked."""
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
    ends = list(range(len(sequence)))
    made: dict[int, int] = {}
    for at, node in enumerate(sequence):
        for u in problem.inputs[node]:
            ends[made[u]] = at
        made[node] = at
    for node in problem.kept:
        ends[made[node]] = len(sequence) - 1
    return ends


def measured(problem: Problem, sequence: Sequence[int]) -> Measured:
    """What a valid sequence costs, and the bytes that it needs."""
    ends = lives(problem, sequence)
    changes = [0] * (len(sequence) + 1)
    for at, node in enumerate(sequence):
        changes[at] += problem.nbytes[node]
        changes[ends[at] + 1] -= problem.nbytes[node]
    usage, alive = [], 0
    for at, node in enumerate(sequence):
        alive += changes[at]
        usage.append(alive + problem.workspace[node])
    cost = sum(problem.cost[node] for node in sequence)
    return Measured(cost, max(usage, default=0), tuple(usage))


def without_useless(problem: Problem, sequence: Sequence[int]) -> tuple[int, ...]:
    """The sequence less the executions whose value nobody needs; each node keeps one.

    What remains is valid if the sequence was; neither its cost nor its peak is larger.
    """
    current = tuple(sequence)
    while True:
        ends = lives(problem, current)
        last = {node: at for at, node in enumerate(current)}
        useful = [ends[at] > at for at in range(len(current))]
        for node in problem.kept:
            useful[last[node]] = True
        served = {node for at, node in enumerate(current) if useful[at]}
        for node, at in last.items():
            if node not in served:
                useful[at] = True
        if all(useful):
            return current
        current = tuple(node for at, node in enumerate(current) if useful[at])
