"""Where a step can no longer fail: from there on, ranks update the arrays of the state in place.

A rank waits there until all have come so far; what follows are updates whose results nobody reads,
and waiting for sums of gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as Collection

from chainrule.dataclass import dataclass
from chainrule.devices.instructions import (
    AllReduce,
    Await,
    Begin,
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
    sums = frozenset(one for program in programs for one in _sums(program))
    early = {
        one for place, program in zip(at, programs, strict=True) for one in _early(program, place)
    }
    return Commits(at, taken, sums - early)


def _sums(program: Program) -> Iterator[AllReduce]:
    """Those in place, also of the helper."""
    for one in program.instructions:
        if isinstance(one, Begin):
            yield one.sum
        elif isinstance(one, AllReduce) and one.in_place:
            yield one


def _early(program: Program, place: int) -> Iterator[AllReduce]:
    """Those that are read before that place."""
    there: dict[Key, AllReduce] = {}
    for one in program.instructions[:place]:
        yield from (there[key] for key in _reads(one) if key in there)
        if isinstance(one, (Begin, AllReduce)):
            made = one.sum if isinstance(one, Begin) else one
            there |= dict.fromkeys(made.keys, made)


def _place(program: Program, read: Collection[Key]) -> int:
    """From where on there are only updates whose results nobody reads, and sums to wait for: they
    have begun, so that a rank that is there has shown the others all its gradients."""
    place = len(program.instructions)
    while place and _is_last(program.instructions[place - 1], read):
        place -= 1
    return place


def _is_last(one: Instruction, read: Collection[Key]) -> bool:
    if isinstance(one, Await):
        return True
    return isinstance(one, Run) and one.micro_batch is None and read.isdisjoint(one.gives)


def _reads(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Send():
            return (one.key,)
        case Receive():
            return ()
    return one.reads
