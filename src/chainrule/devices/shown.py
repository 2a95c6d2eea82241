"""What ranks that are processes of one machine show each other in memory that they share: replicas
their sums of gradients, and stages what they send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.devices.instructions import AllReduce, Key
from chainrule.devices.mpi import World
from chainrule.errors import StateError
from chainrule.execute.aligned import PAGE, alignment_of
from chainrule.graph.types import ArrayType

if TYPE_CHECKING:
    from chainrule.devices.splitting import Split


@dataclass(frozen=True)
class Shown:
    """Arrays that lie in memory which ranks share: `arrays` of all replicas, by replica and number,
    of which this rank has its `own` from the beginning of a step; and `lent`, by the rank that
    sends them, and key, those that messages leave there.

    They are there for a step, and all ranks agree before the next one: steps of all splits use the
    same `blocks`, by what for and whose they are.
    """

    arrays: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    own: Mapping[Key, np.ndarray] = field(default_factory=dict)
    lent: Mapping[tuple[int, Key], np.ndarray] = field(default_factory=dict)
    blocks: Mapping[tuple[str, tuple[int, ...]], np.ndarray] = field(default_factory=dict)

    def has(self, one: AllReduce) -> bool:
        """Whether the values of a sum are shown."""
        return not self.own.keys().isdisjoint(one.keys)

    def show(self, key: Key, array: np.ndarray) -> None:
        """Lets the others see a value, which code may have put elsewhere."""
        own = self.own[key]
        if array is not own:
            own[...] = array


Block = Callable[[str, tuple[int, ...], int], np.ndarray]
_known: WeakKeyDictionary[Split, Shown] = WeakKeyDictionary()


def shown_of(world: World, split: Split) -> Shown:
    """What this rank and others show each other in a step; all of them call it.

    StateError where there is no memory for it.
    """
    known = _known.get(split)
    if known is None or any(world.blocks.get(key) is not one for key, one in known.blocks.items()):
        known = _known[split] = _shown_of(world, split)
    return known


def _shown_of(world: World, split: Split) -> Shown:
    blocks: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}

    def block(use: str, ranks: tuple[int, ...], nbytes: int) -> np.ndarray:
        memory = world.block(use, ranks, max(nbytes, PAGE))
        if memory is None:
            raise StateError(
                f"the ranks {ranks} find no {nbytes} bytes of memory to share, for {use}",
                hint="give this machine or container more memory, or the process more open files "
                "(ulimit -n), or set CHAINRULE_TRANSPORT=mpi: then all is sent by messages",
            )
        blocks[use, ranks] = memory
        return memory

    lent = _lent(split, world.rank, block) if world.shares_memory else {}
    sums = [one for one in split.shown if world.rank in one.group]
    if not sums:
        return Shown(lent=lent, blocks=blocks)
    (group,) = {one.group for one in sums}
    types = {key: split.values[key.value][1] for one in sums for key in one.keys}
    keys = sorted(types, key=lambda key: (-int(types[key].nbytes), key))  # large ones first
    *starts, end = _places([types[key] for key in keys])
    row = max(-(-end // PAGE), 1) * PAGE
    memory = block("gradients", group, len(group) * row)
    arrays = {
        (replica, key.value): _array(memory[replica * row + start :], types[key])
        for replica in range(len(group))
        for key, start in zip(keys, starts, strict=True)
    }
    place = group.index(world.rank)
    return Shown(arrays, {key: arrays[place, key.value] for key in keys}, lent, blocks)


def _lent(split: Split, rank: int, block: Block) -> dict[tuple[int, Key], np.ndarray]:
    """Where a rank and others leave what they send; a block for each sender and its readers."""
    groups: dict[tuple[int, ...], list[Key]] = {}
    for (owner, key), readers in split.lent.items():
        groups.setdefault((owner, *readers), []).append(key)
    found: dict[tuple[int, Key], np.ndarray] = {}
    for ranks, keys in sorted(groups.items()):  # in the same order on all ranks
        if rank in ranks:
            keys.sort(key=lambda key: -int(split.values[key.value][1].nbytes))  # as gradients
            types = [split.values[key.value][1] for key in keys]
            *starts, end = _places(types)
            memory = block("what one of them sends", ranks, end)
            for key, start, type_ in zip(keys, starts, types, strict=True):
                found[ranks[0], key] = _array(memory[start:], type_)
    return found


def _places(types: Iterable[ArrayType]) -> list[int]:
    """Where arrays of some types begin that lie one behind the other, and where another one may."""
    found = [0]
    for one in types:
        alignment = alignment_of(int(one.nbytes))
        found.append(found[-1] + -(-int(one.nbytes) // alignment) * alignment)
    return found


def _array(memory: np.ndarray, type_: ArrayType) -> np.ndarray:
    """The array of a type at the beginning of some bytes."""
    shape = tuple(map(int, type_.shape))
    return memory[: int(type_.nbytes)].view(type_.dtype).reshape(shape)
