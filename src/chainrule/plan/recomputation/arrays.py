"""The numbers of a program as NumPy's arrays; lists of lists are flat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.machine_code.translate import Ints

Array = np.ndarray


class Rows(NamedTuple):
    """All rows one after another: row v is `values[begins[v] : begins[v + 1]]`."""

    begins: Array
    values: Array

    def of(self, numbers: Array) -> tuple[Array, Array]:
        """Rows one after another: for each value, the place of its row in `numbers`, and the
        value."""
        begins = self.begins[numbers]
        counts = self.begins[numbers + 1] - begins
        ends = np.cumsum(counts)
        which = np.repeat(np.arange(len(numbers)), counts)
        within = np.arange(len(which)) - (ends - counts)[which]
        return which, self.values[begins[which] + within]


@dataclass(frozen=True, eq=False)
class Arrays:
    """Those of a problem, by the same names; what is true of some nodes is 1 for these, else 0."""

    nbytes: Array
    cost: Array
    workspace: Array
    inputs: Rows
    readers: Rows
    earlier: Rows
    later: Rows
    before: Array  # two rows
    kept: Array
    once: Array
    fixed: Array


class Numbers:
    """Those of a program in a state of machine code: lists of lists are flat, with the place where
    each begins (`inputs_from[v]` up to `inputs_from[v + 1]`)."""

    inputs_from: Ints
    inputs: Ints
    readers_from: Ints
    readers: Ints
    earlier_from: Ints
    earlier: Ints
    nbytes: Ints
    workspace: Ints
    kept: Ints
    once: Ints
    nodes: int
    budget: int


def put(state: Numbers, arrays: Arrays, names: Iterable[str]) -> None:
    """Lets a state have the arrays with these names."""
    for name in names:
        found = getattr(arrays, name)
        if isinstance(found, Rows):
            setattr(state, name + "_from", found.begins)
            found = found.values
        setattr(state, name, found)


def rows_of(lists: Sequence[Sequence[int]]) -> Rows:
    """The rows with these values."""
    begins = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(one) for one in lists], dtype=np.int64, out=begins[1:])
    values = np.fromiter(chain.from_iterable(lists), np.int64, int(begins[-1]))
    return Rows(begins, values)


def flags(size: int, numbers: Iterable[int]) -> Array:
    """1 at these numbers."""
    found = np.zeros(size, np.int64)
    found[list(numbers)] = 1
    return found
