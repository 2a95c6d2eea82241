"""What a replay finds: from when to when every value is there, and how many bytes that makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.plan.schedule import SCRATCH, Buffer, Compute, Schedule, aligned

BEFORE = -1  # the number of the moment before the first instruction


@dataclass(frozen=True, eq=False)
class Lifetime:
    """One life of a value; one that is freed and computed again has several.

    Instructions are numbered from 0.  `born` is the number of the instruction that writes it,
    BEFORE for a given value; `last_needed` that of the last one that reads it (`born` if none
    does, the number of instructions for a result); `ended` that of the Free, or of the instruction
    that takes its bytes in place, and None if it is there at the end.
    """

    node: Node
    buffer: Buffer
    born: int
    last_needed: int
    ended: int | None

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
        return self._in_use(lambda nbytes: nbytes)

    @cached_property
    def live_aligned_nbytes(self) -> tuple[int, ...]:
        """As `live_nbytes`, each buffer rounded up to a whole number of ALIGNMENT."""
        return self._in_use(aligned)

    @property
    def peak_nbytes(self) -> int:
        """The largest of `live_nbytes`."""
        return max(self.live_nbytes, default=0)

    @property
    def peak_aligned_nbytes(self) -> int:
        """The largest of `live_aligned_nbytes`: no placement needs less."""
        return max(self.live_aligned_nbytes, default=0)

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

    def _in_use(self, rounded: Callable[[int], int]) -> tuple[int, ...]:
        """Bytes in use at each instruction, counted with this rounding of each buffer."""
        instructions = self.schedule.instructions
        change = [0] * (len(instructions) + 1)
        for life in self._scratch:
            change[max(life.born, 0)] += rounded(life.nbytes)
            if life.ended is not None:
                change[life.ended] -= rounded(life.nbytes)
        found, total = [], 0
        for number, instruction in enumerate(instructions):
            total += change[number]
            workspace = instruction.workspace if isinstance(instruction, Compute) else None
            found.append(total + (rounded(workspace.nbytes) if workspace else 0))
        return tuple(found)
