"""The lightest vertices that part the sources of a graph from its sinks (Ford and Fulkerson, 1956).

The maximum flow has the weight of the least cut; it is found by shortest augmenting paths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

V = TypeVar("V", bound=Hashable)


def least_cut(
    weights: Mapping[V, int],
    edges: Iterable[tuple[V, V]],
    sources: Collection[V],
    sinks: Collection[V],
) -> list[V]:
    """The vertices without which no sink can be reached from any source, of the least weight in
    all, in the order of `weights`; of several such sets the nearest to the sinks.

    Vertices without a weight cannot be cut.  ValueError where the sinks cannot be parted off.
    """
    # Each vertex is two ends with an edge of its weight between them; None leads to all sources.
    rest: dict[Any, dict[Any, float]] = {None: {}}

    def joined(a: Any, b: Any, capacity: float) -> None:
        rest.setdefault(a, {})[b] = capacity
        rest.setdefault(b, {}).setdefault(a, 0)

    pairs = list(edges)
    for vertex in dict.fromkeys([*weights, *sources, *sinks, *(v for pair in pairs for v in pair)]):
        joined((vertex, 0), (vertex, 1), weights.get(vertex, inf))
    for a, b in pairs:
        joined((a, 1), (b, 0), inf)
    for vertex in sources:
        joined(None, (vertex, 0), inf)
    ends = {(vertex, 1) for vertex in sinks}
    while True:
        before = _reached(rest, ends)
        end = next((one for one in ends if one in before), None)
        if end is None:
            behind = _leading(rest, ends)
            return [one for one in weights if (one, 1) in behind and (one, 0) not in behind]
        path = [end]
        while path[-1] is not None:
            path.append(before[path[-1]])
        steps = [(b, a) for a, b in pairwise(path)]
        flow = min(rest[a][b] for a, b in steps)
        if flow == inf:
            raise ValueError("a source and a sink cannot be parted")
        for a, b in steps:
            rest[a][b] -= flow
            rest[b][a] += flow


def _reached(rest: Mapping[Any, Mapping[Any, float]], ends: Collection[Any]) -> dict[Any, Any]:
    """What can still be reached from all sources, and from where; as far as the first end."""
    before: dict[Any, Any] = {None: None}
    pending = deque([None])
    while pending:
        one = pending.popleft()
        for other, capacity in rest[one].items():
            if capacity and other not in before:
                before[other] = one
                if other in ends:
                    return before
                pending.append(other)
    return before


def _leading(rest: Mapping[Any, Mapping[Any, float]], ends: Collection[Any]) -> set[Any]:
    """What still leads to an end."""
    found = {end for end in ends if end in rest}
    pending = [*found]
    while pending:
        one = pending.pop()
        more = [other for other in rest[one] if rest[other][one] and other not in found]
        found.update(more)
        pending += more
    return found
