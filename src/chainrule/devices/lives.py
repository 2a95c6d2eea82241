"""Says where the values of a rank begin and end: sums at 0, and what is not needed any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from chainrule.devices.instructions import (
    COLLECTIVES,
    FREEING,
    Clear,
    Instruction,
    Key,
    Program,
    Receive,
    Run,
    Send,
)


def clearing(made: Sequence[Instruction], sums: Collection[Key]) -> list[Instruction]:
    """The instructions, in which the sums that they add to are set to 0 before the rank first waits
    for others, as it has nothing else to do then; at once if it adds before."""
    first = None
    read: set[Key] = set()
    for at, one in enumerate(made):
        if isinstance(one, (Receive, *COLLECTIVES)) and first is None and not read:
            first = at
        elif isinstance(one, Run):
            read.update({*sums}.intersection(one.reads))
    keys = tuple([key for key in sums if key in read])
    return [*made[: first or 0], Clear(keys), *made[first or 0 :]] if keys else list(made)


def freeing(rank: int, instructions: Sequence[Instruction], results: tuple[Key, ...]) -> Program:
    """The program, in which each instruction says what is not needed any more after it."""
    needed, made = set(results), list[Instruction]()
    there: set[Key] = set()
    given: dict[Key, None] = {}
    for one in instructions:
        reads = _read(one)
        given |= dict.fromkeys(key for key in reads if key not in there)
        there.update(reads)
        there.update(_given(one))
    for one in reversed(instructions):
        used = [key for key in dict.fromkeys((*_read(one), *_given(one))) if key not in needed]
        needed.difference_update(_given(one))  # a value that is computed again has several lives
        needed.update(_read(one))
        made.append(replace(one, frees=tuple(used)) if isinstance(one, FREEING) else one)
    return Program(rank, tuple(given), tuple(reversed(made)), results)


def _read(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Send():
            return (one.key,)
        case Receive():
            return ()
    return one.reads


def _given(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Send():
            return ()
        case Receive():
            return (one.key,)
    return one.gives
