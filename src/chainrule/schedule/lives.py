"""Computes liveness: which life of each value each work of a sequence reads and writes.

A value that is written again, after its bytes were free for others, begins another life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from chainrule.dataclass import dataclass, field
from chainrule.graph.node import Node

BEFORE = -1  # the number of the moment before the first work


class Life(NamedTuple):
    """One life of a value: the first has number 0, that of a value computed again number 1."""

    node: Node
    number: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Lives:
    """What `lives_of` found; works are numbered from 0, and lives are in order of their birth.

    `first` is the number of the work that writes a life, BEFORE for a value that nothing writes
    before it is read; `last` that of the last work that reads it, or of the one that writes it.
    """

    reads: list[tuple[Life, ...]] = field(default_factory=list)
    writes: list[tuple[Life, ...]] = field(default_factory=list)
    first: dict[Life, int] = field(default_factory=dict)
    last: dict[Life, int] = field(default_factory=dict)

    def ended(self) -> list[list[Life]]:
        """For each work, the lives that no later one reads, in order of their birth."""
        found: list[list[Life]] = [[] for _ in self.writes]
        for life, number in self.last.items():
            if number != BEFORE:
                found[number].append(life)
        return found


def lives_of(
    works: Iterable[tuple[Iterable[Node], Iterable[Node]]], given: Iterable[Node] = ()
) -> Lives:
    """The lives of all values in a sequence of works; each is what it reads, and what it writes.

    A read means the last life that was written before, or the one that the work itself writes.
    Values of `given` are there before the first work.
    """
    found = Lives()
    new: Callable[..., Life] = tuple.__new__  # takes a third of the time of Life(...)
    first, last = found.first, found.last
    now: dict[Node, Life] = {}
    for node in given:
        life = now[node] = Life(node)
        first[life] = last[life] = BEFORE
    for number, (reads, writes) in enumerate(works):
        written: list[Life] = []
        read: list[Life] = []
        fresh = dict.fromkeys(writes)
        for node in reads:
            if node in fresh:
                continue
            life = now.get(node)
            if life is None:
                life = now[node] = Life(node)
                first[life] = BEFORE
            last[life] = number
            read.append(life)
        for node in fresh:
            before = now.get(node)
            life = now[node] = new(Life, (node, 0 if before is None else before[1] + 1))
            first[life] = last[life] = number
            written.append(life)
        found.reads.append(tuple(read))
        found.writes.append(tuple(written))
    return found
