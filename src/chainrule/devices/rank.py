"""Runs the program of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from chainrule.devices.instructions import AllReduce, Key, Program, Receive, Run, Send
from chainrule.devices.pieces import Piece
from chainrule.execute.executor import Program as Compiled


class Transport(Protocol):
    """How a rank reaches the others.

    Arrays that were sent are not changed by anybody afterwards.
    """

    def send(self, key: Key, array: np.ndarray, to: int) -> None:
        """Begins to send an array to another rank, and goes on."""
        ...

    def receive(self, key: Key, sender: int) -> np.ndarray:
        """Waits for an array of another rank; StateError where none comes in time."""
        ...

    def all_reduce(
        self, keys: tuple[Key, ...], arrays: Sequence[np.ndarray], group: tuple[int, ...]
    ) -> list[np.ndarray]:
        """The sums of the arrays of the ranks of a group, added in their order."""
        ...


def run_program(
    program: Program,
    pieces: Sequence[Piece],
    compiled: Sequence[Compiled],
    given: Mapping[Key, np.ndarray],
    transport: Transport,
) -> dict[Key, np.ndarray]:
    """The results of a rank, by key; `compiled[i]` is the code of piece i."""
    there = {key: given[key] for key in program.given}
    for one in program.instructions:
        match one:
            case Run():
                piece = pieces[one.piece]
                inputs = {
                    node: there[key]
                    for node, key in zip(piece.reads.values(), one.reads, strict=True)
                }
                found = compiled[one.piece](inputs)
                for node, key in zip(piece.gives.values(), one.gives, strict=True):
                    there[key] = found[node]
            case Send():
                transport.send(one.key, there[one.key], one.to)
            case Receive():
                there[one.key] = transport.receive(one.key, one.sender)
            case AllReduce():
                arrays = [there[key] for key in one.keys]
                there.update(
                    zip(one.keys, transport.all_reduce(one.keys, arrays, one.group), strict=True)
                )
        if isinstance(one, (Run, Send)):
            for key in one.frees:
                del there[key]
    return {key: there[key] for key in program.results}
