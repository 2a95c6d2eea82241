"""The column of every vertex, the spine, and which vertex goes on in the row of which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.layout.flow import Flow
from chainrule.explain.drawing.layout.grid import Task
from chainrule.explain.drawing.layout.scopes import Kind


@dataclass(frozen=True)
class Columns:
    """`column` is the first one of each vertex; attached leaves stand `side` columns from their
    hosts.  `previous` is the vertex in whose row one goes on (-1: none), `end_of_run` the last
    column to which that row is wanted.  `amid` are the vertices that stand amid leaves."""

    count: int
    column: list[int]
    side: dict[int, int]
    spine: tuple[int, ...]
    previous: list[int]
    end_of_run: list[int]
    amid: dict[int, tuple[int, ...]]
    above: dict[int, int]


def columns_of(task: Task, flow: Flow) -> Columns:
    """Columns are longest distances from the sources; what only joins the spine comes late."""
    side = _sides(flow)
    amid = _amid(task, flow, side) if task.by_the_book else {}
    above = _above(task, flow, amid)
    column = _earliest(task, flow, side, amid, above)
    heir = _heirs(task, flow)
    spine = _spine(flow, heir)
    _pull(task, flow, column, side, {*spine, *amid, *above.values()})
    for leaf, host in flow.host.items():
        column[leaf] = column[host] + side[leaf]
    count = _last_column(task, column)
    previous = _previous(task, flow, column, heir, spine)
    runs = _ends_of_runs(task, flow, column, previous, count)
    return Columns(count, column, side, spine, previous, runs, amid, above)


def leaves_of(flow: Flow) -> dict[int, list[int]]:
    """The attached leaves of every host."""
    found: dict[int, list[int]] = {}
    for leaf, host in flow.host.items():
        found.setdefault(host, []).append(leaf)
    return found


def _sides(flow: Flow) -> dict[int, int]:
    """The first leaf stands above its host, others in the column before."""
    return {
        leaf: -1 if place else 0
        for several in leaves_of(flow).values()
        for place, leaf in enumerate(several)
    }


def _amid(task: Task, flow: Flow, side: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """What two or three leaves of others feed, and nothing else, stands amid them.

    On hosts with two leaves, that leaf stands at the side which faces the vertex.
    """
    leaves = leaves_of(flow)
    found: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for vertex in flow.order:
        inputs = [task.connections[number].start for number in flow.incoming[vertex]]
        hosts = {flow.host.get(leaf, vertex) for leaf in inputs}
        crowded = any(len(leaves.get(host, ())) > 2 for host in hosts)
        if not 2 <= len(inputs) <= 3 or len(hosts) < len(inputs) or vertex in hosts:
            continue
        if crowded or vertex in leaves or taken & {*inputs}:
            continue
        found[vertex] = tuple(inputs)
        taken.update(inputs)
    return found


def _above(task: Task, flow: Flow, amid: dict[int, tuple[int, ...]]) -> dict[int, int]:
    """The result of a vertex amid leaves, where it has one, stands straight above it."""
    found = {}
    for vertex in amid:
        ends = [task.connections[number].end for number in flow.outgoing[vertex]]
        if len(ends) == 1 and len(flow.incoming[ends[0]]) == 1:
            if task.kinds[ends[0]] is Kind.ITEM:
                found[vertex] = ends[0]
    return found


def _earliest(
    task: Task,
    flow: Flow,
    side: dict[int, int],
    amid: dict[int, tuple[int, ...]],
    above: dict[int, int],
) -> list[int]:
    """Longest distances; leaves are where their hosts are.  Settles the sides of leaves too."""
    leaves = leaves_of(flow)
    column = [0] * len(flow.order)
    below = {result: vertex for vertex, result in above.items()}
    for vertex in flow.order:
        if vertex in amid:
            column[vertex] = _middle(amid[vertex], flow, column, side, leaves)
        elif vertex in below:
            column[vertex] = column[below[vertex]]
        else:
            column[vertex] = _after_inputs(task, flow, column, side, leaves, vertex)
    return column


def _after_inputs(
    task: Task,
    flow: Flow,
    column: Sequence[int],
    side: dict[int, int],
    leaves: dict[int, list[int]],
    vertex: int,
) -> int:
    """The first column after all that the vertex reads."""
    base = int(task.framed)
    least = 0 if task.kinds[vertex] is Kind.ENTRY else base
    if len(leaves.get(vertex, ())) > 1:
        least = base + 1
    for number in flow.incoming[vertex]:
        start = task.connections[number].start
        host = flow.host.get(start)
        if host is None:
            least = max(least, column[start] + 1)
        elif host != vertex:
            least = max(least, column[host] + max(side[start], 0) + 1)
    return least


def _middle(
    inputs: tuple[int, ...],
    flow: Flow,
    column: Sequence[int],
    side: dict[int, int],
    leaves: dict[int, list[int]],
) -> int:
    """The column amid leaves, which move to the sides of their hosts that face it."""
    ranked = sorted(inputs, key=lambda leaf: column[flow.host[leaf]])
    for place, leaf in enumerate(ranked):
        together = leaves[flow.host[leaf]]
        if len(together) == 2:
            side[leaf] = -1 if place else 1
            (other,) = (one for one in together if one != leaf)
            side[other] = 0
    places = [column[flow.host[leaf]] + side[leaf] for leaf in ranked]
    return places[1] if len(places) == 3 else (places[0] + places[1]) // 2


def _heirs(task: Task, flow: Flow) -> list[int]:
    """Of every vertex the reader from which the way to the end is longest; -1 if it has none."""
    rest = [0] * len(flow.order)
    heir = [-1] * len(flow.order)
    for vertex in reversed(flow.order):
        longest = 0
        for number in flow.outgoing[vertex]:
            end = task.connections[number].end
            if rest[end] > longest:
                longest, heir[vertex] = rest[end], end
        rest[vertex] = longest + 1
    return heir


def _spine(flow: Flow, heir: Sequence[int]) -> tuple[int, ...]:
    """The longest way from a source in the flow (from any vertex without inputs, if none is)."""
    length = [1] * len(heir)
    for vertex in reversed(flow.order):
        if heir[vertex] >= 0:
            length[vertex] += length[heir[vertex]]
    hosted = flow.host.keys()
    starts = [v for v in flow.order if not flow.incoming[v] and v not in hosted]
    starts = [v for v in starts if flow.flows[v]] or starts
    starts = starts or [v for v in flow.order if v not in hosted]
    if not starts:
        return ()
    spine = [max(starts, key=lambda vertex: (length[vertex], -vertex))]
    while heir[spine[-1]] >= 0:
        spine.append(heir[spine[-1]])
    return tuple(spine)


def _pull(task: Task, flow: Flow, column: list[int], side: dict[int, int], fixed: set[int]) -> None:
    """Moves to the right what comes from no port and not from the spine, up to its readers."""
    leaves = leaves_of(flow)
    free = [False] * len(column)
    for vertex in flow.order:
        if vertex in flow.host or vertex in fixed or task.kinds[vertex] is Kind.ENTRY:
            continue
        inputs = (task.connections[number].start for number in flow.incoming[vertex])
        free[vertex] = all(free[one] or one in flow.host for one in inputs)
    for vertex in reversed(flow.order):
        if free[vertex] and flow.outgoing[vertex]:
            ends = [task.connections[number].end for number in flow.outgoing[vertex]]
            limits = [column[end] - 1 for end in ends]
            for leaf in leaves.get(vertex, ()):
                ends = (task.connections[number].end for number in flow.outgoing[leaf])
                room = max(side[leaf], 0) + 1
                limits += [column[end] - room for end in ends if end != vertex]
            column[vertex] = max(column[vertex], min(limits))


def _last_column(task: Task, column: list[int]) -> int:
    """How many columns there are; exits move to the last one."""
    inside = [v for v, kind in enumerate(task.kinds) if kind is not Kind.EXIT]
    count = max((column[v] + 1 for v in inside), default=int(task.framed))
    for vertex, kind in enumerate(task.kinds):
        if kind is Kind.EXIT:
            column[vertex] = count
    return count + int(task.framed)


def _previous(
    task: Task,
    flow: Flow,
    column: Sequence[int],
    heir: Sequence[int],
    spine: tuple[int, ...],
) -> list[int]:
    """For every vertex, the one whose heir it is: that on the spine, or else the nearest."""
    found = [-1] * len(column)
    for vertex in flow.order:
        starts = [task.connections[number].start for number in flow.incoming[vertex]]
        starts = [one for one in starts if heir[one] == vertex and one not in flow.host]
        if starts:
            found[vertex] = max(starts, key=lambda one: column[one])
    for before, vertex in pairwise(spine):
        found[vertex] = before
    return found


def _ends_of_runs(
    task: Task, flow: Flow, column: Sequence[int], previous: Sequence[int], count: int
) -> list[int]:
    """The last column up to which a vertex and those that go on in its row can stay in it."""
    following = [-1] * len(column)
    for vertex, before in enumerate(previous):
        if before >= 0:
            following[before] = vertex
    found = [0] * len(column)
    for vertex in reversed(flow.order):
        found[vertex] = column[vertex]
        next_one = following[vertex]
        if next_one < 0:
            ends = [task.connections[number].end for number in flow.outgoing[vertex]]
            found[vertex] = max([found[vertex], *(column[end] - 1 for end in ends)])
        elif len(flow.incoming[next_one]) == 1:
            found[vertex] = found[next_one]
        else:
            found[vertex] = max(found[vertex], column[next_one] - 1)
    return found
