"""Runs a rank of a split step alone: what others send it was noted in a step that all took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from chainrule.devices.instructions import AllReduce, Key, Program
from chainrule.devices.rank import run_program
from chainrule.devices.threads import ThreadTransport


class Alone:
    """A transport that gives copies of what was noted, and lets go of what is sent."""

    def __init__(self, rank: int, noted: dict[tuple[int, Key], np.ndarray]) -> None:
        self.rank, self.noted = rank, noted

    def send(self, key: Key, array: np.ndarray, to: int) -> None:
        """Nothing: who receives it has a copy."""

    def receive(self, key: Key, sender: int) -> np.ndarray:
        return np.copy(self.noted[self.rank, key], order="K")

    def all_reduce(
        self, keys: tuple[Key, ...], arrays: Sequence[np.ndarray], group: tuple[int, ...]
    ) -> list[np.ndarray]:
        return [np.copy(self.noted[self.rank, key], order="K") for key in keys]

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        for key, array in zip(one.keys, arrays, strict=True):
            array[...] = self.noted[self.rank, key]

    def wait(self, one: AllReduce) -> None:
        """It is there."""


@contextmanager
def noting(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[int, Key], np.ndarray]]:
    """What ranks receive and add up meanwhile, by rank and key."""
    found: dict[tuple[int, Key], np.ndarray] = {}
    receive, all_reduce = ThreadTransport.receive, ThreadTransport.all_reduce
    add = ThreadTransport.add

    def received(self: ThreadTransport, key: Key, sender: int) -> np.ndarray:
        array = receive(self, key, sender)
        found[self.rank, key] = np.copy(array, order="K")
        return array

    def added(self: ThreadTransport, keys: Any, arrays: Any, group: Any) -> list[np.ndarray]:
        sums = all_reduce(self, keys, arrays, group)
        found.update({(self.rank, key): np.copy(one) for key, one in zip(keys, sums, strict=True)})
        return sums

    def helped(self: ThreadTransport, one: AllReduce, arrays: Any) -> float:
        ready = add(self, one, arrays)
        pairs = zip(one.keys, arrays, strict=True)
        found.update({(self.rank, key): np.copy(array) for key, array in pairs})
        return ready

    with monkeypatch.context() as patched:
        patched.setattr(ThreadTransport, "add", helped)
        patched.setattr(ThreadTransport, "receive", received)
        patched.setattr(ThreadTransport, "all_reduce", added)
        yield found


class RanksAlone:
    """A split step of which ranks can be run one by one, on the state before that step."""

    def __init__(self, step: Any, weights: Any, batch: Any, patched: pytest.MonkeyPatch) -> None:
        self.step, self.state = step, step.init(weights)
        with noting(patched) as self.noted:
            step(step.init(weights), batch)
        parts = step.parts.split_batch(self.state, batch)
        self.split = step._split(parts[0])
        numbers = {
            item.name: np.asarray(item.default, item.type.dtype)
            for item in step.parts.updating.graph.inputs
            if item.default is not None
        }
        self.given = step._given(self.split, self.state, parts, numbers)

    def run(self, rank: int) -> dict[Key, np.ndarray]:
        """The results of a rank; all that it makes is made here."""
        program: Program = self.split.programs[rank]
        there = self.step._at_first(self.split, program, self.state, self.given)
        transport = Alone(rank, self.noted)
        return run_program(program, self.split.pieces, self.split.code, there, transport)
