"""Reads a schedule: from when to when every value is there, and how many bytes that makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from chainrule.dataclass import dataclass
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.schedule.lives import BEFORE, Life, lives_of
from chainrule.schedule.outline import stored_under, stored_values
from chainrule.schedule.records import SCRATCH, Buffer, Compute, Free, Schedule, View, aligned


@dataclass(frozen=True, eq=False, slots=True)
class Lifetime:
    """One life of a value; one that is freed and computed again has several.

    Instructions are numbered from 0.  `born` is the number of the instruction that writes it,
    BEFORE for a given value; `last_read` that of the last one that reads it, `born` if none does;
    `last_needed` is the same, or for a result the number of instructions; `ended` is the number of
    the Free, or of the instruction that takes its bytes in place, None if it is there at the end.
    """

    life: Life
    buffer: Buffer
    born: int
    last_read: int
    last_needed: int
    ended: int | None

    @property
    def node(self) -> Node:
        """The value."""
        return self.life.node

    @property
    def nbytes(self) -> int:
        """The bytes of the elements, without padding."""
        return self.buffer.nbytes

    def is_alive_at(self, number: int) -> bool:
        """Whether its bytes hold it while instruction `number` runs.

        One whose bytes that instruction takes in place counts no more: the new value does.
        """
        return self.born <= number and (self.ended is None or number < self.ended)


@dataclass(frozen=True, eq=False)
class Simulation:
    """What the replay of a valid schedule found.

    `lifetimes` are in order of birth.  All counts of bytes below are of the scratch arena alone;
    given arrays and the arrays of results are outside.
    """

    schedule: Schedule
    lifetimes: tuple[Lifetime, ...]

    @cached_property
    def live_nbytes(self) -> tuple[int, ...]:
        """The bytes of elements and workspace that are in use while each instruction runs."""
        return live_nbytes(self.schedule, self._scratch)

    @cached_property
    def live_aligned_nbytes(self) -> tuple[int, ...]:
        """As `live_nbytes`, each buffer rounded up to a whole number of ALIGNMENT."""
        return live_nbytes(self.schedule, self._scratch, aligned)

    @property
    def peak_nbytes(self) -> int:
        """The largest of `live_nbytes`."""
        return max(self.live_nbytes, default=0)

    @property
    def arena_nbytes(self) -> int:
        """The size of the scratch arena."""
        return self.schedule.scratch_nbytes

    @property
    def wasted_nbytes(self) -> int:
        """What the arena has more than the peak: padding, and gaps that placement leaves."""
        return self.arena_nbytes - self.peak_nbytes

    @property
    def peak_instruction(self) -> int:
        """The number of the first instruction at the peak; BEFORE if there is no instruction."""
        if not self.live_nbytes:
            return BEFORE
        return self.live_nbytes.index(self.peak_nbytes)

    @cached_property
    def alive_at_peak(self) -> tuple[Lifetime, ...]:
        """The values in scratch at the peak, in order of birth; workspace is not a value."""
        number = self.peak_instruction
        return tuple(life for life in self._scratch if life.is_alive_at(number))

    @cached_property
    def late(self) -> tuple[Lifetime, ...]:
        """Values in scratch that kept their bytes while a kernel ran that no longer needed them."""
        kernels = [0]
        for instruction in self.schedule.instructions:
            kernels.append(kernels[-1] + isinstance(instruction, Compute))
        last = len(self.schedule.instructions)
        return tuple(
            life
            for life in self._scratch
            if life.last_needed < last
            and kernels[last if life.ended is None else life.ended] > kernels[life.last_needed + 1]
        )

    @cached_property
    def _scratch(self) -> tuple[Lifetime, ...]:
        return tuple(life for life in self.lifetimes if life.buffer.arena == SCRATCH)


def live_nbytes(
    schedule: Schedule, lifetimes: Iterable[Lifetime], rounded: Callable[[int], int] = int
) -> tuple[int, ...]:
    """The bytes of these lives, and of workspace, that are in use while each instruction runs; each
    buffer rounded so."""
    change = [0] * (len(schedule.instructions) + 1)
    for life in lifetimes:
        change[max(life.born, 0)] += rounded(life.nbytes)
        if life.ended is not None:
            change[life.ended] -= rounded(life.nbytes)
    found, total = [], 0
    for number, instruction in enumerate(schedule.instructions):
        total += change[number]
        workspace = instruction.workspace if isinstance(instruction, Compute) else None
        found.append(total + (rounded(workspace.nbytes) if workspace else 0))
    return tuple(found)


def lifetimes_of(schedule: Schedule) -> tuple[Lifetime, ...]:
    """The lives of all values that have bytes, in order of birth; the schedule must be valid."""
    lives = lives_of(_steps(schedule), schedule.given)
    last_read = {life: number for number, read in enumerate(lives.reads[:-1]) for life in read}
    buffers = {Life(node): buffer for node, buffer in schedule.given.items()}
    now = {life.node: life for life in buffers}
    there = {(one.arena, one.offset): life for life, one in buffers.items() if one.nbytes}
    ended: dict[Life, int] = {}
    for number, instruction in enumerate(schedule.instructions):
        if isinstance(instruction, Free):
            ended[now[instruction.node]] = number
        elif isinstance(instruction, Compute):
            read = {life.node: life for life in lives.reads[number]}
            into = dict(zip(instruction.nodes, instruction.into, strict=True))
            for node, source in instruction.in_place:
                old = read.get(source)
                if old is not None and into[node] == buffers[old]:
                    ended.setdefault(old, number)
            for life, buffer in zip(lives.writes[number], into.values(), strict=True):
                now[life.node], buffers[life] = life, buffer
                if buffer.nbytes:
                    old = there.get((buffer.arena, buffer.offset))
                    if old is not None:
                        ended.setdefault(old, number)
                    there[buffer.arena, buffer.offset] = life
    return tuple(
        Lifetime(
            life,
            buffer,
            born=lives.first[life],
            last_read=last_read.get(life, lives.first[life]),
            last_needed=lives.last[life],
            ended=ended.get(life),
        )
        for life, buffer in buffers.items()
    )


def _steps(schedule: Schedule) -> Iterator[tuple[list[Node], tuple[Node, ...]]]:
    """What each instruction reads and writes, views taken for what owns their bytes; and a last
    step that reads the results."""
    stored = stored_values(schedule)
    owners: dict[Node, Node] = {}

    def owner(node: Node) -> Iterator[Node]:
        real = node if node in stored else stored_under(node, stored)
        if real is not None:
            yield owners.get(real, real)

    for instruction in schedule.instructions:
        match instruction:
            case Compute(nodes=nodes, reads=reads):
                for node in nodes:
                    owners.pop(node, None)
                yield [one for node in reads for one in owner(node)], nodes
            case View(node=node, of=of):
                owners[node] = owners.get(of, of)
                yield [], ()
            case Free():
                yield [], ()
    needed = (*schedule.results, *schedule.overwrites.values())
    yield [one for node in needed for one in owner(node)], ()
