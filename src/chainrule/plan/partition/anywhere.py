"""A split whose stages need no order: from the contiguous one, or from any that fits."""

from __future__ import annotations

from chainrule.plan.partition.exchange import exchanged
from chainrule.plan.partition.loads import bytes_of, loads
from chainrule.plan.partition.parts import Parts, parts_of
from chainrule.plan.partition.problem import Problem
from chainrule.plan.partition.search import Found, bound_of
from chainrule.plan.partition.stages import CLOSE, ENDLESS

MOVES = 40_000  # for each part


def anywhere(problem: Problem, start: Found | None, deadline: float, seed: int) -> Found | None:
    """The best split that simulated annealing finds; None where none fits into memory."""
    parts = parts_of(problem, False)
    load = ENDLESS if start is None else start.load
    bound = bound_of(problem, parts, load)
    place = {} if start is None else {v: d for d, row in enumerate(start.stages) for v in row}
    places = [place[nodes[0]] for nodes in parts.nodes] if start else _fitted(problem, parts)
    moves = MOVES * parts.size
    better = exchanged(problem, parts, places, load, bound, moves, deadline, seed)
    best = start
    if better is not None:
        found = parts.stage_of_nodes(better)
        rows = [[v for v in range(problem.size) if found[v] == d] for d in range(problem.places)]
        stages = tuple(tuple(row) for row in rows)
        fits = all(
            problem.is_host(d) or held <= problem.memory_nbytes[d]
            for d, held in enumerate(bytes_of(problem, stages))
        )
        assert fits
        best = Found(stages, (), max(loads(problem, stages)), bound, "simulated annealing")
    if best is None:
        return None
    bound = bound_of(problem, parts, best.load)
    proved = best.load if best.load <= bound * (1 + CLOSE) else bound
    strategy = best.strategy if better is not None else f"the contiguous split: {best.strategy}"
    return Found(best.stages, (), best.load, proved, strategy)


def _fitted(problem: Problem, parts: Parts) -> list[int]:
    """The largest parts first, each where most bytes are free."""
    free = [*problem.memory_nbytes, *(sum(parts.nbytes) + 1,) * problem.hosts]
    found = [0] * parts.size
    for a in sorted(range(parts.size), key=lambda one: -parts.nbytes[one]):
        found[a] = max(range(len(free)), key=lambda one: free[one])
        free[found[a]] -= parts.nbytes[a]
    return found
