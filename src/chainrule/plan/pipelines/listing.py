"""List scheduling: each stage takes what is there, and puts off gradients of parameters."""

from __future__ import annotations

import heapq

from chainrule.dataclass import dataclass, replace
from chainrule.plan.pipelines.stages import Kind, Orders, Stages, Task

NEAR = 1e-9  # of the longest task: times nearer than that are the same


@dataclass(frozen=True)
class Habits:
    """How each stage decides.

    `ahead[s]` is how many forward passes stage s may be ahead of its backward passes.  `patience`
    is how long it waits in all, in seconds, rather than begin the gradients of parameters that
    would delay what comes next: `patience[s]` while there are forward passes to come,
    `last_patience[s]` after.
    """

    ahead: tuple[int, ...]
    patience: tuple[float, ...]
    last_patience: tuple[float, ...]

    def with_one(self, field: str, stage: int, value: float) -> Habits:
        numbers = list(getattr(self, field))
        numbers[stage] = value
        return replace(self, **{field: tuple(numbers)})


@dataclass
class _Stage:
    """What one stage has done and what has arrived, in order of micro-batches."""

    forward: int = 0
    backward: int = 0
    weights: int = 0
    free: float = 0.0
    idle: float = 0.0
    last: Kind = Kind.BACKWARD  # of the two passes


class Listing:
    """One pass through time."""

    def __init__(self, stages: Stages, memory_units: float, habits: Habits) -> None:
        self.stages, self.habits, self.memory = stages, habits, memory_units + 1e-6
        self.seconds = [
            {kind: stages.seconds(stage, kind) for kind in Kind} for stage in range(stages.count)
        ]
        self.near = NEAR * max(max(one.values()) for one in self.seconds)
        self.done = [_Stage() for _ in range(stages.count)]
        self.orders: list[list[Task]] = [[] for _ in range(stages.count)]
        # When the inputs of each micro-batch arrive, for those of which it is known.
        self.forward_at: list[list[float]] = [[] for _ in range(stages.count)]
        self.backward_at: list[list[float]] = [[] for _ in range(stages.count)]
        self.forward_at[0] = [0.0] * stages.micro_batches
        self.looks = [(0.0, stage) for stage in range(stages.count)]  # when to look again

    def orders_found(self) -> Orders | None:
        """The order of tasks on each stage; None where habits and memory stop the pipeline."""
        while self.looks:
            now, stage = heapq.heappop(self.looks)
            mine = self.done[stage]
            if now >= mine.free - self.near and mine.weights < self.stages.micro_batches:
                self.decide(stage, now)
        if any(one.weights < self.stages.micro_batches for one in self.done):
            return None
        return tuple(map(tuple, self.orders))

    def decide(self, stage: int, now: float) -> None:
        """Begins a task on a stage that is free, or looks again when something arrives."""
        mine = self.done[stage]
        forward, backward = self.forward_at[stage], self.backward_at[stage]
        arrivals: dict[Kind, float] = {}
        if mine.backward < len(backward):
            arrivals[Kind.BACKWARD] = backward[mine.backward]
        between = mine.forward - mine.backward
        full = False
        if mine.forward < len(forward) and between < self.habits.ahead[stage]:
            kept = between + self.stages.kept_units * (mine.backward - mine.weights)
            full = kept + 1 > self.memory
            if not full:
                arrivals[Kind.FORWARD] = forward[mine.forward]
        there = [kind for kind, at in arrivals.items() if at <= now + self.near]
        if there:  # by turns where both are
            turn = Kind.BACKWARD if mine.last is Kind.FORWARD else Kind.FORWARD
            self.begin(stage, turn if turn in there else there[0], now)
            return
        coming = min(arrivals.values(), default=None)
        if mine.weights < mine.backward and (
            full or coming is None or self.fits(stage, now, coming)
        ):
            self.begin(stage, Kind.WEIGHTS, now)
        elif coming is not None:
            heapq.heappush(self.looks, (coming, stage))

    def fits(self, stage: int, now: float, coming: float) -> bool:
        """Whether to begin gradients of parameters before what is coming."""
        if coming - now >= self.seconds[stage][Kind.WEIGHTS]:
            return True
        mine, habits = self.done[stage], self.habits
        all_forward = mine.forward == self.stages.micro_batches
        patience = (habits.last_patience if all_forward else habits.patience)[stage]
        return mine.idle + coming - mine.free > patience

    def begin(self, stage: int, kind: Kind, now: float) -> None:
        mine, stages = self.done[stage], self.stages
        if self.orders[stage]:
            mine.idle += now - mine.free
        end = mine.free = now + self.seconds[stage][kind]
        match kind:
            case Kind.FORWARD:
                number, mine.forward = mine.forward, mine.forward + 1
                if stage < stages.count - 1:
                    self.arrives(self.forward_at, stage + 1, end + stages.transfer[stage], now)
                else:
                    self.backward_at[stage].append(end)
            case Kind.BACKWARD:
                number, mine.backward = mine.backward, mine.backward + 1
                if stage:
                    self.arrives(self.backward_at, stage - 1, end + stages.transfer[stage - 1], now)
            case _:
                number, mine.weights = mine.weights, mine.weights + 1
        if kind is not Kind.WEIGHTS:
            mine.last = kind
        self.orders[stage].append(Task(kind, number))
        heapq.heappush(self.looks, (end, stage))

    def arrives(self, arrivals: list[list[float]], stage: int, at: float, now: float) -> None:
        """Tells a stage when something will be there; it may decide otherwise, knowing that."""
        arrivals[stage].append(at)
        for look in (at, now):
            heapq.heappush(self.looks, (max(look, self.done[stage].free), stage))
