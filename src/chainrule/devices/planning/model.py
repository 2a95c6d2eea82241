"""Predicts time and bytes of a plan from what its stages cost, without its programs.

The time is that of the pipeline, stage by stage, and of adding up and updating after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

from chainrule.dataclass import dataclass, replace
from chainrule.devices.planning.costs import StageCosts, together
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.pins import Way
from chainrule.devices.reports.times import adding_seconds
from chainrule.plan.pipelines.pipeline import pipeline
from chainrule.plan.pipelines.stages import Kind, Orders, Stages, Task, is_kept
from chainrule.plan.pipelines.timeline import timeline, units_of


@dataclass(frozen=True, eq=False)
class Prediction:
    """`nbytes[s]` are bytes that a rank of stage s has at least at its peak: state, sums, data, and
    the values of the micro-batches that are under way; `state_nbytes[s]` are those of state and
    sums, which no batch changes.  `costs` are those of the stages, which work in these `orders`."""

    way: Way
    devices: Devices
    costs: tuple[StageCosts, ...]
    orders: Orders
    nbytes: tuple[int, ...]
    state_nbytes: tuple[int, ...]

    @cached_property
    def seconds(self) -> float:
        """The time of a step: a pipeline for each replica, then sums and updates."""
        costs, way, devices = self.costs, self.way, self.devices
        count, ends, known = way.stages, [0.0] * way.stages, set()
        for replica in range(way.replicas):
            stages = _stages(costs, way, devices, replica * count * way.ways)
            if stages not in known:  # most replicas are alike
                known.add(stages)
                for stage, slots in enumerate(timeline(stages, self.orders).slots):
                    ends[stage] = max(ends[stage], slots[-1].end)
        for stage, one in enumerate(costs):
            ranks = range(stage * way.ways, way.ranks, count * way.ways)
            if way.replicas > 1 and not way.shard and one.sums_nbytes:  # else the update adds up
                link = devices.link(ranks[0], ranks[-1])
                ends[stage] += adding_seconds(one.sums_nbytes, way.replicas, link)
            slowest = max(_ratio(devices, rank) for rank in ranks)
            ends[stage] += one.update * slowest
        return max(ends)


@lru_cache(maxsize=512)
def orders_of(stages: int, micro_batches: int, schedule: str, chunks: int = 1) -> Orders:
    """The order of tasks on each stage, for tasks that take the same time."""
    made = pipeline(stages, micro_batches, 1.0, 1.0, 1.0, schedule=schedule, chunks=chunks)
    return tuple(tuple(slot.task for slot in slots) for slots in made.timeline)


def predicted(costs: Sequence[StageCosts], way: Way, devices: Devices) -> Prediction:
    """Time and bytes of a plan.

    `costs` are those of its chunks; their times are those of the first group of devices, and those
    of others follow from their products.
    """
    count, each = way.stages, way.each
    orders = tuple(map(apart, orders_of(count, each, way.schedule, way.chunks)))
    again = [
        way.recompute and is_kept(orders[chunk % count], chunk // count)
        for chunk in range(len(costs))
    ]
    once = [one.kept_nbytes if it else 0 for one, it in zip(costs, again, strict=True)]
    once = [max(once[stage::count]) for stage in range(count)]
    costs = [_recomputing(one) if it else one for one, it in zip(costs, again, strict=True)]
    costs = [together(costs[stage::count]) for stage in range(count)]
    stages = _stages(costs, way, devices, 0)
    passes = [_most(order, one, stages) for order, one in zip(orders, costs, strict=True)]
    state = tuple(one.state_nbytes + one.sums_nbytes for one in costs)
    nbytes = (
        held + each * one.data_nbytes + max(most + all_of_one, one.update_nbytes) - one.made_nbytes
        for held, one, most, all_of_one in zip(state, costs, passes, once, strict=True)
    )
    return Prediction(way, devices, tuple(costs), orders, tuple(nbytes), state)


def _most(order: Sequence[Task], one: StageCosts, stages: Stages) -> int:
    """The most bytes of values at once in the passes of a stage."""
    working = {
        Kind.FORWARD: one.ahead_working_nbytes,
        Kind.BACKWARD: one.working_nbytes,
        Kind.WEIGHTS: one.late_working_nbytes,
    }
    under_way = zip(order, units_of(stages, order), strict=True)
    return max(int(n * one.kept_nbytes) + working.get(task.kind, 0) for task, n in under_way)


def _recomputing(one: StageCosts) -> StageCosts:
    """A stage that keeps what its forward pass begins with, and does it again; nobody waits for
    that, as for the gradients of its parameters."""
    return replace(
        one,
        weights=one.weights + one.forward,
        kept_nbytes=one.taken_nbytes,
        late_nbytes=one.taken_nbytes,
    )


def _ratio(devices: Devices, rank: int) -> float:
    """How many times as long a device takes as the first one."""
    return devices.groups[0].flops("float32") / devices.group_of(rank).flops("float32")


def _stages(costs: Sequence[StageCosts], way: Way, devices: Devices, base: int) -> Stages:
    """The numbers of the pipeline whose first rank is `base`."""
    ranks = range(base, base + way.stages * way.ways, way.ways)
    ratios = [_ratio(devices, rank) for rank in ranks]
    transfer = [0.0] * len(costs)  # from the last one to the first for the next chunk
    for stage in range(len(costs) - (way.chunks == 1)):
        after = (stage + 1) % len(costs)
        nbytes = max(costs[stage].ahead_nbytes, costs[after].back_nbytes)
        transfer[stage] = devices.link(ranks[stage], ranks[after]).seconds(nbytes)
    both = [one.late_nbytes / one.kept_nbytes for one in costs if one.kept_nbytes]
    return Stages(
        way.stages,
        way.each,
        tuple(one.forward * ratio for one, ratio in zip(costs, ratios, strict=True)),
        tuple(one.backward * ratio for one, ratio in zip(costs, ratios, strict=True)),
        tuple(one.weights * ratio for one, ratio in zip(costs, ratios, strict=True)),
        tuple(transfer),
        way.chunks,
        kept_units=min(both, default=1.0),
    )


def apart(order: Sequence[Task]) -> tuple[Task, ...]:
    """A rank sends on the gradients of inputs before it computes those of parameters."""
    found: list[Task] = []
    for task in order:
        if task.kind is Kind.WHOLE_BACKWARD:
            found += [task._replace(kind=Kind.BACKWARD), task._replace(kind=Kind.WEIGHTS)]
        else:
            found.append(task)
    return tuple(found)
