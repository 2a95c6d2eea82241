"""Predicts how long pieces, messages and sums take on the devices of the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING

from chainrule.devices.instructions import AllReduce, Collective, Instruction, Run
from chainrule.devices.planning.devices import THREADS, Link, starting_seconds
from chainrule.plan.speeds import SPEEDS

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split
    from chainrule.devices.reports.values import Value
    from chainrule.plan.speeds import Speeds


class Times:
    """Those of a split step: on its devices, if it was split for some; else on ranks that are
    threads of this machine.  `speeds` stand for those of all devices."""

    def __init__(
        self,
        step: ParallelStep,
        split: Split,
        values: Mapping[int, Value],
        speeds: Speeds | None,
    ) -> None:
        self.split, self.devices = split, step.devices
        self._touched = [_touched_nbytes(one.instructions, values) for one in split.programs]
        self.arrays, self.ranks = len(step.parts.whole.persistent), step.ranks
        self._speeds = speeds
        self._known: dict[str, tuple[float, ...]] = {}  # by the group of devices

    def piece(self, rank: int, number: int) -> float:
        """Seconds of a run of a piece; 0 where its executor does not say."""
        group = None if self.devices is None else self.devices.group_of(rank)
        key = "" if group is None else group.name
        if key not in self._known:
            speeds = self._speeds or (None if group is None else group.speeds)
            known = [getattr(code, "durations", None) for code in self.split.compiled]
            crowded = speeds is not None and self.ranks > 1 and self.shares_cores(rank)
            # all ranks of a machine work at once, and share a cache
            crowding = speeds.crowding if crowded else 1.0
            since = sum(self._touched[one] for one in self._beside(rank))
            self._known[key] = tuple(
                [0.0 if one is None else crowding * fsum(one(speeds, since)) / 1e9 for one in known]
            )
        return self._known[key][number]

    def clearing(self, rank: int, nbytes: int) -> float:
        """Seconds in which a rank sets so many bytes to 0."""
        return self._speeds_of(rank).moving(nbytes) / 1e9

    def message(self, sender: int, to: int, nbytes: int) -> float:
        """Seconds that a message is on its way."""
        return self._link(sender, to).seconds(nbytes)

    def adding(self, ranks: Sequence[int], nbytes: int) -> float:
        """Seconds in which ranks add up so many bytes of each, over the slowest of their links."""
        links = [self._link(one, ranks[0]) for one in ranks[1:]]
        return adding_seconds(nbytes, len(ranks), max(links, key=lambda one: one.seconds(nbytes)))

    def together(self, one: Collective, values: Mapping[int, Value]) -> float:
        """Seconds that ranks take for an exchange: a sum is scattered, and gathered."""
        sizes = [sum(values[key.value].nbytes for key in keys) for keys in (one.reads, one.gives)]
        seconds = self.adding(one.group, max(sizes))
        return seconds if isinstance(one, AllReduce) else seconds / 2

    def starting(self, rank: int) -> float:
        """Seconds in which a step is begun and ended, beside what the programs do."""
        if not self.shares_cores(rank):
            return 0.0
        processor = None if self.devices is None else self.devices.group_of(rank).processor
        return (1.0 if processor is None else processor.starting) * starting_seconds(self.arrays)

    def shares_cores(self, rank: int) -> bool:
        """Whether a rank is a processor, whose helper has no other cores than its own."""
        return self.devices is None or self.devices.group_of(rank).processor is not None

    def _beside(self, rank: int) -> Sequence[int]:
        """Ranks that share the memory of one machine with this one, itself among them."""
        if not self.shares_cores(rank):
            return [rank]
        ranks = range(self.ranks)
        if self.devices is None:
            return ranks
        group = self.devices.group_of(rank)
        return [one for one in ranks if self.devices.group_of(one) is group]

    def _speeds_of(self, rank: int) -> Speeds:
        if self._speeds is not None or self.devices is None:
            return self._speeds or SPEEDS[64]
        return self.devices.group_of(rank).speeds

    def _link(self, one: int, other: int) -> Link:
        return THREADS if self.devices is None else self.devices.link(one, other)


def _touched_nbytes(program: Sequence[Instruction], values: Mapping[int, Value]) -> int:
    """The bytes of all values that a rank computes with, those of micro-batches once."""
    runs = [one for one in program if isinstance(one, Run)]
    keys = {key.value for one in runs for key in (*one.reads, *one.gives)}
    return sum(values[key].nbytes for key in keys)


def adding_seconds(nbytes: float, count: int, link: Link) -> float:
    """Seconds in which `count` ranks add up so many bytes: each has all others' parts of a share to
    add, and sends the sum of its share back."""
    return 2 * (count - 1) * link.seconds(nbytes / count)
