"""The way in: how long a pipeline takes, how much it waits, and what it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from chainrule.dataclass import dataclass
from chainrule.errors import InputError, MemoryLimitError
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.pipelines import exact
from chainrule.plan.pipelines import orders as known
from chainrule.plan.pipelines.bounds import lower_bound
from chainrule.plan.pipelines.search import searched
from chainrule.plan.pipelines.stages import Orders, Seconds, Stages, number_of, stages_of
from chainrule.plan.pipelines.text import text_of
from chainrule.plan.pipelines.timeline import Slot, Timeline, peak_units, timeline
from chainrule.tracebacks import entry

DEFAULT_EFFORT = 400  # schedules that a search tries
SCHEDULES: dict[str, Callable[[Stages], Orders]] = {
    "gpipe": known.gpipe,
    "1f1b": known.one_forward_one_backward,
    "zb-h1": known.zero_bubble_1,
    "zb-h2": known.zero_bubble_2,
}
INTERLEAVED, SEARCH = "interleaved", "search"
NAMES = ("gpipe", "1f1b", INTERLEAVED, "zb-h1", "zb-h2", SEARCH)


@dataclass(frozen=True)
class Pipeline(ShownByText):
    """A schedule of a pipeline and its times.

    `timeline[s]` has the tasks of stage s, with their starts and ends in seconds.  `cost` is the
    longest time from a stage's first start to its last end, `bubble` the part of it in which the
    busiest stage waits, `peak_units[s]` the most memory of stage s in units of what a micro-batch
    keeps there from its forward to its backward pass.  `lower_bound` is proved: no schedule of
    these tasks within `memory_units` costs less.
    """

    schedule: str
    stages: int
    micro_batches: int
    chunks: int
    timeline: tuple[tuple[Slot, ...], ...]
    cost: float
    bubble: float
    peak_units: tuple[float, ...]
    memory_units: float
    lower_bound: float

    @property
    def duration(self) -> float:
        """Seconds from the first start of all stages to their last end."""
        return Timeline(self.timeline).duration

    @property
    def lower_bound_bubble(self) -> float:
        """The bubble of a schedule that costs `lower_bound`."""
        busy = self.cost * (1 - self.bubble)
        return 1 - busy / self.lower_bound if self.lower_bound else 0.0

    @property
    def proved_optimal(self) -> bool:
        """Whether it is known that no schedule within the memory costs less."""
        return math.isclose(self.cost, self.lower_bound, rel_tol=1e-9)

    def text(self, width: int = 100) -> str:
        """The timeline in letters, a line for each stage; `.` is waiting."""
        return text_of(Timeline(self.timeline), width)

    def __str__(self) -> str:
        proof = (
            "proved optimal"
            if self.proved_optimal
            else f"at least {100 * self.lower_bound_bubble:.2f} %"
        )
        chunks = f", {self.chunks} chunks each" if self.chunks > 1 else ""
        return (
            f"{self.schedule}: {self.stages} stages{chunks}, {self.micro_batches} micro-batches, "
            f"{self.cost:.6g} s, {100 * self.bubble:.2f} % of it waiting ({proof}), "
            f"at most {max(self.peak_units):.6g} units of memory"
        )


@entry
def pipeline(
    stages: int,
    micro_batches: int,
    forward: Seconds,
    backward: Seconds,
    weights: Seconds,
    transfer: Seconds = 0.0,
    schedule: str = "1f1b",
    memory_units: float | None = None,
    *,
    chunks: int | None = None,
    kept_units: float = 1.0,
    seconds: float = 60.0,
    effort: int = DEFAULT_EFFORT,
    seed: int = 0,
) -> Pipeline:
    """When each stage of a pipeline does what, how much of the time it waits, and what it keeps.

    Each micro-batch goes forward through all stages, then its gradients go back: for the stage's
    inputs and for its parameters.  `forward`, `backward` and `weights` are the seconds of these
    three on a stage, `transfer` those of a message to a neighbour: one number, or one for each
    stage.  A message delays what needs it and keeps no stage busy.

    `schedule`:

    * "gpipe": all forward passes, then all backward passes; keeps all micro-batches;
    * "1f1b": forward and backward passes by turns; keeps `stages` micro-batches;
    * "interleaved": 1f1b with `chunks` (default 2) parts of the model on each stage; waits less,
      for more messages and memory.  It takes the smallest groups of micro-batches that hide the
      messages, within `memory_units`;
    * "zb-h1", "zb-h2": gradients of parameters are put off and done when a stage would wait;
    * "search": the best that `effort` tries of list scheduling find within `memory_units`
      (default: no limit); then CP-SAT goes on for what is left of `seconds`, where OR-tools is
      installed (`pip install ortools`) and there are at most 2,000 tasks.

    In the first three, gradients for inputs and parameters are one task.  A stage keeps one unit of
    memory for a micro-batch from the begin of its forward pass to the end of its backward pass,
    and `kept_units` of a unit from there to the gradients of the parameters.

    InputError for numbers that describe no pipeline, MemoryLimitError where a schedule needs more
    than `memory_units`.
    """
    if schedule not in NAMES:
        raise InputError(f"schedule is {schedule!r}", hint=f"one of {', '.join(NAMES)}")
    if chunks is not None and chunks != 1 and schedule != INTERLEAVED:
        raise InputError(f"chunks is {chunks}, and the schedule is {schedule!r}", hint=_ONLY)
    count = chunks if chunks is not None else 2 if schedule == INTERLEAVED else 1
    asked = stages_of(
        stages, micro_batches, forward, backward, weights, transfer, count, kept_units
    )
    limit = math.inf if memory_units is None else number_of("memory_units", memory_units)
    if not limit > 0:
        raise InputError(f"memory_units is {memory_units}", hint="more than 0")
    deadline = monotonic() + number_of("seconds", seconds)
    for name, number in (("effort", effort), ("seed", seed)):
        if not isinstance(number, int) or number < 0:
            raise InputError(f"{name} is {number!r}", hint="an integer, 0 or more")
    match schedule:
        case "search":
            if limit < 1:
                raise _refusal(schedule, 1.0, limit)
            orders = _searched(asked, limit, deadline, effort, seed)
        case "interleaved":
            orders = _interleaved(asked, limit)
        case _:
            orders = SCHEDULES[schedule](asked)
    return _answer(schedule, asked, orders, limit)


_ONLY = "only the schedule 'interleaved' has several chunks a stage"


def _searched(stages: Stages, limit: float, deadline: float, effort: int, seed: int) -> Orders:
    orders = searched(stages, limit, deadline, effort, seed)
    assert orders is not None, "1F1B that keeps one micro-batch is always possible"
    bound, left = lower_bound(stages, limit), deadline - monotonic()
    tasks = 3 * stages.count * stages.micro_batches
    best = timeline(stages, orders).longest_span
    if left > 0 and tasks <= exact.MOST_TASKS and best > bound and exact.is_installed():
        return exact.improved(stages, limit, orders, bound, left)
    return orders


def _answer(schedule: str, stages: Stages, orders: Orders, limit: float) -> Pipeline:
    peaks = tuple(peak_units(stages, order) for order in orders)
    if max(peaks) > limit + 1e-6:
        raise _refusal(schedule, max(peaks), limit)
    times = timeline(stages, orders)
    cost = times.longest_span
    return Pipeline(
        schedule,
        stages.count,
        stages.micro_batches,
        stages.chunks,
        times.slots,
        cost,
        1 - stages.busiest / cost if cost else 0.0,
        peaks,
        limit,
        min(cost, lower_bound(stages, limit)),
    )


def _interleaved(stages: Stages, limit: float) -> Orders:
    """In the smallest groups that hide the messages; in smaller ones where memory ends."""
    best = None
    for group in known.groups_of(stages):
        orders = known.interleaved(stages, group)
        if best is not None and max(peak_units(stages, one) for one in orders) > limit + 1e-6:
            break
        best = orders
        if known.hides_messages(stages, group):
            break
    assert best is not None
    return best


def _refusal(schedule: str, needed: float, limit: float) -> MemoryLimitError:
    hint = f"memory_units={math.ceil(needed)}"
    if schedule != SEARCH and limit >= 1:
        hint += "; or schedule='search', which looks for one within the limit"
    return MemoryLimitError(
        f"the schedule {schedule!r} keeps up to {needed:.6g} units, "
        f"and memory_units is {limit:.6g}",
        hint=hint,
    )
