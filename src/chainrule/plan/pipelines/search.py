"""A search for better schedules under a limit of memory: list scheduling with many habits."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from time import monotonic

from chainrule.plan.pipelines.bounds import lower_bound
from chainrule.plan.pipelines.listing import Habits, Listing
from chainrule.plan.pipelines.orders import (
    one_forward_one_backward,
    zero_bubble_1,
    zero_bubble_2,
)
from chainrule.plan.pipelines.stages import Orders, Stages
from chainrule.plan.pipelines.timeline import peak_units, timeline

MORE_AHEAD = (0.0, 0.5, 0.75, 1.0, 2.0, 3.0)  # forward passes more than fill the time
PATIENCE = (0.0, 0.5, 1.0, math.inf)  # in units of the least time that must be idle
EXACT = 1e-9


def searched(
    stages: Stages, memory_units: float, deadline: float, effort: int, seed: int
) -> Orders | None:
    """The best orders found within the memory, or None; the same for the same numbers, unless the
    time has ended the search."""
    bound = lower_bound(stages, memory_units)
    best, cost = None, math.inf
    habits: Habits | None = None
    for orders in _known(stages, memory_units):
        best, cost = min((best, cost), (orders, _cost(stages, orders)), key=lambda pair: pair[1])
    tried = 0
    for one in _first_habits(stages, bound):
        orders = Listing(stages, memory_units, one).orders_found()
        tried += 1
        if orders is not None and (found := _cost(stages, orders)) < cost:
            best, cost, habits = orders, found, one
        if _ended(cost, bound, tried, effort, deadline):
            return best
    draws = random.Random(seed)
    while habits is not None and not _ended(cost, bound, tried, effort, deadline):
        other = _changed(habits, stages, bound, draws)
        orders = Listing(stages, memory_units, other).orders_found()
        tried += 1
        if orders is not None and (found := _cost(stages, orders)) <= cost:
            best, cost, habits = orders, found, other
    return best


def _ended(cost: float, bound: float, tried: int, effort: int, deadline: float) -> bool:
    return cost <= bound * (1 + EXACT) or tried >= effort or monotonic() > deadline


def _cost(stages: Stages, orders: Orders) -> float:
    return timeline(stages, orders).longest_span


def _known(stages: Stages, memory_units: float) -> Iterator[Orders]:
    """The schedules in closed form that are within the memory."""
    for schedule in (one_forward_one_backward, zero_bubble_1, zero_bubble_2):
        orders = schedule(stages)
        if all(peak_units(stages, order) <= memory_units + 1e-6 for order in orders):
            yield orders


def _first_habits(stages: Stages, bound: float) -> Iterator[Habits]:
    """The same habits everywhere: with as many forward passes first as the memory of ZB-H1 allows,
    or as fill the time until the first gradient comes back."""
    few = [float(stages.count - stage) for stage in range(stages.count)]
    fill = _filling(stages)
    least = _least_idle(stages, bound)
    for patience in PATIENCE:
        for last in PATIENCE:
            for more in MORE_AHEAD:
                yield _habits(stages, [one + more for one in fill], patience * least, last * least)
            yield _habits(stages, few, patience * least, last * least)


def _least_idle(stages: Stages, bound: float) -> float:
    """Seconds that the first stage must wait in all, or a small part of its work."""
    return max(bound - stages.busiest, 0.002 * stages.busiest)


def _filling(stages: Stages) -> list[float]:
    """How many forward passes each stage can do until the first gradient can be there."""
    counts, after = [], 0.0  # `after`: from the stage's first end to the first gradient
    for stage in reversed(range(stages.count)):
        each = stages.forward[stage]
        counts.append(1 + after / each if each else math.inf)
        if stage:
            after += each + stages.backward[stage] + 2 * stages.transfer[stage - 1]
    return counts[::-1]


def _habits(stages: Stages, ahead: list[float], patience: float, last: float) -> Habits:
    most = stages.micro_batches
    return Habits(
        tuple(max(1, math.floor(min(one, most))) for one in ahead),
        (patience,) * stages.count,
        (last,) * stages.count,
    )


def _changed(habits: Habits, stages: Stages, bound: float, draws: random.Random) -> Habits:
    """Habits of which some are others, on some stages."""
    least = _least_idle(stages, bound)
    for _ in range(draws.choice((1, 1, 2, 3))):
        stage = draws.randrange(stages.count)
        match draws.choice(("ahead", "patience", "last_patience")):
            case "ahead":
                value = max(1, habits.ahead[stage] + draws.choice((-1, 1)))
                habits = habits.with_one("ahead", stage, value)
            case field:
                habits = habits.with_one(field, stage, draws.randrange(13) / 10 * least)
    return habits
