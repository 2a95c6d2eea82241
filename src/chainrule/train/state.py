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


class State:
    """Parameters and optimizer arrays after `steps` training steps; made by `TrainingStep.init`.

    The one object that changes: a step that succeeds replaces all arrays at once, a step that
    fails none.  What is read out (`state["W1"]`, `state["params"]`, `state.parameters`) is a copy,
    also while a step is running.  Two steps at a time are refused.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        parameters: tuple[str, ...],
        structures: Mapping[str, Structure],
    ) -> None:
        self._now = (_frozen(arrays), 0)
        self._parameters, self._structures = parameters, dict(structures)
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Any:
        """A copy of the parameter, container of parameters, or optimizer array called `name`."""
        arrays, _ = self._now
        if name in arrays:
            return arrays[name].copy()
        structure = self._structures.get(name)
        if structure is None:
            raise NameLookupError(
                f"the state has no parameter called {name!r}",
                hint=f"one of: {', '.join(dict.fromkeys([*self._structures, *arrays]))}",
            )
        return structure.unflatten([arrays[part].copy() for part in structure.leaf_names])

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of all parameters by name, containers taken apart."""
        arrays, _ = self._now
        return {name: arrays[name].copy() for name in self._parameters}

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return self._now[1]

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """All arrays themselves, read-only: the parameters, then the optimizer's."""
        return MappingProxyType(self._now[0])

    @contextmanager
    def held(self) -> Iterator[Mapping[str, np.ndarray]]:
        """The arrays, for one step at a time; StateError where another step holds them."""
        if not self._lock.acquire(blocking=False):
            raise StateError(
                "a step was begun on a state on which another step is still running",
                hint="one thread steps a state; let the others wait, or init states of their own",
            )
        try:
            yield self.arrays
        finally:
            self._lock.release()

    def advance(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays after a step; the caller holds the state."""
        self._now = (_frozen(arrays), self.steps + 1)  # one assignment: all of it or nothing

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {v.dtype.name}{list(v.shape)}" for k, v in self._now[0].items())
        return f"<State after {self.steps} steps: {shown}>"


def _frozen(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    for array in arrays.values():
        array.setflags(write=False)
    return dict(arrays)
