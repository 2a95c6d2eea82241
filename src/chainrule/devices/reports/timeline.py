"""Predicts when each rank does what: its program is followed by predicted times."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING

from chainrule.devices.instructions import (
    AllGather,
    AllReduce,
    Await,
    Begin,
    Clear,
    Collective,
    Instruction,
    Key,
    Receive,
    ReduceScatter,
    Run,
    Send,
)
from chainrule.devices.reports.memory import memory_of
from chainrule.devices.reports.spans import (
    ADDING,
    BACKWARD,
    FORWARD,
    GATHERING,
    GRADIENTS,
    PASSES,
    RECOMPUTE,
    WAITING,
    Exchange,
    Message,
    ParallelTimeline,
    Span,
)
from chainrule.devices.reports.times import Times
from chainrule.devices.reports.values import Value, values_of
from chainrule.plan.pipelines.bounds import lower_bound
from chainrule.plan.pipelines.stages import Stages
from chainrule.plan.speeds import checked_speeds

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split
    from chainrule.devices.reports.memory import ParallelMemory
    from chainrule.plan.speeds import Speeds


def timeline_of(
    step: ParallelStep,
    split: Split,
    sizes: Mapping[str, int],
    speeds: Speeds | None,
    memory: ParallelMemory | None = None,
) -> ParallelTimeline:
    """See `ParallelStep.timeline`; `sizes` are those of the whole batch, `memory` is that of the
    split, where it is there already."""
    values = values_of(step, split)
    times = Times(step, split, values, checked_speeds(speeds))
    during = [one.during for one in (memory or memory_of(step, split, sizes)).ranks]
    found = _Simulation(split, times, values, during)
    found.run()
    return ParallelTimeline(
        title(step, sizes),
        step.stages,
        False,
        tuple(map(tuple, found.spans)),
        tuple(found.messages),
        _lower_bound(step, times, values),
        tuple(found.exchanges),
        step.ways,
        max(map(times.starting, range(step.ranks))),
    )


def title(step: ParallelStep, sizes: Mapping[str, int]) -> str:
    """What a timeline is of."""
    numbers = "".join(f", {name} = {size}" for name, size in sizes.items())
    return f"{step.parts.whole.graph.name}{numbers}, {step.order}"


def doing_of(one: Collective) -> tuple[str, int | None]:
    """What ranks do together, and for which micro-batch."""
    return GATHERING if isinstance(one, AllGather) else ADDING, one.reads[0].micro_batch


class _Simulation:
    """Goes through the programs of all ranks, each as far as it can."""

    def __init__(
        self,
        split: Split,
        times: Times,
        values: Mapping[int, Value],
        during: Sequence[Sequence[int]],
    ) -> None:
        self.split, self.times, self.values, self.during = split, times, values, during
        count = len(split.programs)
        self.at, self.clock = [0] * count, [0.0] * count
        self.spans: list[list[Span]] = [[] for _ in range(count)]
        self.messages: list[Message] = []
        self.arrivals: dict[tuple[int, int, Key], float] = {}
        self.begun: list[deque[tuple[AllReduce, float]]] = [deque() for _ in range(count)]
        self.free = [0.0] * count  # when each helper is done with what it has
        self.added: dict[tuple[int, AllReduce], tuple[float, float]] = {}
        self.helped: list[list[tuple[float, float]]] = [[] for _ in range(count)]
        self.exchanges: list[Exchange] = []
        self.commits = split.commits.at if split.commits.taken else ()
        self.committed: set[int] = set()  # the ranks that are where they wait for all others

    def run(self) -> None:
        """All programs to their ends; they have been checked, so no rank waits for ever."""
        moved = True
        while moved:
            moved = False
            for rank in range(len(self.at)):
                while self._committed(rank) and self._step(rank):
                    moved = True
            moved = self._helped() or moved

    def _committed(self, rank: int) -> bool:
        """Whether a rank need not wait for others before it updates the state."""
        if not self.commits or self.at[rank] != self.commits[rank]:
            return True
        known = len(self.committed)
        self.committed.add(rank)
        if len(self.committed) < len(self.commits):
            return False
        if known < len(self.committed):  # the last one has come
            there = max(self.clock)
            for other in range(len(self.commits)):
                self._add(other, WAITING, None, there)
        return True

    def _next(self, rank: int) -> Instruction | None:
        instructions = self.split.programs[rank].instructions
        return instructions[self.at[rank]] if self.at[rank] < len(instructions) else None

    def _step(self, rank: int) -> bool:
        """Whether the next instruction of a rank could be done."""
        one = self._next(rank)
        match one:
            case Begin(begun) | Await(begun) if begun in self.split.shown:
                pass
            case AllReduce() if one in self.split.shown:
                pass
            case Run(piece, part):
                end = self.clock[rank] + self.times.piece(rank, piece)
                self._add(rank, self.split.pieces[piece].purpose, part, end)
            case Send(key, to):
                value, now = self.values[key.value], self.clock[rank]
                end = now + self.times.message(rank, to, value.nbytes)
                self.arrivals[rank, to, key] = end
                self.messages.append(
                    Message(value.name, key.micro_batch, value.nbytes, rank, to, now, end)
                )
            case Receive(key, sender):
                arrival = self.arrivals.get((sender, rank, key))
                if arrival is None:
                    return False
                self._add(rank, WAITING, key.micro_batch, max(arrival, self.clock[rank]))
            case Clear(keys):
                self.clock[rank] += self.times.clearing(
                    rank, sum(self.values[key.value].nbytes for key in keys)
                )
            case AllReduce() | AllGather() | ReduceScatter():
                if any(self._next(other) != one for other in one.group):
                    return False
                there = max(self.clock[other] for other in one.group)
                doing, part = doing_of(one)
                for other in one.group:
                    self._add(other, WAITING, part, there)
                    self._add(other, doing, part, there + self.times.together(one, self.values))
                    self.at[other] += 1
                return True
            case Begin(begun):
                self.begun[rank].append((begun, self.clock[rank]))
            case Await(begun):
                if (rank, begun) not in self.added:
                    return False
                self._helper_took(rank)
                start, end = self.added[rank, begun]
                waited = max(0.0, end - max(start, self.clock[rank]))
                self.exchanges.append(Exchange(rank, self._nbytes(begun), start, end, waited))
                self._add(rank, WAITING, None, max(end, self.clock[rank]))
            case _:
                return False
        self.at[rank] += 1
        return True

    def _helped(self) -> bool:
        """Whether the helpers of a group could all add up what comes next."""
        for begun in self.begun:
            group = begun[0][0].group if begun else ()
            if not group or not all(self.begun[other] for other in group):
                continue
            one = begun[0][0]
            if any(self.begun[other][0][0] != one for other in group):
                continue
            starts = [self.begun[other].popleft()[1] for other in group]
            start = max(*starts, *(self.free[other] for other in group))
            end = start + self.times.adding(group, self._nbytes(one))
            for other in group:
                self.free[other], self.added[other, one] = end, (start, end)
                self.helped[other].append((start, end))
            return True
        return False

    def _helper_took(self, rank: int) -> None:
        """A helper that works on the cores of its rank takes its time from what that does."""
        now = self.clock[rank]
        taken = sum(max(0.0, min(end, now) - start) for start, end in self.helped[rank])
        self.helped[rank].clear()
        if taken and self.times.shares_cores(rank):
            self._add(rank, ADDING, None, now + taken)

    def _nbytes(self, one: AllReduce) -> int:
        return sum(self.values[key.value].nbytes for key in one.keys)

    def _add(self, rank: int, doing: str, part: int | None, end: float) -> None:
        start, at = self.clock[rank], self.at[rank]
        if end > start or doing != WAITING:
            during = self.during[rank] or (0,)  # of a rank that has nothing to do
            nbytes = during[min(at, len(during) - 1)]
            self.spans[rank].append(Span(doing, part, start, end, at, nbytes))
        self.clock[rank] = end


def _lower_bound(step: ParallelStep, times: Times, values: Mapping[int, Value]) -> float | None:
    """Seconds that a step takes at least in any order of its pieces.

    That of a pipeline, and after it what the stage with least to do adds up and updates: it applies
    where each stage waits for its neighbours; else a rank does all its work at best.
    """
    stages, split = range(step.stages), times.split
    each: dict[tuple[str, int], dict[int, float]] = {}  # of micro-batches
    rest, whole = [0.0] * step.stages, [0.0] * step.stages
    there: dict[tuple[int, int], float] = {}

    grid = step.grid

    def least(stage: int, piece: int) -> float:  # of the replicas
        return min(times.piece(rank, piece) for rank in grid.of_stage(stage))

    def quickest(stage: int, to: int, nbytes: int) -> float:
        pairs = zip(grid.of_stage(stage), grid.of_stage(to), strict=True)
        return min(times.message(one, other, nbytes) for one, other in pairs)

    for stage in stages:
        for one in split.programs[grid.rank(0, stage, 0)].instructions:
            match one:
                case Run(piece, None):
                    rest[stage] += least(stage, piece)
                case Run(piece, part) if part is not None:
                    taken = least(stage, piece)
                    whole[stage] += taken
                    doing = split.pieces[piece].purpose
                    doing = BACKWARD if doing == PASSES else doing
                    parts = each.setdefault((doing, stage), {})
                    parts[part] = parts.get(part, 0.0) + taken
                case AllReduce() if one in split.shown:
                    pass
                case AllReduce() | AllGather() | ReduceScatter():
                    once = one.reads[0].micro_batch is None
                    (rest if once else whole)[stage] += times.together(one, values)
                case Send(Key(number, part), to) if part is not None:
                    way = stage, grid.stage_of(to)
                    late = quickest(*way, values[number].nbytes)
                    there[way] = max(there.get(way, 0.0), late)
    busiest = max(whole[stage] + rest[stage] for stage in stages)
    if grid.chunks > 1:
        return busiest
    pairs = [((stage, stage + 1), (stage + 1, stage)) for stage in range(step.stages - 1)]
    if any(way not in there for pair in pairs for way in pair):
        return busiest
    transfer = (*(min(there[there_], there[back]) for there_, back in pairs), 0.0)

    def shortest(doing: str) -> tuple[float, ...]:
        return tuple(min(each.get((doing, at), {0: 0.0}).values()) for at in stages)

    pipeline = Stages(
        step.stages,
        step.parts.count // step.replicas,
        shortest(FORWARD),
        shortest(BACKWARD),
        tuple(map(add, shortest(RECOMPUTE), shortest(GRADIENTS))),  # nobody waits for either
        transfer,
    )
    return max(busiest, lower_bound(pipeline, float("inf")) + min(rest))
