"""Copies of arguments on a CPU where JAX reads them without another copy.

JAX reads an array of NumPy in place if it is in C order and begins with a cache line, which few do
but those of files that are mapped and its own.  It copies others in each call, into new memory
whose pages the system fills with zeros first.  So large ones are copied here, into memory that is
kept: `spare`, of all programs together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import copyto, ndarray

from chainrule.execute.aligned import block
from chainrule.execute.xla.ahead import has_own_memory
from chainrule.execute.xla.jax_here import jax_here, refuse_traced
from chainrule.graph.node import Node
from chainrule.schedule.records import ALIGNMENT

LARGE = 1 << 17  # bytes from which malloc asks the system for new pages
MOST, MANY = 1 << 28, 64  # bytes, and blocks, that are kept
OFFSET = 16  # bytes from a cache line on, so that an array does not begin with one


class Spare:
    """Blocks of memory that nothing reads, by their ids, the oldest first.

    Threads and the handlers of signals may come in between any two lines: each takes or gives a
    block in one operation, and nothing is noted beside.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of all."""
        return sum([one.nbytes for one in list(self.blocks.values())])

    def take(self, nbytes: int) -> np.ndarray:
        """A block of so many bytes, which begins with a cache line."""
        for key, one in list(self.blocks.items()):
            if one.nbytes == nbytes and self.blocks.pop(key, None) is not None:
                return one
        return block(nbytes)

    def give(self, one: np.ndarray) -> None:
        """Keep a block, and drop the oldest where there is too much."""
        self.blocks[id(one)] = one
        for key in list(self.blocks):
            if len(self.blocks) <= MANY and self.nbytes <= MOST:
                break
            self.blocks.pop(key, None)

    def drop(self) -> None:
        """Keep none."""
        self.blocks.clear()


spare = Spare()


class Landing:
    """Which of the arrays that are given for nodes are copied for a call."""

    def __init__(self, given: Iterable[Node]) -> None:
        nodes = () if has_own_memory() else given
        self.slots = [slot for slot, one in enumerate(nodes) if int(one.type.nbytes) >= LARGE]

    def land(self, arrays: list[Any]) -> list[np.ndarray]:
        """Replace those of the arguments that JAX would copy; the memory they are in now is for
        `leave`, once the call has ended."""
        landed = []
        for slot in self.slots:
            array = arrays[slot]
            if type(array) is ndarray and is_copied(array):
                there = spare.take(array.nbytes)
                arrays[slot] = _laid(array, there)
                landed.append(there)
        return landed


def leave(landed: Iterable[np.ndarray]) -> None:
    """Nothing reads this memory any more."""
    for one in landed:
        spare.give(one)


def is_copied(array: np.ndarray) -> bool:
    """Whether JAX copies an array that is in memory which a CPU reads."""
    found = array.__array_interface__
    return found["strides"] is not None or found["data"][0] % ALIGNMENT != 0


def own_copy(array: np.ndarray) -> np.ndarray:
    """What JAX may read in place, as nobody else has it.  On a CPU, whether `may_alias=False` or
    not, it does so where an array, or the part for a device, is not to be copied (`is_copied`), and
    copies others after it has returned."""
    return array if has_own_memory() else _laid(array, block(array.nbytes))


def copied_by_jax(array: np.ndarray) -> Any:
    """A copy on the device that calls can overwrite, as they cannot what is read in place."""
    if not (has_own_memory() or is_copied(array)):
        array = _laid(array, block(array.nbytes + OFFSET)[OFFSET:])
    found = jax_here().device_put(array, may_alias=False)
    refuse_traced(found)
    return found if has_own_memory() else found.block_until_ready()


def _laid(array: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """A copy of an array in memory of as many bytes."""
    found = memory.view(array.dtype).reshape(array.shape)
    copyto(found, array)
    return found
