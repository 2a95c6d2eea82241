"""Schedules by constraint programming: CP-SAT of OR-tools, an optional library."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from chainrule.plan.pipelines.stages import Kind, Orders, Stages, Task
from chainrule.plan.pipelines.timeline import timeline

MOST_TASKS = 2_000
HORIZON = 1 << 24  # CP-SAT counts in integers: the time of the first schedule in these
UNIT = 1_000_000  # of memory
KINDS = (Kind.FORWARD, Kind.BACKWARD, Kind.WEIGHTS)


def is_installed() -> bool:
    return find_spec("ortools") is not None


def improved(
    stages: Stages, memory_units: float, orders: Orders, bound: float, seconds: float
) -> Orders:
    """Orders that cost no more than the given ones, of one chunk a stage with parted backward
    passes; the given ones where nothing better is found in the time."""
    if any(task.kind is Kind.WHOLE_BACKWARD for order in orders for task in order):
        return orders
    from ortools.sat.python import cp_model

    times = timeline(stages, orders)
    scale = HORIZON / times.duration
    model = _Model(cp_model.CpModel(), stages, scale)
    model.require_order()
    if math.isfinite(memory_units):
        model.require_memory(memory_units)
    model.shorten(math.floor(bound * scale), math.ceil(times.longest_span * scale) + 1)
    for stage, slots in enumerate(times.slots):
        for slot in slots:
            start = model.starts[slot.task.kind, stage, slot.task.micro_batch]
            model.model.add_hint(start, round(slot.start * scale))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    if solver.solve(model.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return orders
    found = model.orders(solver)
    better = timeline(stages, found).longest_span < times.longest_span
    return found if better else orders


class _Model:
    """The pipeline as constraints between the starts of tasks."""

    def __init__(self, model: Any, stages: Stages, scale: float) -> None:
        self.model, self.stages = model, stages
        # Rounded up: what fits in integers fits in seconds.
        self.lasts = {
            (kind, stage): math.ceil(stages.seconds(stage, kind) * scale)
            for kind in KINDS
            for stage in range(stages.count)
        }
        self.delays = [math.ceil(one * scale) for one in stages.transfer]
        self.starts = {
            (kind, stage, i): model.new_int_var(0, 2 * HORIZON, "")
            for kind in KINDS
            for stage in range(stages.count)
            for i in range(stages.micro_batches)
        }

    def end(self, kind: Kind, stage: int, i: int) -> Any:
        return self.starts[kind, stage, i] + self.lasts[kind, stage]

    def require_order(self) -> None:
        """Tasks of a kind come in the order of micro-batches, on one stage one at a time."""
        add, starts, count = self.model.add, self.starts, self.stages.count
        for stage in range(count):
            intervals = [
                self.model.new_fixed_size_interval_var(
                    starts[kind, stage, i], self.lasts[kind, stage], ""
                )
                for kind in KINDS
                for i in range(self.stages.micro_batches)
            ]
            self.model.add_no_overlap(intervals)
            for i in range(self.stages.micro_batches):
                for kind in KINDS:
                    if i:
                        add(starts[kind, stage, i] >= self.end(kind, stage, i - 1))
                add(starts[Kind.BACKWARD, stage, i] >= self.end(Kind.FORWARD, stage, i))
                add(starts[Kind.WEIGHTS, stage, i] >= self.end(Kind.BACKWARD, stage, i))
                if stage < count - 1:
                    there = self.end(Kind.FORWARD, stage, i) + self.delays[stage]
                    back = self.end(Kind.BACKWARD, stage + 1, i) + self.delays[stage]
                    add(starts[Kind.FORWARD, stage + 1, i] >= there)
                    add(starts[Kind.BACKWARD, stage, i] >= back)

    def require_memory(self, memory_units: float) -> None:
        kept = math.ceil(self.stages.kept_units * UNIT)
        amounts = {Kind.FORWARD: UNIT, Kind.BACKWARD: kept - UNIT, Kind.WEIGHTS: -kept}
        for stage in range(self.stages.count):
            times, changes = [], []
            for kind, amount in amounts.items():
                for i in range(self.stages.micro_batches):
                    at_start = kind is Kind.FORWARD
                    times.append(
                        self.starts[kind, stage, i] if at_start else self.end(kind, stage, i)
                    )
                    changes.append(amount)
            self.model.add_reservoir_constraint(
                times, changes, 0, math.floor(memory_units * UNIT + 1)
            )

    def shorten(self, least: int, most: int) -> None:
        cost = self.model.new_int_var(least, most, "")
        for stage in range(self.stages.count):
            last = self.end(Kind.WEIGHTS, stage, self.stages.micro_batches - 1)
            self.model.add(last - self.starts[Kind.FORWARD, stage, 0] <= cost)
        self.model.minimize(cost)

    def orders(self, solver: Any) -> Orders:
        found = []
        for stage in range(self.stages.count):
            starts = [
                (solver.value(start), kind is not Kind.FORWARD, i, kind.value, kind)
                for (kind, at, i), start in self.starts.items()
                if at == stage
            ]
            found.append(
                tuple(Task(one[-1], one[2]) for one in sorted(starts, key=lambda s: s[:4]))
            )
        return tuple(found)
