"""Says how the arrays of one program lie on a grid of devices that run it together.

An executor that can run such a program has methods more than others (see `Spreading`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

Cut = tuple[str, int]  # an axis of the grid, and the axis of an array that is cut along it


@dataclass(frozen=True, eq=False)
class Across:
    """How the inputs and results of a graph, which every device of a grid computes, are cut.

    `axes` are the names and lengths of the axes of the grid; its devices are numbered in C order.
    `cuts` maps an input or a result to its cuts, one after another: each device has the part at its
    place.  What has no cuts is whole, and the same, on every device.  The graph has the types of
    the parts.  `rank` is the one device that this process has, where each has a process of its own
    (see `Spreading.join`), and its part of each array of the state; None where it has all of them.
    A run needs at most `memory_nbytes` of each device, as the executor counts them, if that is not
    None: values are computed again, and MemoryLimitError says what is enough if that is not.
    """

    axes: Mapping[str, int]
    cuts: Mapping[Node, tuple[Cut, ...]]
    rank: int | None = None
    memory_nbytes: int | None = None

    @property
    def count(self) -> int:
        """How many devices there are."""
        return prod(self.axes.values())

    def cuts_of(self, node: Node) -> tuple[Cut, ...]:
        """How a value is cut, along axes of the grid that have several devices."""
        return tuple(one for one in self.cuts.get(node, ()) if self.axes[one[0]] > 1)

    def whole_shape(self, node: Node) -> tuple[int, ...]:
        """The shape of a value of which each device has a part."""
        found = [int(length) for length in node.shape]
        for name, axis in self.cuts_of(node):
            found[axis] *= self.axes[name]
        return tuple(found)

    def own(self, node: Node, array: np.ndarray) -> np.ndarray:
        """What this process has of a whole array, as a view."""
        if self.rank is None:
            return array
        lengths = tuple(self.axes.values())
        places = dict(zip(self.axes, np.unravel_index(self.rank, lengths), strict=True))
        for name, axis in self.cuts_of(node):
            length = array.shape[axis] // self.axes[name]
            here = slice(places[name] * length, (places[name] + 1) * length)
            array = array[(*[slice(None)] * axis, here)]
        return array


@dataclass(frozen=True)
class Operation:
    """What a device of a grid does from `start` to `end`, in seconds of `time.perf_counter`.

    `name` is the compiler's, the same on all devices.  It is made for the last of `nodes`, which is
    in a body of the one before it; for none where the compiler has added it.  In those that
    `is_together` devices wait for each other.
    """

    device: int
    name: str
    nodes: tuple[Node, ...]
    is_together: bool
    start: float
    end: float


@runtime_checkable
class Spreading(Protocol):
    """What an executor has, too, that can run one program on several devices."""

    def device_count(self) -> tuple[int, str]:
        """How many devices a program of this process can have, and what they are called."""
        ...

    def device_memory(self) -> int | None:
        """The bytes that each of them has for programs; None where they have no memory of their
        own, or do not tell."""
        ...

    def across(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        lying: Across,
    ) -> Any:
        """As `prepare`: the program that all devices run together, of which each computes the
        graph.

        It is called by what its `hold` gives, with whole arrays, the same in all processes, and
        that gives None where one does not fit as it is, or the run failed: then nothing has
        changed.
        InputError where there are not as many devices.
        """
        ...

    def join(self, address: str, rank: int, count: int, device: int) -> None:
        """Join the processes that run programs together, before any program runs: this one is
        `rank` of `count`, and has the `device` of this number on its machine.

        Process 0 listens at the address.  StateError where a program has run already.
        """
        ...
