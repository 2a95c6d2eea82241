"""Large arguments of calls on a CPU, where JAX can read them without a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy import copyto, ndarray

from chainrule.execute.aligned import block
from chainrule.execute.xla.ahead import has_own_memory
from chainrule.graph.node import Node
from chainrule.schedule.records import ALIGNMENT

LARGE = 1 << 17  # bytes from which malloc asks the system for new pages, each with zeros in it


class Landing:
    """Memory for arrays that are given for nodes.

    JAX reads an array in place if it is in C order and begins with a cache line, which those of
    NumPy seldom do.  It copies others into new memory in each call; here they are copied into
    memory that is there: `free` has it by place.
    """

    def __init__(self, given: Iterable[Node]) -> None:
        nodes = () if has_own_memory() else given
        self.slots = [slot for slot, one in enumerate(nodes) if int(one.type.nbytes) >= LARGE]
        self.free: dict[int, np.ndarray] = {}

    def land(self, arrays: list[Any]) -> dict[int, np.ndarray]:
        """Replace those of the arguments that JAX would copy; where they lie now, by place, is for
        `leave`.  Several threads may call at once."""
        landed = {}
        for slot in self.slots:
            array = arrays[slot]
            if type(array) is ndarray and is_copied(array):
                there = self.free.pop(slot, None)
                if there is None:
                    there = block(array.nbytes).view(array.dtype).reshape(array.shape)
                copyto(there, array)
                arrays[slot] = landed[slot] = there
        return landed

    def leave(self, landed: Mapping[int, np.ndarray]) -> None:
        """Nothing reads this memory any more."""
        self.free.update(landed)


def is_copied(array: np.ndarray) -> bool:
    """Whether JAX copies an array that is in memory which a CPU reads."""
    found = array.__array_interface__
    return found["strides"] is not None or found["data"][0] % ALIGNMENT != 0
