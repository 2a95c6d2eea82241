"""Runs a rank of a split step alone: what others send it was noted in a step that all took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from chainrule.devices.given import at_first, given_to_ranks
from chainrule.devices.instructions import AllReduce, Key, Program
from chainrule.devices.messages import Lent, computed_there
from chainrule.devices.rank import run_program
from chainrule.devices.replicas import codes
from chainrule.devices.threads import ThreadTransport

Places = Mapping[tuple[int, Key], np.ndarray]


class Alone:
    """A transport that gives copies of what was noted, and lets go of what is sent."""

    def __init__(self, rank: int, noted: dict[tuple[int, Key], np.ndarray], lent: Places) -> None:
        self.rank, self.noted, self.lent = rank, noted, lent
        self.copied: list[Key] = []  # of what is lent, what was not computed there

    def send(self, key: Key, array: np.ndarray, to: int) -> None:
        """What is not lent, the others have a copy of."""
        if (self.rank, key) in self.lent and array is not self.lent[self.rank, key]:
            self.copied.append(key)

    def receive(self, key: Key, sender: int) -> np.ndarray:
        if (sender, key) in self.lent:
            self.lent[sender, key][...] = self.noted[self.rank, key]
            return self.lent[sender, key]
        return np.copy(self.noted[self.rank, key], order="K")

    def all_reduce(
        self, keys: tuple[Key, ...], arrays: Sequence[np.ndarray], group: tuple[int, ...]
    ) -> list[np.ndarray]:
        return [np.copy(self.noted[self.rank, key], order="K") for key in keys]

    def add(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> float:
        for key, array in zip(one.keys, arrays, strict=True):
            array[...] = self.noted[self.rank, key]
        return 0.0

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        self.add(one, arrays)

    def wait(self, one: AllReduce) -> None:
        """It is there."""

    def all_gather(self, one: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.copy(self.noted[self.rank, key]) for key in one.gives]

    reduce_scatter = all_gather


@contextmanager
def noting(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[int, Key], np.ndarray]]:
    """What ranks receive and add up meanwhile, by rank and key."""
    found: dict[tuple[int, Key], np.ndarray] = {}
    receive, all_reduce = ThreadTransport.receive, ThreadTransport.all_reduce
    add = ThreadTransport.add
    exchanges = {name: getattr(ThreadTransport, name) for name in ("all_gather", "reduce_scatter")}

    def received(self: ThreadTransport, key: Key, sender: int) -> np.ndarray:
        array = receive(self, key, sender)
        found[self.rank, key] = np.copy(array, order="K")
        return array

    def added(self: ThreadTransport, keys: Any, arrays: Any, group: Any) -> list[np.ndarray]:
        sums = all_reduce(self, keys, arrays, group)
        found.update({(self.rank, key): np.copy(one) for key, one in zip(keys, sums, strict=True)})
        return sums

    def helped(self: ThreadTransport, one: AllReduce, arrays: Any) -> None:
        add(self, one, arrays)
        pairs = zip(one.keys, arrays, strict=True)
        found.update({(self.rank, key): np.copy(array) for key, array in pairs})

    def exchanged(name: str) -> Any:
        def noted(self: ThreadTransport, one: Any, arrays: Any) -> list[np.ndarray]:
            made = exchanges[name](self, one, arrays)
            pairs = zip(one.gives, made, strict=True)
            found.update({(self.rank, key): np.copy(array) for key, array in pairs})
            return made

        return noted

    with monkeypatch.context() as patched:
        for name in exchanges:
            patched.setattr(ThreadTransport, name, exchanged(name))
        patched.setattr(ThreadTransport, "add", helped)
        patched.setattr(ThreadTransport, "receive", received)
        patched.setattr(ThreadTransport, "all_reduce", added)
        yield found


NOTHING: Lent = {}


class RanksAlone:
    """A split step of which ranks can be run one by one, on the state before that step."""

    def __init__(self, step: Any, weights: Any, batch: Any, patched: pytest.MonkeyPatch) -> None:
        self.step, self.state = step, step.init(weights)
        with noting(patched) as self.noted:
            step(step.init(weights), batch)
        parts = step.parts.split_batch(self.state, batch)
        self.split = step.split_for(parts[0])
        numbers = {
            item.name: np.asarray(item.default, item.type.dtype)
            for item in step.parts.updating.graph.inputs
            if item.default is not None
        }
        grid = self.split.lying.grid
        shown = {(grid.replica_of(rank), key.value): one for (rank, key), one in self.noted.items()}
        self.code = codes(self.split.code, self.split.replicas_read, shown)
        self.given = given_to_ranks(step.parts, self.split, self.state, parts, numbers)

    def parts_nbytes(self, rank: int) -> int:
        """The bytes of what is copied of the state for a rank among threads: its parts of arrays
        that do not lie alone."""
        split, program = self.split, self.split.programs[rank]
        there = at_first(self.step.parts, split, program, self.state, self.given)
        parts = [there.get(Key(split.names[name], None)) for name in split.lying.cuts]
        return sum(one.nbytes for one in parts if one is not None and one.base is None)

    def run(self, rank: int, lent: Lent = NOTHING) -> dict[Key, np.ndarray]:
        """The results of a rank; all that it makes is made here, also memory for what is lent."""
        program: Program = self.split.programs[rank]
        there = at_first(self.step.parts, self.split, program, self.state, self.given)
        types = {
            (owner, key): self.split.values[key.value][1]
            for (owner, key), readers in lent.items()
            if rank in (owner, *readers)
        }
        memory = {key: np.empty(one.shape, one.dtype) for key, one in types.items()}
        places = {key: memory[rank, key] for key in computed_there(program, memory)}
        transport = Alone(rank, self.noted, memory)
        found = run_program(program, self.split.pieces, self.code, there, transport, places=places)
        self.copied = transport.copied
        return found
