"""Takes a step as one rank of a job: every rank calls it, and each does its part.

The ranks first agree that they take the same step on the same batch; at the end they share the
objective, and what all of them need for the next step.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.devices.cores import blas_held_to
from chainrule.devices.instructions import Key, Program
from chainrule.devices.job import folder
from chainrule.devices.messages import Messages, messages
from chainrule.devices.mpi import World
from chainrule.devices.rank import run_program
from chainrule.devices.transport import MPITransport
from chainrule.errors import InputError, StateError
from chainrule.graph.node import ArrayValue, structural_hash
from chainrule.train.step.state import State
from chainrule.version import VERSION

if TYPE_CHECKING:
    from chainrule.devices.splitting import Split

BLOCK = 64  # words of 8 bytes that are added up before they are mixed


@dataclass(frozen=True, eq=False)
class Shares:
    """Which rank has which arrays: `keeps[rank]` are those of the state that a rank has, and
    `owners` says which rank gives each of them to others.

    `told` are the numbers of values that all ranks have at the end of a step, and who tells them.
    """

    keeps: tuple[frozenset[str], ...]
    owners: Mapping[str, int]
    told: tuple[tuple[int, int], ...]
    messages: Messages
    digest: int


_shares: WeakKeyDictionary[Split, Shares] = WeakKeyDictionary()


def shares_of(split: Split, names: Iterable[str]) -> Shares:
    """The shares of a step whose state has arrays of these names."""
    if split not in _shares:
        _shares[split] = _shares_of(split, tuple(names))
    return _shares[split]


def _shares_of(split: Split, names: tuple[str, ...]) -> Shares:
    programs = split.programs
    given = [{key.value for key in one.given} for one in programs]
    results = [{key.value for key in one.results} for one in programs]
    ranks = range(len(programs))
    keeps: list[set[str]] = [set() for _ in ranks]
    owners: dict[str, int] = {}
    told: list[tuple[int, int]] = []
    for name, number in split.ends.items():
        makers = [rank for rank in ranks if number in results[rank]]
        readers = [rank for rank in ranks if split.names.get(name) in given[rank]]
        if name not in names:  # the objective
            readers = list(ranks)
        if set(readers) - set(makers):
            told.append((number, makers[0]))
        if name in names:
            owners[name] = makers[0]
            for rank in {*makers, *readers}:
                keeps[rank].add(name)
    for name in names:
        if name not in owners:  # never changes
            owners[name] = 0
            for one in keeps:
                one.add(name)
    types = {number: kind for number, (_, kind) in split.values.items()}
    return Shares(
        tuple(map(frozenset, keeps)),
        owners,
        tuple(told),
        messages(programs, types),
        _digest(split),
    )


def run_as_rank(
    world: World,
    split: Split,
    state: State,
    batch: Iterable[np.ndarray],
    first: Callable[[Program], dict[Key, np.ndarray]],
) -> dict[int, np.ndarray]:
    """Runs the program of this rank; gives its results, and what all ranks have, by number.

    `first` gives what a rank has at first.

    InputError on all ranks where they were given different steps, batches or states.
    """
    if world.broken is not None:
        raise StateError(
            "an earlier step has failed on this rank, and others wait for it",
            hint="let the error of a step end the job; checkpoints resume it",
        )
    shares = shares_of(split, state.outlines)
    _agree(world, split, shares, state, batch)
    share_out(world, state, shares)
    program = split.programs[world.rank]
    transport = MPITransport(
        world, program, shares.messages, lambda key: _name(split, key.value, key.micro_batch)
    )
    where = folder()

    def noted(number: int) -> Callable[[Any], Any]:
        text = f"is in step {state.steps + 1}, at {split.pieces[number].name}"
        compute = split.code[number]

        def run(inputs: Any) -> Any:
            if where is not None:
                where.note(text)
            world.poll()
            return compute(inputs)

        return run

    try:
        compiled = [noted(number) for number in range(len(split.pieces))]
        with blas_held_to(split.threads):
            found = run_program(program, split.pieces, compiled, first(program), transport)
        transport.finish()
        results = {key.value: np.asarray(array, order="C") for key, array in found.items()}
        for number, root in shares.told:
            if world.rank != root:
                kind = shares.messages.types[number]
                results[number] = np.empty(kind.shape, kind.dtype)
            world.broadcast(results[number], root)
    except BaseException:
        world.broken = transport  # its buffers stay: messages may still come
        raise
    if where is not None:
        where.note(f"has done its part of step {state.steps + 1}")
    return results


def share_out(world: World, state: State, shares: Shares) -> None:
    """Lets the state have the arrays of this rank alone."""
    if state.shares is not None and state.shares.keeps == shares.keeps:
        return
    whole = state.memory if state.shares is None else gathered(world, state)
    keeps = shares.keeps[world.rank]
    state.hold(
        {name: array for name, array in whole.items() if name in keeps},
        {name: _stand_in(array) for name, array in whole.items() if name not in keeps},
        shares,
    )


def gathered(
    world: World, state: State, names: Collection[str] | None = None, to: int | None = None
) -> dict[str, np.ndarray]:
    """All arrays of a state, or those of these names, on every rank, or on rank `to` alone.

    All ranks call it.
    """
    steps = world.gather("collects a state", np.array([state.steps], np.int64))[:, 0].tolist()
    if len(set(steps)) > 1:
        raise StateError(
            f"the states of ranks are after {steps} steps: no one state",
            hint="all ranks collect after the same step",
        )
    found, outlines = {}, state.outlines
    for name, owner in state.shares.owners.items():  # in the same order on all ranks
        if names is not None and name not in names:
            continue
        outline = outlines[name]
        if to is None:
            found[name] = np.empty(outline.shape, outline.dtype)
            if name in state.memory:
                found[name][...] = outline
            world.broadcast(found[name], owner)
        elif world.rank == to:
            found[name] = np.array(outline, order="C")
            if name not in state.memory:
                world.move(found[name], owner, to)
        elif world.rank == owner and name not in state.shares.keeps[to]:
            world.move(state.memory[name], owner, to)
    return found


def _agree(
    world: World, split: Split, shares: Shares, state: State, batch: Iterable[np.ndarray]
) -> None:
    arrays = 0 if state.shares is not None else _checksum(state.memory.values())
    own = np.array([shares.digest, state.steps, arrays, _checksum(batch)], np.uint64)
    told = world.gather("takes a step", own)
    differs = np.argwhere(told != told[0])
    if not differs.size:
        return
    column = int(differs[:, 1].min())
    other = int(next(rank for rank, at in differs if at == column))
    first, second = world.ranks[0], world.ranks[other]
    if column == 0:
        texts = world.exchange("takes a step", split.text)
        raise InputError(
            f"{second} takes another step than {first}:\n  {texts[other]}\n  {texts[0]}",
            hint="run the same file, with the same data and version, on all ranks",
        )
    if column == 1:
        raise InputError(
            f"{second} has a state after {told[other, 1]} steps, {first} after {told[0, 1]}",
            hint="all ranks restore the same checkpoint",
        )
    what = {2: "begins with other parameters than", 3: "was given another batch than"}[column]
    raise InputError(
        f"{second} {what} {first}, in step {state.steps + 1}",
        hint="every rank is given the whole batch and all parameters: seed generators alike, as in "
        "np.random.default_rng(0)",
    )


def _digest(split: Split) -> int:
    """What the ranks compare: graphs, their constants, programs, version."""
    found = hashlib.sha256(f"{VERSION}|{split.text}|{split.programs}".encode())
    for piece in split.pieces:
        found.update(structural_hash(piece.graph.nodes).encode())
        for node in piece.graph.nodes:
            for _, value in node.params:
                if isinstance(value, ArrayValue):
                    found.update(value.sha256.encode())
    return int.from_bytes(found.digest()[:8], "little")


def _checksum(arrays: Iterable[np.ndarray]) -> int:
    """A number that other arrays hardly share: sums of blocks, mixed; takes the time of reading."""
    found = 0
    for array in arrays:
        whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        blocks = whole.size // (8 * BLOCK)
        words = whole[: blocks * 8 * BLOCK].view(np.uint64).reshape(blocks, BLOCK)
        found = zlib.crc32(np.add.reduce(words, axis=1).data, found)
        found = zlib.crc32(whole[blocks * 8 * BLOCK :].data, found)
    return found


def _name(split: Split, number: int, part: int | None) -> str:
    name = split.values[number][0]
    return name if part is None else f"{name} of part {part}"


def _stand_in(array: np.ndarray) -> np.ndarray:
    """An array of this shape and dtype without memory of its own."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)
