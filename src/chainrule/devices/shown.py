"""What ranks that are processes of one machine show each other in memory that they share: replicas
their sums of gradients, and stages what they send."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
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
    sends them, and key, those that messages leave there."""

    arrays: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    own: Mapping[Key, np.ndarray] = field(default_factory=dict)
    lent: Mapping[tuple[int, Key], np.ndarray] = field(default_factory=dict)

    def has(self, one: AllReduce) -> bool:
        """Whether the values of a sum are shown."""
        return not self.own.keys().isdisjoint(one.keys)

    def show(self, key: Key, array: np.ndarray) -> None:
        """Lets the others see a value, which code may have put elsewhere."""
        own = self.own[key]
        if array is not own:
            own[...] = array


_known: WeakKeyDictionary[Split, Shown] = WeakKeyDictionary()


def shown_of(world: World, split: Split) -> Shown:
    """What this rank and others show each other; made once, when all of them call it.

    StateError where there is no memory for it.
    """
    if split not in _known:
        _known[split] = _shown_of(world, split)
    return _known[split]


def _shown_of(world: World, split: Split) -> Shown:
    lent = _lent(world, split)
    sums = [one for one in split.shown if world.rank in one.group]
    if not sums:
        return Shown(lent=lent)
    (group,) = {one.group for one in sums}
    types = {key: split.values[key.value][1] for one in sums for key in one.keys}
    keys = sorted(types, key=lambda key: (-int(types[key].nbytes), key))  # large ones first
    *starts, end = accumulate([_room(int(types[key].nbytes)) for key in keys], initial=0)
    row = max(-(-end // PAGE), 1) * PAGE
    memory = _shared(world, group, len(group) * row, "for their gradients")
    arrays = {
        (replica, key.value): _array(memory[replica * row + start :], types[key])
        for replica in range(len(group))
        for key, start in zip(keys, starts, strict=True)
    }
    place = group.index(world.rank)
    return Shown(arrays, {key: arrays[place, key.value] for key in keys}, lent)


def _lent(world: World, split: Split) -> dict[tuple[int, Key], np.ndarray]:
    """Where this rank and others leave what they send; a block for each sender and its readers."""
    groups: dict[tuple[int, ...], list[Key]] = {}
    for (owner, key), readers in split.lent.items():
        groups.setdefault((owner, *readers), []).append(key)
    found: dict[tuple[int, Key], np.ndarray] = {}
    for ranks, keys in sorted(groups.items()):  # in the same order on all ranks
        if world.rank in ranks:
            types = [split.values[key.value][1] for key in keys]
            *starts, end = accumulate([_room(int(one.nbytes)) for one in types], initial=0)
            memory = _shared(world, ranks, max(end, PAGE), "for what they send each other")
            for key, start, type_ in zip(keys, starts, types, strict=True):
                found[ranks[0], key] = _array(memory[start:], type_)
    return found


def _shared(world: World, ranks: tuple[int, ...], nbytes: int, why: str) -> np.ndarray:
    """So many bytes that these ranks share; StateError where there are none."""
    memory = world.shared(ranks, nbytes)
    if memory is None:
        raise StateError(
            f"the ranks {ranks} find no {nbytes} bytes of memory to share, {why}",
            hint="give this machine or container more memory, or set CHAINRULE_TRANSPORT=mpi: then "
            "all is sent by messages",
        )
    return memory


def _room(nbytes: int) -> int:
    """The bytes up to where another array may begin."""
    return -(-nbytes // alignment_of(nbytes)) * alignment_of(nbytes)


def _array(memory: np.ndarray, type_: ArrayType) -> np.ndarray:
    """The array of a type at the beginning of some bytes."""
    shape = tuple(map(int, type_.shape))
    return memory[: int(type_.nbytes)].view(type_.dtype).reshape(shape)
