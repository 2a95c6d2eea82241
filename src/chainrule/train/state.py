"""A `State` is what lives from one training step to the next: parameters and optimizer arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from chainrule.errors import NameLookupError, StateError
from chainrule.graph.structure import Structure

ALIGNMENT = 64  # bytes; the arrays of a state begin at multiples of it


class State:
    """Parameters and optimizer arrays after `steps` training steps; made by `TrainingStep.init`.

    The one object that changes: all arrays lie in one piece of memory, which a step that succeeds
    updates in place, and a step that fails does not touch.  What is read out (`state["W1"]`,
    `state["params"]`, `state.parameters`) is a copy, and waits while a step is running.  Two steps
    at a time are refused.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        parameters: tuple[str, ...],
        structures: Mapping[str, Structure],
    ) -> None:
        self._memory = _in_one_arena(arrays)
        self._views = {name: _read_only(array) for name, array in self._memory.items()}
        self._steps = 0
        self._parameters, self._structures = parameters, dict(structures)
        self._stepping, self._updating = threading.Lock(), threading.Lock()
        # What the native executor has bound to this memory, by concrete graph; the last one first.
        self.bound: dict[Any, Any] = {}
        self.latest: Any = None

    def __getitem__(self, name: str) -> Any:
        """A copy of the parameter, container of parameters, or optimizer array called `name`."""
        with self._updating:
            if name in self._memory:
                return self._memory[name].copy()
            structure = self._structures.get(name)
            if structure is not None:
                return structure.unflatten([self._memory[n].copy() for n in structure.leaf_names])
        known = dict.fromkeys([*self._structures, *self._memory])
        raise NameLookupError(
            f"the state has no parameter called {name!r}", hint=f"one of: {', '.join(known)}"
        )

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of all parameters by name, containers taken apart."""
        with self._updating:
            return {name: self._memory[name].copy() for name in self._parameters}

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return self._steps

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """All arrays themselves, read-only: the parameters, then the optimizer's.

        A step changes them.
        """
        return MappingProxyType(self._views)

    @contextmanager
    def held(self) -> Iterator[Mapping[str, np.ndarray]]:
        """The arrays, for one step at a time; StateError where another step holds them."""
        self.begin()
        try:
            yield self.arrays
        finally:
            self.end()

    def begin(self) -> None:
        """Hold the state for a step; StateError where another step holds it."""
        if not self._stepping.acquire(blocking=False):
            raise StateError(
                "a step was begun on a state on which another step is still running",
                hint="one thread steps a state; let the others wait, or init states of their own",
            )
        self._updating.acquire()

    def end(self, steps: int = 0) -> None:
        """Let go of the state, after so many steps."""
        self._steps += steps
        self._updating.release()
        self._stepping.release()

    def advance(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays after a step; the caller holds the state."""
        for name, array in arrays.items():
            self._memory[name][...] = array
        self._steps += 1

    @property
    def memory(self) -> Mapping[str, np.ndarray]:
        """The arrays for who holds the state, to be updated in place."""
        return self._memory

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {v.dtype.name}{list(v.shape)}" for k, v in self._views.items())
        return f"<State after {self._steps} steps: {shown}>"


def _in_one_arena(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Copies of the arrays, in C order, one after another in one piece of memory."""
    offsets: dict[str, int] = {}
    total = 0
    for name, array in arrays.items():
        offsets[name] = total
        total += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    memory = np.empty(total + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    found = {}
    for name, array in arrays.items():
        place = memory[start + offsets[name] :]
        copy = np.ndarray(array.shape, array.dtype, place.data) if array.nbytes else array.copy()
        copy[...] = array
        found[name] = copy
    return found


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view
