"""The numbers of a graph that is to be split over devices, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from operator import index

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.plan.recomputation.problem import (
    MOST_NBYTES,
    Numbers,
    counts,
    grouped,
    listed,
    node_number,
    node_pairs,
)

Times = tuple[float, ...]


@dataclass(frozen=True)
class Problem:
    """Nodes 0 to n - 1, and the devices: those with `memory_nbytes`, then `hosts` without limits.

    Node v takes `seconds[v]` on a device and `host_seconds[v]` on a host, and needs `nbytes[v]`
    on a device.  `readers[v]` read its value, which costs `transfer_seconds[v]` on each device
    that it leaves or enters, and nothing on hosts.  Nodes of each group of `together` lie on one
    device.  `backward` are the nodes of the backward part.
    """

    seconds: Times
    host_seconds: Times
    nbytes: Numbers
    transfer_seconds: Times
    edges: tuple[tuple[int, int], ...]
    memory_nbytes: Numbers
    hosts: int
    backward: frozenset[int]
    together: tuple[Numbers, ...]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.seconds)

    @property
    def places(self) -> int:
        """How many devices and hosts there are."""
        return len(self.memory_nbytes) + self.hosts

    @cached_property
    def readers(self) -> tuple[Numbers, ...]:
        """For each node, the nodes that read its value."""
        return grouped(self.size, self.edges)

    def is_host(self, place: int) -> bool:
        """Whether a place is a host."""
        return place >= len(self.memory_nbytes)


def problem(
    seconds: Sequence[float],
    nbytes: Sequence[int],
    edges: Iterable[tuple[int, int]],
    transfer_seconds: Sequence[float],
    devices: int,
    memory_nbytes: int | Sequence[int],
    *,
    backward: Iterable[int] = (),
    together: Iterable[Iterable[int]] = (),
    hosts: int = 0,
    host_seconds: Sequence[float] | None = None,
) -> Problem:
    """The problem with these numbers; InputError says which of them is wrong."""
    sizes = counts("nbytes", nbytes, MOST_NBYTES)
    size = len(sizes)
    times = _times("seconds", seconds, size)
    moves = _times("transfer_seconds", transfer_seconds, size)
    host_count = _count("hosts", hosts)
    if host_count and host_seconds is None:
        raise InputError(
            f"hosts is {host_count}, and host_seconds is missing",
            hint="host_seconds=, the time of each node on a host",
        )
    pairs = node_pairs("edges", edges, size)
    last = frozenset(node_number("backward", v, size) for v in listed("backward", backward))
    for u, v in pairs:
        if u in last and v not in last:
            raise InputError(
                f"node {v} reads node {u} of backward, and is not of it",
                hint="what reads the backward part belongs to it: list it in backward, too",
            )
    _check_acyclic(pairs, size)
    return Problem(
        seconds=times,
        host_seconds=times if host_seconds is None else _times("host_seconds", host_seconds, size),
        nbytes=sizes,
        transfer_seconds=moves,
        edges=pairs,
        memory_nbytes=_memories(_count("devices", devices), host_count, memory_nbytes),
        hosts=host_count,
        backward=last,
        together=_groups(together, size),
    )


def _times(name: str, values: Sequence[float], size: int) -> Times:
    """The values, each a finite time that is not negative."""
    found = []
    for node, value in enumerate(listed(name, values)):
        try:
            time = float(value)
        except (TypeError, ValueError):
            raise InputError(f"{name} of node {node} is {value!r}", hint="a number") from None
        if not 0 <= time < math.inf:
            raise InputError(f"{name} of node {node} is {time}", hint="a finite time, 0 or more")
        found.append(time)
    if len(found) != size:
        raise InputError(
            f"nbytes has {size} numbers and {name} has {len(found)}",
            hint="one number for each node in both",
        )
    if not sum(found) < math.inf:
        raise InputError(f"{name} has more in all than a number holds", hint="a larger unit")
    return tuple(found)


def _count(name: str, value: object) -> int:
    try:
        count = index(value)  # pyrefly: ignore[bad-argument-type]
    except TypeError:
        raise InputError(f"{name} is {value!r}, which is no integer", hint="how many") from None
    if count < 0:
        raise InputError(f"{name} is {count}", hint="how many: 0 or more")
    return count


def _memories(devices: int, hosts: int, memory_nbytes: int | Sequence[int]) -> Numbers:
    """The bytes of each device."""
    if devices + hosts == 0:
        raise InputError("devices is 0, and there are no hosts", hint="at least one device")
    if isinstance(memory_nbytes, Sequence):
        found = tuple(_count("memory_nbytes", one) for one in memory_nbytes)
        if len(found) != devices:
            raise InputError(
                f"memory_nbytes has {len(found)} numbers, and devices is {devices}",
                hint="one number for all devices, or one for each",
            )
        return found
    return (_count("memory_nbytes", memory_nbytes),) * devices


def _groups(together: Iterable[Iterable[int]], size: int) -> tuple[Numbers, ...]:
    found = []
    for group in listed("together", together):
        try:
            nodes = tuple(group)
        except TypeError:
            raise InputError(
                f"together has {group!r}", hint="groups of nodes, such as [(0, 5), (1, 6)]"
            ) from None
        found.append(tuple(node_number("together", v, size) for v in nodes))
    return tuple(found)


def _check_acyclic(edges: tuple[tuple[int, int], ...], size: int) -> None:
    """InputError that names a cycle, if there is one."""
    readers = grouped(size, edges)
    waits = [0] * size
    for _, v in edges:
        waits[v] += 1
    ready = [v for v in range(size) if not waits[v]]
    for u in ready:
        for v in readers[u]:
            waits[v] -= 1
            if not waits[v]:
                ready.append(v)
    if len(ready) == size:
        return
    reads = grouped(size, ((v, u) for u, v in edges))
    at = next(v for v in range(size) if waits[v])
    walk: list[int] = []
    while at not in walk:
        walk.append(at)
        at = next(u for u in reads[at] if waits[u])
    cycle = [*walk[walk.index(at) :], at]
    raise InputError(
        f"edges have a cycle: {', '.join(f'{v} reads {u}' for v, u in pairwise(cycle))}",
        hint="an edge (u, v) says that v reads u; no node reads what is made of it",
    )
