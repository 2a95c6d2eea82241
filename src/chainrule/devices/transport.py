"""The messages and sums of one rank among the processes of a job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from chainrule.devices.adding import add_in_place, added
from chainrule.devices.helper import Helper
from chainrule.devices.instructions import (
    AllGather,
    AllReduce,
    Begin,
    Key,
    Program,
    Receive,
    ReduceScatter,
)
from chainrule.devices.messages import Messages
from chainrule.devices.mpi import World, bytes_of
from chainrule.devices.shown import Shown
from chainrule.devices.tensor.packing import added_parts, gathered
from chainrule.errors import InvariantError

NOTHING = np.empty(0, np.uint8)
AHEAD = 4  # messages that a rank is ready for before it waits for them


class MPITransport:
    """The transport of one rank in one step; `name` says how a value is called.  What is `shown`
    to others is not added up, and what is lent them is not sent: an empty message says that it is
    there.  `meanwhile` is called where the rank has to wait for a message."""

    def __init__(
        self,
        world: World,
        program: Program,
        messages: Messages,
        name: Callable[[Key], str],
        shown: Shown,
        meanwhile: Callable[[], object],
    ) -> None:
        self.world, self.messages, self.name, self.shown = world, messages, name, shown
        self.meanwhile = meanwhile
        self.coming = deque(one for one in program.instructions if isinstance(one, Receive))
        self.posted: dict[tuple[Key, int], tuple[Any, np.ndarray]] = {}
        self.sent: deque[tuple[Any, Key, int, np.ndarray]] = deque()
        self.left: set[Key] = set()  # of what is lent
        self.helper = Helper(partial(self.add, by_helper=True), "chainrule helper")
        if any(isinstance(one, Begin) and not shown.has(one.sum) for one in program.instructions):
            self.helper.start()
        self._post()

    def send(self, key: Key, array: np.ndarray, to: int) -> None:
        """Begins to send an array; it is kept alive until it is there."""
        expected = self.messages.types[key.value]
        if (array.dtype, array.shape) != (expected.dtype, expected.shape):
            raise InvariantError(
                f"{self.name(key)} is {array.dtype.name}{list(array.shape)}, not {expected}"
            )
        lent = self.shown.lent.get((self.world.rank, key))
        if lent is not None and key not in self.left:
            if array is not lent:  # else code has written it there
                lent[...] = array
            self.left.add(key)
        whole = np.ascontiguousarray(array) if lent is None else NOTHING
        tag = self.messages.tags[self.world.rank, to, key]
        request = self.world.comm.Isend([bytes_of(whole), self.world.mpi.BYTE], to, tag)
        self.sent.append((request, key, to, whole))
        while self.sent and self.sent[0][0].Test():
            self.sent.popleft()

    def receive(self, key: Key, sender: int) -> np.ndarray:
        """Waits for an array of another rank."""
        request, array = self.posted.pop((key, sender))
        if not request.Test():
            self.meanwhile()
        self.world.wait(request, lambda: self._told("waits for", key, "from", sender), (sender,))
        self._post()
        return array

    def all_reduce(
        self, keys: tuple[Key, ...], arrays: Sequence[np.ndarray], group: tuple[int, ...]
    ) -> list[np.ndarray]:
        """The sums of the arrays of the ranks of a group, added in their order."""
        return added(
            self.world, arrays, group, lambda: f"adds {len(keys)} values with the ranks {group}"
        )

    def all_gather(self, one: AllGather, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the ranks of a group have, joined along axes."""
        what = f"gathers {len(arrays)} values with the ranks {one.group}"
        exchange = partial(self.world.exchange_bytes, ranks=one.group, what=lambda: what)
        return gathered(arrays, one.axes, len(one.group), exchange)

    def reduce_scatter(self, one: ReduceScatter, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's parts of the sums of the arrays of the ranks of a group."""
        what = f"adds parts of {len(arrays)} values with the ranks {one.group}"
        exchange = partial(self.world.exchange_bytes, ranks=one.group, what=lambda: what)
        return added_parts(arrays, one.axes, len(one.group), exchange)

    def add(self, one: AllReduce, arrays: Sequence[np.ndarray], by_helper: bool = False) -> None:
        """Adds arrays of a group in place."""
        if self.shown.has(one):
            for key, array in zip(one.keys, arrays, strict=True):
                self.shown.show(key, array)
            return
        what = f"adds {len(one.keys)} values with the ranks {one.group}"
        add_in_place(self.world, arrays, one.group, lambda: what, by_helper)

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Begins a sum, and goes on."""
        if self.shown.has(one):
            self.add(one, arrays)
        else:
            self.helper.begin(one, arrays)

    def wait(self, one: AllReduce) -> None:
        """Waits for a sum that was begun."""
        if not self.shown.has(one):
            self.helper.wait(one)

    def finish(self) -> None:
        """Waits until all that was sent, and all sums that were begun, are there."""
        for one in list(self.helper.begun):
            self.helper.wait(one)
        self.helper.close()
        self.flush()

    def flush(self) -> None:
        """Waits until all that was sent is there."""
        while self.sent:
            request, key, to, _ = self.sent.popleft()
            what = partial(self._told, "sends", key, "to", to)
            self.world.wait(request, what, (to,))

    def _post(self) -> None:
        """Begins to receive what comes next, so that it need not wait for us."""
        while self.coming and len(self.posted) < AHEAD:
            one = self.coming.popleft()
            expected = self.messages.types[one.key.value]
            lent = self.shown.lent.get((one.sender, one.key))
            array = np.empty(expected.shape, expected.dtype) if lent is None else lent
            into = bytes_of(array) if lent is None else NOTHING
            tag = self.messages.tags[one.sender, self.world.rank, one.key]
            request = self.world.comm.Irecv([into, self.world.mpi.BYTE], one.sender, tag)
            self.posted[one.key, one.sender] = request, array

    def _told(self, does: str, key: Key, way: str, other: int) -> str:
        return f"{does} {self.name(key)} {way} {self.world.ranks[other]}"
