"""Takes a step as one rank of a job: every rank calls it, and each does its part.

The ranks first agree that they take the same step on the same batch; at the end they share the
objective, and what all of them need for the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.devices.agreement import agree, begin_comparing, digest_of
from chainrule.devices.cores import blas_held_to
from chainrule.devices.instructions import COLLECTIVES, Begin, Key, Program
from chainrule.devices.job import folder
from chainrule.devices.messages import Messages, computed_there, messages
from chainrule.devices.mpi import Lane, World
from chainrule.devices.rank import Code, run_program
from chainrule.devices.replicas import codes
from chainrule.devices.shown import shown_of
from chainrule.devices.tensor.step import Lying
from chainrule.devices.transport import MPITransport
from chainrule.errors import InputError, StateError
from chainrule.train.step.state import State

if TYPE_CHECKING:
    from chainrule.devices.reports.measuring import Clock
    from chainrule.devices.splitting import Split


@dataclass(frozen=True, eq=False)
class Shares:
    """Which rank has which arrays: `keeps[rank]` are those of the state that a rank has, or has its
    part of, as they are `lying`; `owners` says which ranks give each of them, or its parts, to
    others.

    `told` are the numbers of values that all ranks have at the end of a step, and who tells them.
    """

    keeps: tuple[frozenset[str], ...]
    owners: Mapping[str, tuple[int, ...]]
    lying: Lying
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
    owners: dict[str, tuple[int, ...]] = {}
    told: list[tuple[int, int]] = []
    for name, number in split.ends.items():
        makers = [rank for rank in ranks if number in results[rank]]
        readers = [rank for rank in ranks if split.names.get(name) in given[rank]]
        if name not in names:  # the objective
            readers = list(ranks)
        if set(readers) - set(makers):
            told.append((number, makers[0]))
        if name in names:
            _, type_ = split.values[number]
            shape = split.lying.whole_shape(name, type_.shape)
            first = {str(split.lying.part(name, shape, rank)): rank for rank in reversed(makers)}
            owners[name] = tuple(sorted(first.values()))
            for rank in {*makers, *readers}:
                keeps[rank].add(name)
    for name in names:
        if name not in owners:  # never changes
            owners[name] = (0,)
            for one in keeps:
                one.add(name)
    types = {number: kind for number, (_, kind) in split.values.items()}
    return Shares(
        tuple(map(frozenset, keeps)),
        owners,
        split.lying,
        tuple(told),
        messages(programs, types),
        digest_of(split),
    )


def run_as_rank(
    world: World,
    split: Split,
    state: State,
    batch: Iterable[np.ndarray],
    numbers: Mapping[str, np.ndarray],
    first: Callable[[Program], dict[Key, np.ndarray]],
    clock: Clock | None = None,
) -> dict[int, np.ndarray]:
    """Runs the program of this rank; gives its results, and what all ranks have, by number.

    `numbers` are those of the optimizer; `first` gives what a rank has at first, `clock` measures
    it.

    InputError on all ranks where they were given different steps, batches, numbers or states.
    """
    waits = bool(shares_of(split, state.outlines_only).messages.tags)
    # Else nobody has time to read it later; and a state that is whole is to stay so if refused.
    later = waits and state.shares is not None
    shares = begun(world, split, state, numbers, () if later else batch)
    world.broken = kept = []  # if it fails, its buffers stay: messages may still come
    program = split.programs[world.rank]
    shown = shown_of(world, split)
    code = codes(split.code, split.replicas_read, shown.arrays)

    @cache
    def compared() -> Callable[[], InputError | None]:
        return begin_comparing(world, state, batch) if later else lambda: None

    def name(key: Key) -> str:
        return _name(split, key.value, key.micro_batch)

    transport = MPITransport(world, program, shares.messages, name, shown, compared)
    kept.append(transport)
    where = folder()

    def noted(number: int) -> Code:
        text = f"is in step {state.steps + 1}, at {split.pieces[number].name}"
        compute = code[number]

        def run(inputs: Any, into: Any) -> Any:
            if where is not None:
                where.note(text)
            world.poll()
            return compute(inputs, into)

        return run

    groups = {lane for p in split.programs for lane in _lanes(p)}
    for ranks, by_helper in sorted(groups):  # here, by one thread, in the same order on all ranks
        if world.rank in ranks:
            world.group(ranks, by_helper)

    def committed() -> bool:
        begun = perf_counter()
        split.make_ready(world.rank)
        transport.flush()
        refused = compared()
        world.meet()
        refusal = refused()
        if clock is not None:
            clock.commit = begun, perf_counter()
        if refusal is not None:
            transport.finish()
            world.broken = None
            raise refusal
        return True

    places = {key: shown.lent[world.rank, key] for key in computed_there(program, shown.lent)}
    compiled = [noted(number) for number in range(len(split.pieces))]
    with blas_held_to(split.threads):
        commit = split.commits.at[world.rank], committed
        watch = None if clock is None else clock.watch
        there = {**first(program), **shown.own}
        found = run_program(
            program, split.pieces, compiled, there, transport, watch, commit, split.note, places
        )
    transport.finish()
    if clock is not None:
        clock.sums = transport.helper.log
    results = {key.value: np.asarray(array, order="C") for key, array in found.items()}
    for number, root in shares.told:
        if world.rank != root:
            kind = shares.messages.types[number]
            results[number] = np.empty(kind.shape, kind.dtype)
        world.broadcast(results[number], root)
    world.broken = None
    if where is not None:
        where.note(f"has done its part of step {state.steps + 1}")
    return results


def begun(
    world: World,
    split: Split,
    state: State,
    numbers: Mapping[str, np.ndarray],
    batch: Iterable[np.ndarray] = (),
) -> Shares:
    """Agrees with the other ranks on a step, and lets the state have this rank's arrays alone;
    raises as `run_as_rank`."""
    if world.broken is not None:
        raise StateError(
            "an earlier step has failed on this rank, and others wait for it",
            hint="let the error of a step end the job; checkpoints resume it",
        )
    shares = shares_of(split, state.outlines_only)
    agree(world, split, shares.digest, state, numbers, batch)
    share_out(world, state, shares)
    return shares


def _lanes(program: Program) -> Iterator[Lane]:
    """With which ranks a rank does something together, itself or by its helper."""
    for one in program.instructions:
        if isinstance(one, Begin):
            yield one.sum.group, True
        elif isinstance(one, COLLECTIVES):
            yield one.group, False


def share_out(world: World, state: State, shares: Shares) -> None:
    """Lets the state have the arrays of this rank alone, and its parts of arrays."""
    before, lying = state.shares, shares.lying
    if before is not None and (before.keeps, before.lying) == (shares.keeps, lying):
        return
    whole = state.memory if before is None else gathered(world, state)
    keeps = shares.keeps[world.rank]
    state.hold(
        {
            name: array[lying.part(name, array.shape, world.rank)]
            for name, array in whole.items()
            if name in keeps
        },
        {
            name: _stand_in(array)
            for name, array in whole.items()
            if name not in keeps or name in lying.cuts
        },
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
    for name, owners in state.shares.owners.items():  # in the same order on all ranks
        if names is None or name in names:
            array = np.empty(outlines[name].shape, outlines[name].dtype)
            for owner in owners:
                _gather_part(world, state, name, array, owner, to)
            if to in (None, world.rank):
                found[name] = array
    return found


def _gather_part(
    world: World, state: State, name: str, array: np.ndarray, owner: int, to: int | None
) -> None:
    """Writes what one rank has of an array into the whole one, on all ranks or on one."""
    shares = state.shares
    where = shares.lying.part(name, array.shape, owner)
    part = np.empty_like(array[where], order="C")
    has_it = name in shares.keeps[world.rank]
    if has_it and shares.lying.part(name, array.shape, world.rank) == where:
        part[...] = state.memory[name]
    if to is None:
        world.broadcast(part, owner)
    elif world.rank in (owner, to) and owner != to:
        there = name in shares.keeps[to] and shares.lying.part(name, array.shape, to) == where
        if not there:
            world.move(part, owner, to)
    array[where] = part


def _name(split: Split, number: int, part: int | None) -> str:
    name = split.values[number][0]
    return name if part is None else f"{name} of part {part}"


def _stand_in(array: np.ndarray) -> np.ndarray:
    """An array of this shape and dtype without memory of its own."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)
