"""Reads off a schedule when each value is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from chainrule.dataclass import dataclass
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.schedule.lifetimes import lifetimes_of
from chainrule.schedule.lives import BEFORE
from chainrule.schedule.records import SCRATCH, Compute, Schedule

MADE = "made of an argument"
LARGE_NBYTES = 1 << 16  # of an array that may begin, or end, in pages of its own


@dataclass(frozen=True, eq=False, slots=True)
class Life:
    """A value's bytes, from the instruction that writes them to the last that needs them.

    Instructions that compute are numbered from 1, as `print(plan)` shows them; 0 is before the
    first.  `last` is the last instruction during which the bytes are taken: the one that reads
    them last, or the last of all for what is there at the end.  `in_place` says that the bytes are
    those of another value, which ends here: they count there.
    """

    node: Node
    nbytes: int
    first: int
    last: int
    last_read: int
    arena: str
    offset: int
    in_place: bool = False


@dataclass(frozen=True, eq=False)
class Usage:
    """The lives of all values in the order of their birth, and what kernels need beside them.

    `scratch_nbytes` is the size of the one block in which scratch values and workspaces lie, or
    None where each value is an allocation of its own.  `workspaces` has what kernels allocate
    themselves, too: of this, which is not in the block, `allocated_nbytes` is what the peak has
    of it beside all copies (less than 0 where not all are there at once).
    """

    schedule: Schedule
    lives: tuple[Life, ...]
    workspaces: tuple[int, ...]  # bytes, by instruction; of 0 none
    scratch_nbytes: int | None
    allocated_nbytes: int = 0
    copied_nbytes: int = 0  # of arguments

    @property
    def count(self) -> int:
        """Of instructions that compute."""
        return len(self.workspaces) - 1

    @cached_property
    def live_nbytes(self) -> tuple[int, ...]:
        """The bytes of values and workspace during each instruction, from 0 (before) on."""
        change = [0] * (self.count + 2)
        for life in self.lives:
            if not life.in_place:
                change[life.first] += life.nbytes
                change[life.last + 1] -= life.nbytes
        found, total = [], 0
        for number, workspace in enumerate(self.workspaces):
            total += change[number]
            found.append(total + workspace)
        return tuple(found)

    @property
    def peak_instruction(self) -> int:
        """The first at which most bytes are live."""
        return max(range(len(self.live_nbytes)), key=self.live_nbytes.__getitem__)

    @cached_property
    def outside_nbytes(self) -> int:
        """Of arrays outside the scratch block."""
        return sum(
            life.nbytes for life in self.lives if life.arena != SCRATCH and not life.in_place
        )

    @cached_property
    def large_count(self) -> int:
        """The number of large arrays that are there at once, at most, the block left out."""
        change = [0] * (self.count + 2)
        for life in self.lives:
            if not life.in_place and life.nbytes >= LARGE_NBYTES:
                if self.scratch_nbytes is None:
                    change[life.first] += 1
                    change[life.last + 1] -= 1
                elif life.arena != SCRATCH:
                    change[0] += 1
        return max(accumulate(change))

    @cached_property
    def given_nbytes(self) -> int:
        """Of the arrays that are there before the first instruction: arguments and constants."""
        return sum(buffer.nbytes for buffer in self.schedule.given.values())

    @cached_property
    def copied(self) -> Mapping[Node, int]:
        """The bytes of the arrays made of arguments, by their inputs."""
        found: dict[Node, int] = {}
        for life in self.lives:
            if life.arena.endswith(MADE):
                found[life.node] = found.get(life.node, 0) + life.nbytes
        return found

    @property
    def peak_nbytes(self) -> int:
        """What is allocated when most is: the block is there as a whole."""
        if self.scratch_nbytes is None:
            return max(self.live_nbytes)
        return self.outside_nbytes + self.scratch_nbytes + self.allocated_nbytes

    @property
    def padding_nbytes(self) -> int:
        """What is allocated at the peak and belongs to no value: alignment, and gaps."""
        return self.peak_nbytes - max(self.live_nbytes)

    def alive_at(self, number: int) -> tuple[Life, ...]:
        """The lives during an instruction, those in place left out where their bytes count."""
        return tuple(one for one in self.lives if one.first <= number <= one.last)


def usage_of(
    schedule: Schedule,
    results: Iterable[Node] = (),
    *,
    block: bool = True,
    copied: Mapping[Node, int] | None = None,
) -> Usage:
    """Read a schedule.  With `block`, scratch is one block; arrays of results are there at once.

    A result that is given (an input, a constant) has two lives: its own, and that of its copy,
    which is made before the first instruction, with `block` after the last.  `copied` are how many
    arrays are made of inputs before a run, and are there throughout.
    """
    kept = {*results, *schedule.results}
    computes = [one for one in schedule.instructions if isinstance(one, Compute)]
    done = [0]  # how many have been computed before each instruction
    for one in schedule.instructions:
        done.append(done[-1] + isinstance(one, Compute))
    end = len(computes)
    lifetimes = lifetimes_of(schedule)
    given = [one for one in lifetimes if one.born == BEFORE]
    at = end if block else 0
    lives = [
        Life(one.node, one.nbytes, at, end, end, f"copy of {one.buffer.arena}", 0)
        for one in given
        if one.node in kept and one.node not in schedule.overwrites
    ]
    copies = sum(life.nbytes for life in lives) if block else 0
    stop = end - 1 if copies and end else end
    arguments = [
        Life(node, schedule.given[node].nbytes, 0, stop, stop, f"{number} {MADE}", 0)
        for node, count in (copied or {}).items()
        for number in range(count)
    ]
    made = sum(life.nbytes for life in arguments)
    lives += arguments
    taken = {schedule.given[one].arena for one in schedule.overwrites}
    for one in lifetimes:
        buffer, is_given = one.buffer, one.born == BEFORE
        outside = buffer.arena != SCRATCH
        # of a given array, or of the result that comes later
        borrowed = not is_given and (
            buffer.arena in taken or (block and outside and one.node not in kept)
        )
        there = is_given or (outside and block and not borrowed)
        read = done[one.last_read + 1]
        lives.append(
            Life(
                one.node,
                one.nbytes,
                0 if there else done[one.born + 1],
                end if is_given or one.ended is None else done[one.ended],
                end if one.node in kept and not is_given else read,
                buffer.arena,
                buffer.offset,
                in_place=borrowed,
            )
        )
    inside = (one.workspace.nbytes if one.workspace else 0 for one in computes)
    allocated = [one.allocated_nbytes for one in computes]
    # the copies of results come after the last instruction, when those of arguments are gone
    allocated[-1:] = [max(one - copies, 0) for one in allocated[-1:]]
    workspaces = (0, *map(sum, zip(inside, allocated, strict=True)))
    scratch = schedule.scratch_nbytes if block else None
    beside = max(schedule.allocated_nbytes - copies, -made)
    return Usage(schedule, tuple(lives), workspaces, scratch, beside, made)
