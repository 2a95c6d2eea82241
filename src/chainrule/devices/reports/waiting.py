"""Finds how many bytes of messages can wait for a rank, whatever the others' speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chainrule.devices.instructions import Key, Program, Receive, Send


def waiting_nbytes(
    programs: Sequence[Program], rank: int, nbytes: Callable[[int, Key], int]
) -> tuple[int, ...]:
    """The most bytes that were sent to a rank and that it has not received, during each of its
    instructions; `nbytes` gives those of a message, by its sender and key.

    No order of events matters: the others are as far ahead as the programs allow.  They do not wait
    for sums here, so where they would, it may be less.
    """
    waiting, found = 0, []
    at = [0] * len(programs)
    sent: set[tuple[int, int, Key]] = set()

    def advance(pending: list[int]) -> int:
        """Each goes on until it needs what was not sent; how many bytes come to the rank."""
        came = 0
        while pending:
            other = pending.pop()
            instructions = programs[other].instructions
            while other != rank and at[other] < len(instructions):
                one = instructions[at[other]]
                if isinstance(one, Receive) and (one.sender, other, one.key) not in sent:
                    break
                if isinstance(one, Send):
                    sent.add((other, one.to, one.key))
                    pending.append(one.to)
                    came += nbytes(other, one.key) if one.to == rank else 0
                at[other] += 1
        return came

    waiting += advance(_linked(programs, rank))
    for one in programs[rank].instructions:
        if isinstance(one, Send):
            sent.add((rank, one.to, one.key))
            waiting += advance([one.to])
        elif isinstance(one, Receive):
            waiting -= nbytes(one.sender, one.key)
        found.append(waiting)
    return tuple(found)


def _linked(programs: Sequence[Program], rank: int) -> list[int]:
    """The ranks that messages lead to from this one, over others too, or back."""
    found = [rank]
    for one in found:
        for instruction in programs[one].instructions:
            match instruction:
                case Send(_, other) | Receive(_, other) if other not in found:
                    found.append(other)
    return found
