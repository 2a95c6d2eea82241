"""When each task of a pipeline runs, given the order of tasks on each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.errors import InvariantError
from chainrule.plan.pipelines.stages import Kind, Orders, Stages, Task


class Slot(NamedTuple):
    """A task and when it runs, in seconds since the first task of the step."""

    task: Task
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """For each stage, when its tasks run."""

    slots: tuple[tuple[Slot, ...], ...]

    def span(self, stage: int) -> float:
        """From the stage's first start to its last end."""
        mine = self.slots[stage]
        return mine[-1].end - mine[0].start

    @property
    def longest_span(self) -> float:
        return max(map(self.span, range(len(self.slots))))

    @property
    def duration(self) -> float:
        """From the first start of all stages to their last end."""
        return max(mine[-1].end for mine in self.slots)


def timeline(stages: Stages, orders: Orders) -> Timeline:
    """Each task begins when the one before it has ended and what it needs has arrived.

    InvariantError for orders that make stages wait for each other in a circle.
    """
    ends: dict[tuple[bool, int, int], float] = {}  # (backward?, micro-batch, part): end
    slots: list[list[Slot]] = [[] for _ in orders]
    waiting = list(range(stages.count))[::-1]
    while waiting:
        stage = waiting.pop()
        mine, order = slots[stage], orders[stage]
        while len(mine) < len(order):
            task = order[len(mine)]
            ready = _ready(stages, stage, task, ends)
            if ready is None:
                break
            start = max(ready, mine[-1].end if mine else 0.0)
            end = start + stages.seconds(stage, task.kind)
            mine.append(Slot(task, start, end))
            if task.kind is not Kind.WEIGHTS:
                part = task.chunk * stages.count + stage
                ends[task.kind is not Kind.FORWARD, task.micro_batch, part] = end
                after = (stage + (1 if task.kind is Kind.FORWARD else -1)) % stages.count
                if after != stage and after not in waiting:
                    waiting.append(after)
    if any(len(mine) < len(order) for mine, order in zip(slots, orders, strict=True)):
        raise InvariantError("the orders of tasks make stages wait for each other in a circle")
    return Timeline(tuple(map(tuple, slots)))


def _ready(
    stages: Stages, stage: int, task: Task, ends: dict[tuple[bool, int, int], float]
) -> float | None:
    """When what the task needs is there; None where that is not known yet."""
    part = task.chunk * stages.count + stage
    needed: list[tuple[float | None, float]] = []
    match task.kind:
        case Kind.FORWARD:
            if part > 0:
                before = ends.get((False, task.micro_batch, part - 1))
                needed.append((before, stages.transfer[stage - 1]))
        case Kind.BACKWARD | Kind.WHOLE_BACKWARD:
            needed.append((ends.get((False, task.micro_batch, part)), 0.0))
            if part < stages.parts - 1:
                after = ends.get((True, task.micro_batch, part + 1))
                needed.append((after, stages.transfer[stage]))
        case Kind.WEIGHTS:
            needed.append((ends.get((True, task.micro_batch, part)), 0.0))
    if any(end is None for end, _ in needed):
        return None
    return max((end + delay for end, delay in needed if end is not None), default=0.0)


def peak_units(stages: Stages, order: tuple[Task, ...]) -> float:
    """The most memory of a stage, in units of what one micro-batch keeps there."""
    return max(units_of(stages, order), default=0.0)


def units_of(stages: Stages, order: Sequence[Task]) -> Iterator[float]:
    """The units in use during each task, exactly: counts are integers until they are weighed."""
    whole = half = 0
    for task in order:
        whole += task.kind is Kind.FORWARD
        yield (whole - half + stages.kept_units * half) / stages.chunks
        match task.kind:
            case Kind.BACKWARD:
                half += 1
            case Kind.WEIGHTS:
                whole, half = whole - 1, half - 1
            case Kind.WHOLE_BACKWARD:
                whole -= 1
