"""Runs the program of one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from chainrule.devices.instructions import (
    FREEING,
    AllGather,
    AllReduce,
    Await,
    Begin,
    Clear,
    Key,
    Program,
    Receive,
    ReduceScatter,
    Run,
    Send,
)
from chainrule.devices.pieces import Piece
from chainrule.errors import ChainruleError
from chainrule.graph.node import Node

Watch = Callable[[], None]
Commit = tuple[int, Callable[[], bool]]
# The code of a piece: its results from its inputs, in those arrays that are given for them, or not.
Code = Callable[[dict[Node, np.ndarray], Mapping[Node, np.ndarray]], Mapping[Node, np.ndarray]]


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
        """The sums of the arrays of the ranks of a group, added in their order; in C order."""
        ...

    def all_gather(self, one: AllGather, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the ranks of a group have, joined along axes; in C order."""
        ...

    def reduce_scatter(self, one: ReduceScatter, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's parts, along axes, of what `all_reduce` gives; in C order."""
        ...

    def add(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Makes such a sum in the arrays themselves, which are in C order."""
        ...

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Begins such a sum, in the arrays themselves, and goes on; they are in C order."""
        ...

    def wait(self, one: AllReduce) -> None:
        """Waits until a sum that was begun is there."""
        ...


def run_program(
    program: Program,
    pieces: Sequence[Piece],
    compiled: Sequence[Code],
    there: dict[Key, np.ndarray],
    transport: Transport,
    watch: Watch | None = None,
    commit: Commit | None = None,
    note: Callable[[ChainruleError, int], None] | None = None,
    places: Mapping[Key, np.ndarray] = MappingProxyType({}),
) -> dict[Key, np.ndarray]:
    """The results of a rank, by key; `compiled[i]` is the code of piece i.

    `there` has the values that are given, and is taken over: it has those of each moment, so that
    nothing is kept that is not needed any more.  `watch` is called before the first instruction,
    and after each.  `commit` has a place in the program, and what is called there: where that is
    False, no piece runs from there on, and its results are missing.  `note` notes of which
    micro-batch an error is.  What is sent may be computed in the arrays of `places`, each of them
    written once.
    """
    free = dict(places)
    if watch is not None:
        watch()
    place, call = (len(program.instructions), None) if commit is None else commit
    runs = True
    for at, one in enumerate(program.instructions):
        if at == place and call is not None:
            runs = call()
        match one:
            case Run() if not runs:
                pass
            case Run():
                try:
                    _run(one, pieces[one.piece], compiled[one.piece], there, free)
                except ChainruleError as error:
                    if one.micro_batch is not None and note is not None:
                        note(error, one.micro_batch)
                    raise
            case Send():
                transport.send(one.key, there[one.key], one.to)
            case Receive():
                there[one.key] = transport.receive(one.key, one.sender)
            case Clear():
                _clear(one, there)
            case AllReduce(in_place=True):
                transport.add(one, _in_order(one, there))
            case AllReduce():
                _all_reduce(one, there, transport)
            case AllGather():
                _exchange(one, there, transport.all_gather)
            case ReduceScatter():
                _exchange(one, there, transport.reduce_scatter)
            case Begin():
                transport.begin(one.sum, _in_order(one.sum, there))
            case Await():
                transport.wait(one.sum)
        if isinstance(one, FREEING):
            for key in one.frees:
                there.pop(key, None)
        if watch is not None:
            watch()
    if place == len(program.instructions) and call is not None:
        runs = call()
    return {key: there[key] for key in program.results if runs or key in there}


# Functions of their own, whose variables end with them: else arrays would outlive their use.


def _run(
    one: Run,
    piece: Piece,
    compiled: Code,
    there: dict[Key, np.ndarray],
    free: dict[Key, np.ndarray],
) -> None:
    reads = zip(piece.reads.values(), one.reads, strict=True)
    gives = list(zip(piece.gives.values(), one.gives, strict=True))
    into = {node: free.pop(key) for node, key in gives if key in free}
    found = compiled({node: there[key] for node, key in reads}, into)
    for node, key in gives:
        there[key] = found[node]


def _clear(one: Clear, there: dict[Key, np.ndarray]) -> None:
    for key in one.keys:
        there[key][...] = 0


def _all_reduce(one: AllReduce, there: dict[Key, np.ndarray], transport: Transport) -> None:
    arrays = [there[key] for key in one.keys]
    sums = transport.all_reduce(one.keys, arrays, one.group)
    there.update(zip(one.keys, sums, strict=True))


def _in_order(one: AllReduce, there: dict[Key, np.ndarray]) -> list[np.ndarray]:
    """The arrays of a sum, which take its place, in C order."""
    for key in one.keys:
        there[key] = np.asarray(there[key], order="C")
    return [there[key] for key in one.keys]


def _exchange(
    one: AllGather | ReduceScatter, there: dict[Key, np.ndarray], exchange: Callable[..., Any]
) -> None:
    found = exchange(one, [there[key] for key in one.reads])
    there.update(zip(one.gives, found, strict=True))
