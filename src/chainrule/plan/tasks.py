"""Tasks as numbers, for a search that knows nothing else: bytes, nanoseconds, who reads whom.

There, a value is of one producer, and lives as long as anybody reads it.  So a task that writes
several values becomes several parts: one has all large values, and of the small ones each stays
from when it is written first to when it is read last, however often the task is done.  And where a
task checks indices, that they are checked is a part without bytes: only once is it done before what
relies on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

from chainrule.dataclass import dataclass
from chainrule.graph.body import bodies_of
from chainrule.graph.node import Node
from chainrule.plan.checks import Check, reliance
from chainrule.schedule.lives import BEFORE, Life, lives_of

SMALL = 8  # times as large as a small value is the largest one that its task writes


class Task(Protocol):
    """What is done at once: it reads values, and writes others."""

    @property
    def reads(self) -> Sequence[Node]: ...

    @property
    def writes(self) -> Sequence[Node]: ...

    @property
    def fails(self) -> bool: ...

    @property
    def checks(self) -> Sequence[Check]: ...


@dataclass(frozen=True)
class Tasks:
    """The parts of tasks, numbered in the order in which they are done without a budget.

    `nbytes` are those of the values that a part writes; `workspaces`, those that it needs besides
    while it is done (less than 0 where it takes over bytes of what it reads); `costs` are in
    nanoseconds.  `reads` has a pair of parts where the second reads what the first writes.  Values
    of `kept` stay to the end; parts of `once` are never done again, and of each pair in `before`
    the first is never done after the second.  What is in `fixed` is done first where it is now.

    `task` says which task each part is of, None for one that is done with another; `durations` are
    those of tasks, in nanoseconds.
    """

    nbytes: tuple[int, ...]
    costs: tuple[int, ...]
    workspaces: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    kept: frozenset[int]
    once: frozenset[int]
    before: tuple[tuple[int, int], ...]
    fixed: frozenset[int]
    task: tuple[int | None, ...]
    durations: tuple[int, ...]

    def done(self, parts: Iterable[int]) -> tuple[int, ...]:
        """The tasks that are done where parts are done in this order."""
        found: list[int] = []
        before = None
        for number in map(self.task.__getitem__, parts):
            if number is not None and number != before:
                found.append(number)
                before = number
        return tuple(found)


def tasks_of(
    given: Sequence[Task],
    nbytes: Callable[[Node], int],
    workspaces: Sequence[int],
    durations: Iterable[float],
    *,
    kept: Container[int] = (),
    once: Container[int] = (),
    fixed: Container[int] = (),
    overwrites: Mapping[Node, Node],
) -> Tasks:
    """The tasks `given`, which are in a right order; `overwrites` as in `plan`.

    `nbytes` says what a value takes: 0 for one in an array from outside.  Tasks of `kept` write
    values that stay to the end, those of `once` must not be done again, those of `fixed` are done
    first where they are given.
    """
    parts = _Parts(given, nbytes, workspaces, tuple(map(round, durations)), once, overwrites)
    return parts.made(kept, fixed)


def may_repeat(node: Node) -> bool:
    """Whether evaluating a node again gives the same: a user's function may not."""
    bodies = (one for body in bodies_of(node) for one in body.graph.nodes)
    return not getattr(node.primitive.kernel, "keeps", False) and all(map(may_repeat, bodies))


class _Parts:
    def __init__(
        self,
        given: Sequence[Task],
        nbytes: Callable[[Node], int],
        workspaces: Sequence[int],
        durations: tuple[int, ...],
        once: Container[int],
        overwrites: Mapping[Node, Node],
    ) -> None:
        self.overwrites = overwrites
        self.given, self.workspaces, self.durations = given, workspaces, durations
        self.lives = lives_of((one.reads, one.writes) for one in given)
        self.read = {life for found in self.lives.reads for life in found}
        self.nbytes: list[int] = []
        self.costs: list[int] = []
        self.spaces: list[int] = []
        self.task: list[int | None] = []
        self.once: set[int] = set()
        self.reads: set[tuple[int, int]] = set()
        self.part_of: dict[Life, int] = {}
        self.main: list[int] = []  # of each task, the part that is done
        self.checked: dict[int, int] = {}  # of each that is the first to check, that part
        # done again, behind all of them, most checks cannot fail: the second half says which can
        self.stops, self.relies = reliance([*given, *given])
        for number in range(len(given)):
            self._take_apart(number, nbytes, number in once)

    def _take_apart(self, number: int, nbytes: Callable[[Node], int], once: bool) -> None:
        """The parts of a task: the first has its large values."""
        sizes = {life: nbytes(life.node) for life in self.lives.writes[number]}
        largest = max(sizes.values())
        large = [life for life, size in sizes.items() if size * SMALL > largest and not once]
        large = large or [max(sizes, key=sizes.__getitem__)]
        total = sum(sizes[life] for life in large)
        main = self._add(total, self.durations[number], self.workspaces[number], number)
        self.main.append(main)
        for life in sizes:
            self.part_of[life] = main
            if life not in large and life in self.read:
                self.part_of[life] = part = self._add(sizes[life], 0, 0, None)
                self.once.add(part)
                self.reads.add((main, part))
        for life in self.lives.reads[number]:
            if life in self.part_of:
                self.reads.add((self.part_of[life], main))
        if once:
            self.once.add(main)
        if self.overwrites and self.stops[number] and self.given[number].checks:
            self.checked[number] = part = self._add(0, 0, 0, None)
            self.once.add(part)
            self.reads.add((main, part))

    def _add(self, nbytes: int, cost: int, space: int, task: int | None) -> int:
        self.nbytes.append(nbytes)
        self.costs.append(cost)
        self.spaces.append(space)
        self.task.append(task)
        return len(self.nbytes) - 1

    def made(self, kept: Container[int], fixed: Container[int]) -> Tasks:
        """All of it as numbers."""
        return Tasks(
            nbytes=tuple(self.nbytes),
            costs=tuple(self.costs),
            workspaces=tuple(self.spaces),
            reads=tuple(sorted(self.reads)),
            kept=frozenset(part for n, part in enumerate(self.main) if n in kept),
            once=frozenset(self.once),
            before=tuple(sorted(self._before())),
            fixed=frozenset(part for n, part in enumerate(self.main) if n in fixed),
            task=tuple(self.task),
            durations=self.durations,
        )

    def _before(self) -> set[tuple[int, int]]:
        """What reads a given array, or may stop the run, is done before that is overwritten; what
        cannot stop it again need only be done once before."""
        if not self.overwrites:
            return set()
        readers: dict[Node, list[int]] = defaultdict(list)
        for number, read in enumerate(self.lives.reads):
            for life in read:
                if self.lives.first[life] == BEFORE:
                    readers[life.node].append(number)
        count = len(self.given)
        failing = [number for number in range(count) if self.stops[count + number]]
        found = {
            (self.checked[one], self.main[number])
            for number, makers in enumerate(self.relies[:count])
            for one in makers
        }
        for given, result in self.overwrites.items():
            update = self.lives.first[Life(result)]
            earlier = {*readers[given], *failing} - {update}
            found.update((self.main[number], self.main[update]) for number in earlier)
            found.update((part, self.main[update]) for part in self.checked.values())
        return found
