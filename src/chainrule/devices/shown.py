"""What replicas that are processes of one machine show each other: their sums of gradients."""

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
    """Arrays that lie in memory which replicas share: `arrays` of all, by replica and number, and
    this rank's `own`, which it has from the beginning of a step."""

    arrays: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    own: Mapping[Key, np.ndarray] = field(default_factory=dict)

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
    """What this rank and its other replicas show; made once, when all of them call it.

    StateError where there is no memory for it.
    """
    if split not in _known:
        _known[split] = _shown_of(world, split)
    return _known[split]


def _shown_of(world: World, split: Split) -> Shown:
    sums = [one for one in split.shown if world.rank in one.group]
    if not sums:
        return Shown()
    (group,) = {one.group for one in sums}
    types = {key: split.values[key.value][1] for one in sums for key in one.keys}
    keys = sorted(types, key=lambda key: (-int(types[key].nbytes), key))  # large ones first
    *starts, end = accumulate([_room(int(types[key].nbytes)) for key in keys], initial=0)
    row = max(-(-end // PAGE), 1) * PAGE
    memory = world.shared(group, len(group) * row)
    if memory is None:
        raise StateError(
            f"the ranks {group} find no {len(group) * row} bytes of memory to share, for their "
            "gradients",
            hint="give this machine or container more memory, or set CHAINRULE_TRANSPORT=mpi: then "
            "all is sent by messages",
        )
    arrays = {
        (replica, key.value): _array(memory[replica * row + start :], types[key])
        for replica in range(len(group))
        for key, start in zip(keys, starts, strict=True)
    }
    place = group.index(world.rank)
    return Shown(arrays, {key: arrays[place, key.value] for key in keys})


def _room(nbytes: int) -> int:
    """The bytes up to where another array may begin."""
    return -(-nbytes // alignment_of(nbytes)) * alignment_of(nbytes)


def _array(memory: np.ndarray, type_: ArrayType) -> np.ndarray:
    """The array of a type at the beginning of some bytes."""
    shape = tuple(map(int, type_.shape))
    return memory[: int(type_.nbytes)].view(type_.dtype).reshape(shape)
