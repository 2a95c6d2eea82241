"""Predicts when each rank does what: its program is followed by predicted times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from operator import add
from typing import TYPE_CHECKING

from chainrule.devices.instructions import AllReduce, Instruction, Key, Receive, Run, Send
from chainrule.devices.reports.memory import memory_of
from chainrule.devices.reports.spans import (
    ADDING,
    BACKWARD,
    FORWARD,
    GRADIENTS,
    RECOMPUTE,
    WAITING,
    Message,
    ParallelTimeline,
    Span,
)
from chainrule.devices.reports.values import Value, values_of
from chainrule.devices.stages import BYTES_EACH_SECOND, MESSAGE_SECONDS
from chainrule.plan.pipelines.bounds import lower_bound
from chainrule.plan.pipelines.stages import Stages

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split
    from chainrule.plan.speeds import Speeds


def timeline_of(
    step: ParallelStep, split: Split, sizes: Mapping[str, int], speeds: Speeds | None
) -> ParallelTimeline:
    """See `ParallelStep.timeline`; `sizes` are those of the whole batch."""
    values = values_of(step, split)
    seconds = _seconds_of_pieces(split, speeds)
    during = [one.during for one in memory_of(step, split, sizes).ranks]
    found = _Simulation(split, seconds, values, during)
    found.run()
    return ParallelTimeline(
        title(step, sizes),
        step.stages,
        False,
        tuple(map(tuple, found.spans)),
        tuple(found.messages),
        _lower_bound(step, split, seconds, values),
    )


def title(step: ParallelStep, sizes: Mapping[str, int]) -> str:
    """What a timeline is of."""
    numbers = "".join(f", {name} = {size}" for name, size in sizes.items())
    return f"{step.parts.whole.graph.name}{numbers}, {step.schedule}"


def message_seconds(nbytes: int) -> float:
    """About how long a message is on its way."""
    return MESSAGE_SECONDS + nbytes / BYTES_EACH_SECOND


def adding_seconds(nbytes: int, count: int) -> float:
    """About how long `count` ranks take to add up so many bytes: each has all others' parts of a
    share to add, and sends the sum of its share back."""
    return 2 * (count - 1) * (MESSAGE_SECONDS + nbytes / count / BYTES_EACH_SECOND)


def _seconds_of_pieces(split: Split, speeds: Speeds | None) -> tuple[float, ...]:
    """About how long a run of each piece takes; 0 where its executor does not say."""
    known = [getattr(code, "durations", None) for code in split.compiled]
    return tuple([0.0 if one is None else fsum(one(speeds)) / 1e9 for one in known])


class _Simulation:
    """Goes through the programs of all ranks, each as far as it can."""

    def __init__(
        self,
        split: Split,
        seconds: Sequence[float],
        values: Mapping[int, Value],
        during: Sequence[Sequence[int]],
    ) -> None:
        self.split, self.seconds, self.values, self.during = split, seconds, values, during
        count = len(split.programs)
        self.at, self.clock = [0] * count, [0.0] * count
        self.spans: list[list[Span]] = [[] for _ in range(count)]
        self.messages: list[Message] = []
        self.arrivals: dict[tuple[int, int, Key], float] = {}

    def run(self) -> None:
        """All programs to their ends; they have been checked, so no rank waits for ever."""
        moved = True
        while moved:
            moved = False
            for rank in range(len(self.at)):
                while self._step(rank):
                    moved = True

    def _next(self, rank: int) -> Instruction | None:
        instructions = self.split.programs[rank].instructions
        return instructions[self.at[rank]] if self.at[rank] < len(instructions) else None

    def _step(self, rank: int) -> bool:
        """Whether the next instruction of a rank could be done."""
        one = self._next(rank)
        match one:
            case Run(piece, part):
                end = self.clock[rank] + self.seconds[piece]
                self._add(rank, self.split.pieces[piece].purpose, part, end)
            case Send(key, to):
                value, now = self.values[key.value], self.clock[rank]
                end = now + message_seconds(value.nbytes)
                self.arrivals[rank, to, key] = end
                self.messages.append(
                    Message(value.name, key.micro_batch, value.nbytes, rank, to, now, end)
                )
            case Receive(key, sender):
                arrival = self.arrivals.get((sender, rank, key))
                if arrival is None:
                    return False
                self._add(rank, WAITING, key.micro_batch, max(arrival, self.clock[rank]))
            case AllReduce(keys, group):
                if any(self._next(other) != one for other in group):
                    return False
                there = max(self.clock[other] for other in group)
                nbytes = sum(self.values[key.value].nbytes for key in keys)
                for other in group:
                    self._add(other, WAITING, None, there)
                    self._add(other, ADDING, None, there + adding_seconds(nbytes, len(group)))
                    self.at[other] += 1
                return True
            case _:
                return False
        self.at[rank] += 1
        return True

    def _add(self, rank: int, doing: str, part: int | None, end: float) -> None:
        start, at = self.clock[rank], self.at[rank]
        if end > start or doing != WAITING:
            nbytes = self.during[rank][at]
            self.spans[rank].append(Span(doing, part, start, end, at, nbytes))
        self.clock[rank] = end


def _lower_bound(
    step: ParallelStep, split: Split, seconds: Sequence[float], values: Mapping[int, Value]
) -> float | None:
    """Seconds that a step takes at least in any order of its pieces.

    That of a pipeline, and after it what the stage with least to do adds up and updates: it applies
    where each stage waits for its neighbours; else a rank does all its work at best.
    """
    stages = range(step.stages)
    each = {doing: [0.0] * step.stages for doing in (FORWARD, RECOMPUTE, BACKWARD, GRADIENTS)}
    rest, whole = [0.0] * step.stages, [0.0] * step.stages
    there: dict[tuple[int, int], float] = {}
    for stage in stages:
        for one in split.programs[stage].instructions:
            match one:
                case Run(piece, None):
                    rest[stage] += seconds[piece]
                case Run(piece):
                    whole[stage] += seconds[piece]
                    each[split.pieces[piece].purpose][stage] = seconds[piece]
                case AllReduce(keys, group):
                    nbytes = sum(values[key.value].nbytes for key in keys)
                    rest[stage] += adding_seconds(nbytes, len(group))
                case Send(Key(number, part), to) if part is not None:
                    way = stage, to
                    late = message_seconds(values[number].nbytes)
                    there[way] = max(there.get(way, 0.0), late)
    busiest = max(whole[stage] + rest[stage] for stage in stages)
    pairs = [((stage, stage + 1), (stage + 1, stage)) for stage in range(step.stages - 1)]
    if any(way not in there for pair in pairs for way in pair):
        return busiest
    transfer = (*(min(there[there_], there[back]) for there_, back in pairs), 0.0)
    pipeline = Stages(
        step.stages,
        step.parts.count // step.replicas,
        tuple(each[FORWARD]),
        tuple(each[BACKWARD]),
        tuple(map(add, each[RECOMPUTE], each[GRADIENTS])),  # nobody waits for either
        transfer,
    )
    return max(busiest, lower_bound(pipeline, float("inf")) + min(rest))
