"""Cuts nodes along one order into stages whose devices differ: loads in proportion to what they do.

`chainrule.plan.split` finds the best stages for devices that are alike.  Here each stage has a
device of its own, in their order, so a split is a list of places to cut; the least largest load is
found by bisection, each stage taking as many nodes as it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

ROUNDS = 60  # of the bisection: loads are known to the last bits


def cut_in_proportion(
    loads: Sequence[float],
    edges: Iterable[tuple[int, int]],
    sent: Sequence[float],
    slowness: Sequence[float],
) -> list[int]:
    """The stage of each node, which are in topological order, so that the largest load is least.

    Stage s takes `slowness[s]` times the loads of its nodes, and `sent[v]` for each value that
    comes to it from others, or that it sends on.
    """
    reads: list[set[int]] = [set() for _ in loads]
    last = list(range(len(loads)))  # that reads each value
    for u, v in edges:
        reads[v].add(u)
        last[u] = max(last[u], v)

    def longest(first: int, slow: float, limit: float) -> int:
        """Up to where a stage goes that begins with a node; that one where nothing fits."""
        work = entered = leaving = 0.0
        found, seen = first, set[int]()
        for at in range(first, len(loads)):
            work += slow * loads[at]
            for u in reads[at]:
                if u < first and u not in seen:
                    seen.add(u)
                    entered += sent[u]
                elif u >= first and last[u] == at:
                    leaving -= sent[u]
            if work + entered > limit:
                break
            if last[at] > at:
                leaving += sent[at]
            if work + entered + leaving <= limit:
                found = at + 1
        return found

    def ends(limit: float) -> list[int] | None:
        """Where stages end whose loads are within a limit; None where they are too many."""
        found, at = list[int](), 0
        for slow in slowness:
            at = longest(at, slow, limit)
            found.append(at)
        return found if at == len(loads) else None

    low, high = 0.0, min(slowness) * fsum(loads) + 2 * fsum(sent)
    best = ends(high)
    assert best is not None, "the quickest stage takes all that is left"
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        found = ends(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return [next(s for s, end in enumerate(best) if at < end) for at in range(len(loads))]
