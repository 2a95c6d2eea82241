"""What ranks do with the state that an objective carries: its keys, and where it is passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chainrule.devices.carried import carried_of
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import Key, Receive, Send
from chainrule.devices.stages import Placed
from chainrule.errors import InputError
from chainrule.graph.node import Node, topological

if TYPE_CHECKING:
    from chainrule.devices.parts import Parts


@dataclass(eq=False)
class Carrying:
    """The state of an objective on `grid`, each replica with so many `micro_batches`.

    `following` maps its arrays, inputs of the passes, to what follows them; the passes give `ends`,
    and `data` are the inputs that are of the batch.  `number` are the numbers of the arrays, and
    `left` those of what the last part leaves, which the update reads.  `read_by` has the
    chunks that read each value.
    """

    following: Mapping[Node, Node]
    ends: Collection[Node]
    data: Collection[Node]
    placed: Placed
    grid: Grid
    micro_batches: int
    number: Mapping[Node, int]
    left: Mapping[Node, int]
    read_by: Mapping[Node, Collection[int]]

    def __post_init__(self) -> None:
        self.follows = {then: one for one, then in self.following.items()}
        found = carried_of(self.following, self.ends, self.data)
        forward = self.placed.forward.keys()
        several = self.grid.replicas > 1
        # What is computed for the state apart from the passes: before them, and after them.
        self.before = forward & found.before() if several else set()
        self.after = forward & found.after(topological(self.ends)) if several else set()
        self.first = [one for one in self.following if one in found.read]
        self.last = [one for one in self.following if one not in found.read]

    @cached_property
    def handed_on(self) -> set[Node]:
        """What later parts need of the forward pass of one, or what comes after the passes."""
        return {*self.follows, *(one for node in self.after for one in node.inputs)}

    def key(self, node: Node, part: int) -> Key | None:
        """How an array that is carried is called where a part reads it, and what follows it there;
        None for others."""
        if node in self.follows:
            return self._at(self.follows[node], part + 1)
        return self._at(node, part) if node in self.following else None

    def _at(self, array: Node, part: int) -> Key:
        if part < self.micro_batches * self.grid.replicas:
            return Key(self.number[array], part)
        return Key(self.left[array], None)

    def first_part(self, rank: int) -> int:
        """The first part of a batch that a rank works on."""
        return self.grid.replica_of(rank) * self.micro_batches

    def next_readers(self, node: Node, rank: int, part: int) -> Collection[int]:
        """The other stages that read what follows an array as the array of the next part."""
        is_last = part + 1 == self.first_part(rank) + self.micro_batches
        array = self.follows.get(node)
        return () if array is None or is_last else self._readers(array, self.grid.stage_of(rank))

    def taken_over(self, arrays: Iterable[Node], rank: int) -> Iterator[Send | Receive]:
        """Gets what the replica before has left, and gives it to the stages that read it."""
        replica, stage = self.grid.replica_of(rank), self.grid.stage_of(rank)
        for array in self._here(arrays, stage):
            key = self._at(array, self.first_part(rank))
            if replica:
                yield Receive(key, self._like(rank, replica - 1))
            for reader in self._readers(array, stage):
                yield Send(key, self.grid.rank(replica, reader, self.grid.shard_of(rank)))

    def handed_over(self, arrays: Iterable[Node], rank: int) -> Iterator[Send]:
        """Gives what this replica leaves to the next one, and the last one's to all others."""
        replica, count = self.grid.replica_of(rank), self.grid.replicas
        others = [replica + 1] if replica + 1 < count else range(count - 1)
        for array in self._here(arrays, self.grid.stage_of(rank)):
            key = self._at(array, self.first_part(rank) + self.micro_batches)
            for other in others:
                yield Send(key, self._like(rank, other))

    def given_back(self, rank: int) -> Iterator[Receive]:
        """Gets what the last replica leaves, which all update by."""
        last = self.grid.replicas - 1
        if self.grid.replica_of(rank) != last:
            for array in self._here(self.following, self.grid.stage_of(rank)):
                yield Receive(Key(self.left[array], None), self._like(rank, last))

    def refuse_circles(self, parts: Parts, order: str) -> None:
        """InputError where an array follows from a later chunk than reads it: in some orders of
        work, the next part is then waited for before this one is through."""
        names = {item.node: item.name for item in parts.summing.inputs}
        for array, chunk in self.placed.owner.items():
            early = [at for at in sorted(self.read_by.get(array, ())) if at < chunk]
            if array in self.following and early:
                label = self.grid.label
                raise InputError(
                    f"{names[array]} is state that stage {label(early[0])} reads, and that follows "
                    f"from what stage {label(chunk)} computes: in the order {order}, the ranks "
                    "would wait for each other for ever",
                    where=array.origin.describe(),
                    hint="schedule='1f1b', where no stage has several chunks",
                )

    def _here(self, arrays: Iterable[Node], stage: int) -> list[Node]:
        owner, stage_with = self.placed.owner, self.grid.stage_with
        return [one for one in arrays if stage_with(owner[one]) == stage]

    def _readers(self, array: Node, stage: int) -> list[int]:
        """The other stages that read an array."""
        stages = {self.grid.stage_with(chunk) for chunk in self.read_by.get(array, ())}
        return sorted(stages - {stage})

    def _like(self, rank: int, replica: int) -> int:
        """The rank of the same stage and shard in another replica."""
        return self.grid.rank(replica, self.grid.stage_of(rank), self.grid.shard_of(rank))
