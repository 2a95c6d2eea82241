"""Where a step can no longer fail: from there on, ranks update the arrays of the state in place.

A rank waits there until all have come so far; what follows are updates whose results nobody reads,
and sums of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as Collection
from dataclasses import dataclass

from chainrule.devices.instructions import (
    AllReduce,
    Await,
    Instruction,
    Key,
    Program,
    Receive,
    Run,
    Send,
)


@dataclass(frozen=True)
class Commits:
    """`at[rank]` is the first instruction of each rank after which nothing can fail; `taken` maps
    what follows an array of the state to the number of the array, whose memory it takes; `sums` are
    those that only the last pieces read, on all ranks."""

    at: tuple[int, ...]
    taken: Mapping[int, int]
    sums: frozenset[AllReduce] = frozenset()


def commits_of(
    programs: Sequence[Program], ends: Mapping[str, int], names: Mapping[str, int]
) -> Commits:
    """The first such places; `ends` and `names` have the numbers of what follows arrays of the
    state, and of these.

    An array is not overwritten where another of the last pieces reads it, on whichever rank: ranks
    that are threads share it.
    """
    read = {key for program in programs for one in program.instructions for key in _reads(one)}
    at = tuple(_place(one, read) for one in programs)
    readers: dict[int, set[int]] = {}
    makers: dict[int, set[int]] = {}
    for place, program in zip(at, programs, strict=True):
        for one in program.instructions[place:]:
            if isinstance(one, Run):
                for key in one.reads:
                    readers.setdefault(key.value, set()).add(one.piece)
                for key in one.gives:
                    makers.setdefault(key.value, set()).add(one.piece)
    taken = {
        after: names[name]
        for name, after in ends.items()
        if name in names
        and len(makers.get(after, ())) == 1
        and readers.get(names[name]) == makers[after]
    }
    sums = {
        one.sum if isinstance(one, Await) else one
        for place, program in zip(at, programs, strict=True)
        for one in program.instructions[place:]
        if isinstance(one, (Await, AllReduce))
    }
    return Commits(at, taken, frozenset(sums))


def _place(program: Program, read: Collection[Key]) -> int:
    """From where on there are only updates whose results nobody reads, and sums to wait for."""
    place = len(program.instructions)
    while place and _is_last(program.instructions[place - 1], read):
        place -= 1
    return place


def _is_last(one: Instruction, read: Collection[Key]) -> bool:
    if isinstance(one, Await) or (isinstance(one, AllReduce) and one.in_place):
        return True
    return isinstance(one, Run) and one.micro_batch is None and read.isdisjoint(one.gives)


def _reads(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Send():
            return (one.key,)
        case Receive():
            return ()
    return one.reads
