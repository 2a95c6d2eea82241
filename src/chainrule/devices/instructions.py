"""The program of a rank: plain records, which are checked before anything runs.

A value is told by a number, which is the same on all ranks; `micro_batch` is None for what is
there once a step.
"""

from __future__ import annotations

from typing import NamedTuple

from chainrule.dataclass import dataclass


class Key(NamedTuple):
    """A value of one micro-batch, or of the step."""

    value: int
    micro_batch: int | None


@dataclass(frozen=True)
class Run:
    """Computes `gives` from `reads` by a piece of the graph; the values of `frees` are not needed
    any more after it."""

    piece: int
    micro_batch: int | None
    reads: tuple[Key, ...]
    gives: tuple[Key, ...]
    frees: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Send:
    """Begins to send a value to another rank, and goes on."""

    key: Key
    to: int
    frees: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Receive:
    """Waits until a value of another rank is there."""

    key: Key
    sender: int


@dataclass(frozen=True)
class Clear:
    """Sets sums to 0, in arrays that the rank has for them from the beginning."""

    keys: tuple[Key, ...]

    @property
    def reads(self) -> tuple[Key, ...]:
        """Nothing."""
        return ()

    @property
    def gives(self) -> tuple[Key, ...]:
        """The sums."""
        return self.keys


@dataclass(frozen=True)
class AllReduce:
    """Adds values of all ranks of a group, in their order; each of them has the sums then, in place
    of its own values.  `in_place`: in the arrays of these, which nobody else has."""

    keys: tuple[Key, ...]
    group: tuple[int, ...]
    in_place: bool = False

    @property
    def reads(self) -> tuple[Key, ...]:
        """The values that a rank gives to the others."""
        return self.keys

    gives = reads


@dataclass(frozen=True)
class Begin:
    """Begins a sum, which a helper of the rank adds up while the rank goes on.  Nobody reads or
    writes its values until it is awaited."""

    sum: AllReduce

    @property
    def reads(self) -> tuple[Key, ...]:
        """The values that are added."""
        return self.sum.keys

    @property
    def gives(self) -> tuple[Key, ...]:
        """Nothing yet."""
        return ()


@dataclass(frozen=True)
class Await:
    """Waits until a sum that was begun is there, in place of the values."""

    sum: AllReduce

    @property
    def reads(self) -> tuple[Key, ...]:
        """The values that were added."""
        return self.sum.keys

    @property
    def gives(self) -> tuple[Key, ...]:
        """Their sums."""
        return self.sum.keys


@dataclass(frozen=True)
class AllGather:
    """Joins what all ranks of a group have of `reads`, in their order, each along one of `axes`;
    each of them has the whole values `gives` then."""

    reads: tuple[Key, ...]
    gives: tuple[Key, ...]
    axes: tuple[int, ...]
    group: tuple[int, ...]
    frees: tuple[Key, ...] = ()


@dataclass(frozen=True)
class ReduceScatter:
    """Adds values `reads` of all ranks of a group, in their order; each of them has its part of the
    sums then, the one at its place in the group along one of `axes`."""

    reads: tuple[Key, ...]
    gives: tuple[Key, ...]
    axes: tuple[int, ...]
    group: tuple[int, ...]
    frees: tuple[Key, ...] = ()


Collective = AllReduce | AllGather | ReduceScatter
COLLECTIVES = (AllReduce, AllGather, ReduceScatter)
Instruction = Run | Send | Receive | Clear | Collective | Begin | Await
FREEING = (Run, Send, AllGather, ReduceScatter)


@dataclass(frozen=True)
class Program:
    """What a rank does in a step, one instruction after the other.

    `given` are the values that are there at first: parameters, data.  `results` are
    those that are there at last: the updated arrays, and the objective where the rank has it.
    """

    rank: int
    given: tuple[Key, ...]
    instructions: tuple[Instruction, ...]
    results: tuple[Key, ...]
