"""In which order the vertices of a scope come, what belongs to the flow, and what hangs on it."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.layout.grid import Task, adjacency
from chainrule.explain.drawing.layout.scopes import Kind


@dataclass(frozen=True)
class Flow:
    """`order` is topological over `forward`, the connections that do not lead back.

    `host` gives for every attached source the vertex on which it hangs; `flows` says of a vertex
    that something reaches it that is not beside the flow.
    """

    order: tuple[int, ...]
    forward: tuple[int, ...]
    back: tuple[int, ...]
    incoming: list[list[int]]
    outgoing: list[list[int]]
    flows: list[bool]
    host: dict[int, int]


def flow_of(task: Task) -> Flow:
    """Reads the connections of a scope; each host comes before whatever else its leaves feed."""
    order = _order(task)
    position = {vertex: place for place, vertex in enumerate(order)}
    ahead = [position[one.start] < position[one.end] for one in task.connections]
    forward = tuple(number for number, is_ahead in enumerate(ahead) if is_ahead)
    back = tuple(number for number, is_ahead in enumerate(ahead) if not is_ahead)
    incoming, outgoing = adjacency(task, forward)
    flows = [not incoming[v] and not task.beside[v] for v in range(len(order))]
    for vertex in order:
        flows[vertex] = flows[vertex] or any(
            flows[task.connections[number].start] for number in incoming[vertex]
        )
    rank = _ranks(task, order, incoming, flows)
    host = _hosts(task, incoming, outgoing, rank)
    order.sort(key=lambda vertex: (*rank[vertex], vertex))
    return Flow(tuple(order), forward, back, incoming, outgoing, flows, host)


def _order(task: Task) -> list[int]:
    """Topological, earlier vertices first; where scopes go round in a ring, it is cut."""
    count = len(task.kinds)
    incoming, outgoing = adjacency(task, range(len(task.connections)))
    missing = [len(several) for several in incoming]
    ready = [vertex for vertex in range(count) if not missing[vertex]]
    heapify(ready)
    done = [False] * count
    order: list[int] = []
    earliest = 0
    while len(order) < count:
        if ready:
            vertex = heappop(ready)
        else:
            while done[earliest]:
                earliest += 1
            vertex = earliest
        if done[vertex]:
            continue
        done[vertex] = True
        order.append(vertex)
        for number in outgoing[vertex]:
            end = task.connections[number].end
            missing[end] -= 1
            if not missing[end]:
                heappush(ready, end)
    return order


def is_leaf(task: Task, incoming: Sequence[Sequence[int]], vertex: int) -> bool:
    """Whether a vertex is beside the flow, so that it can hang on another."""
    return task.beside[vertex] and task.kinds[vertex] is not Kind.ENTRY and not incoming[vertex]


def _ranks(
    task: Task, order: Sequence[int], incoming: Sequence[Sequence[int]], flows: Sequence[bool]
) -> list[tuple[bool, int]]:
    """Whether a vertex needs one that is computed from leaves alone; and its column without leaves.

    Connections between others than leaves never lead to a lower rank.
    """
    rank = [(False, 0)] * len(order)
    for vertex in order:
        inputs = [task.connections[number].start for number in incoming[vertex]]
        columns = [0]
        columns += [rank[one][1] + 1 for one in inputs if not is_leaf(task, incoming, one)]
        aside = bool(inputs) and not flows[vertex]
        rank[vertex] = (aside or any(rank[one][0] for one in inputs), max(columns))
    return rank


def _hosts(
    task: Task,
    incoming: Sequence[Sequence[int]],
    outgoing: Sequence[Sequence[int]],
    rank: Sequence[tuple[bool, int]],
) -> dict[int, int]:
    """Each leaf hangs on the item that reads it first, unless several do so at the same time."""
    found = {}
    for leaf in range(len(rank)):
        if not is_leaf(task, incoming, leaf) or not outgoing[leaf]:
            continue
        readers = {task.connections[number].end for number in outgoing[leaf]}
        least = min(rank[one] for one in readers)
        first = [one for one in readers if rank[one] == least]
        if len(first) == 1 and task.kinds[first[0]] is Kind.ITEM:
            found[leaf] = first[0]
    return found
