"""The numbers of a pipeline, checked: what each stage does with a micro-batch, and how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple

from chainrule.dataclass import dataclass
from chainrule.errors import InputError

Seconds = float | Sequence[float]

MOST_TASKS = 1_000_000  # of one pipeline: memory and time stay bounded


class Kind(Enum):
    """What a stage does with a micro-batch; the value is its letter in printed timelines."""

    FORWARD = "F"
    BACKWARD = "B"  # the gradients of the stage's inputs
    WEIGHTS = "W"  # the gradients of its parameters
    WHOLE_BACKWARD = "G"  # both of them in one piece: only then the message leaves


class Task(NamedTuple):
    """One piece of work of a stage.

    With several chunks a stage, `chunk` c of stage s is the part c * stages + s of the model.
    """

    kind: Kind
    micro_batch: int
    chunk: int = 0


Orders = tuple[tuple[Task, ...], ...]  # for each stage, its tasks one after the other


def is_kept(tasks: Sequence[Task], chunk: int = 0) -> bool:
    """Whether a stage ever does anything else between the forward and the backward pass of a chunk,
    and keeps its values meanwhile."""
    return any(
        one.kind is Kind.FORWARD
        and one.chunk == chunk
        and (other.kind is Kind.FORWARD or other.chunk != chunk)
        for one, other in pairwise(tasks)
    )


@dataclass(frozen=True)
class Stages:
    """`forward`, `backward` and `weights` are seconds of a micro-batch on each stage, all of its
    chunks together; `transfer[s]` is the time of a message between stage s and the next one, from
    the last to the first for the next chunk.  From its forward to its backward pass a micro-batch
    keeps one unit of memory on a stage, from there to the gradients of the parameters
    `kept_units`."""

    count: int
    micro_batches: int
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    weights: tuple[float, ...]
    transfer: tuple[float, ...]
    chunks: int = 1
    kept_units: float = 1.0

    @property
    def parts(self) -> int:
        """Into how many parts the model is cut."""
        return self.count * self.chunks

    def seconds(self, stage: int, kind: Kind) -> float:
        """How long a task of this kind takes on one chunk of the stage."""
        match kind:
            case Kind.FORWARD:
                whole = self.forward[stage]
            case Kind.BACKWARD:
                whole = self.backward[stage]
            case Kind.WEIGHTS:
                whole = self.weights[stage]
            case Kind.WHOLE_BACKWARD:
                whole = self.backward[stage] + self.weights[stage]
        return whole / self.chunks

    def work(self, stage: int) -> float:
        """Seconds that the stage works in a step."""
        return self.micro_batches * (
            self.forward[stage] + self.backward[stage] + self.weights[stage]
        )

    @property
    def busiest(self) -> float:
        """Seconds that the stage with most to do works in a step."""
        return max(map(self.work, range(self.count)))


def stages_of(
    stages: int,
    micro_batches: int,
    forward: Seconds,
    backward: Seconds,
    weights: Seconds,
    transfer: Seconds,
    chunks: int,
    kept_units: float,
) -> Stages:
    """The numbers of a pipeline, if they are some; InputError if not."""
    stages = _count("stages", stages)
    micro_batches = _count("micro_batches", micro_batches)
    chunks = _count("chunks", chunks)
    tasks = 3 * stages * micro_batches * chunks
    if tasks > MOST_TASKS:
        raise InputError(
            f"{stages} stages with {micro_batches} micro-batches are {tasks:,} tasks",
            hint=f"at most {MOST_TASKS:,}; a pipeline is as good with fewer micro-batches",
        )
    if not 0 <= number_of("kept_units", kept_units) <= 1:
        raise InputError(
            f"kept_units is {kept_units}",
            hint="from 0 to 1: what is kept for the gradients of the parameters alone, "
            "in units of what the forward pass keeps",
        )
    links = (*_each("transfer", transfer, stages, {stages - 1, stages}), 0.0)[:stages]
    return Stages(
        stages,
        micro_batches,
        _each("forward", forward, stages, {stages}),
        _each("backward", backward, stages, {stages}),
        _each("weights", weights, stages, {stages}),
        links,
        chunks,
        float(kept_units),
    )


def number_of(name: str, value: Any) -> float:
    """The value as a number; InputError where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} is {value!r:.60}", hint="a number")
    return float(value)


def _count(name: str, value: int) -> int:
    try:
        count = index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}", hint="an integer, 1 or more") from None
    if count < 1:
        raise InputError(f"{name} is {count}", hint="an integer, 1 or more")
    return count


def _each(name: str, value: Seconds, stages: int, lengths: set[int]) -> tuple[float, ...]:
    """One number for each stage."""
    several = isinstance(value, Sequence) or getattr(value, "ndim", 0)
    try:
        numbers = tuple(map(float, value)) if several else (float(value),) * stages  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {value!r}", hint="seconds: one number, or one for each stage"
        ) from None
    if several and len(numbers) not in lengths:
        raise InputError(
            f"{name} has {len(numbers)} numbers, and there are {stages} stages",
            hint="one number for all, or one for each stage",
        )
    wrong = next((one for one in numbers if not (math.isfinite(one) and one >= 0)), None)
    if wrong is not None:
        raise InputError(f"{name} has {wrong}", hint="seconds, finite and 0 or more")
    return numbers
