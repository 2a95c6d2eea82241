"""Makes keys for the random inputs of an objective, such as dropout: one per step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.primitives.threefry import encrypt
from chainrule.random import fold_in

AT_ONCE = 256  # steps whose keys are made together: one alone takes 100 µs
ORDER = 0  # which part of a training's key the order of the rows comes from
EVALUATION = 2**32 - 1  # and what is random in an evaluation


def key_inputs(graph: Graph, given: Iterable[str]) -> tuple[str, ...]:
    """The inputs of the type uint32[2] that nobody gives: those are keys."""
    others = set(given)
    return tuple(
        item.name
        for item in graph.inputs
        if item.name not in others and item.type.dtype == np.uint32 and item.type.shape == (2,)
    )


class Keys:
    """`keys.at(t)`: the i-th input (from 1) gets fold_in(fold_in(key, i), t)."""

    def __init__(self, names: Iterable[str], key: np.ndarray) -> None:
        self.names = tuple(names)
        self._own = [fold_in(key, index) for index in range(1, len(self.names) + 1)]
        self._made: tuple[int, list[np.ndarray]] = (-1, [])

    def at(self, number: int) -> dict[str, np.ndarray]:
        """The keys by the names of the inputs."""
        block, place = divmod(number, AT_ONCE)
        known, made = self._made  # read at once: another thread may ask for other numbers
        if block != known:
            made = [_folded(key, block * AT_ONCE) for key in self._own]
            self._made = block, made
        return {name: keys[place] for name, keys in zip(self.names, made, strict=True)}


def _folded(key: np.ndarray, first: int) -> np.ndarray:
    """fold_in(key, first), fold_in(key, first + 1), ...: uint32[AT_ONCE, 2]."""
    data = np.arange(first, first + AT_ONCE).astype(np.uint32)
    words = np.zeros_like(data), data
    encrypt(key[0], key[1], *words)  # in place
    return np.stack(words, axis=-1)
