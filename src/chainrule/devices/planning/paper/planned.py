"""The way in: the best plan of a step on many devices, from types alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.parts import Parts, parts_at
from chainrule.devices.planning.ask import advice_on_parts, refuse_sum
from chainrule.devices.planning.devices import Devices, Group, count_of
from chainrule.devices.planning.paper.chain import Chain, chain_of
from chainrule.devices.planning.paper.plans import (
    SCHEDULES,
    StagePlan,
    Totals,
    Way,
    seconds_of,
    simulated,
    stages_of,
)
from chainrule.devices.planning.paper.pricing import Price, price
from chainrule.devices.planning.pins import (
    MOST_EACH,
    chunks_of,
    numbers,
    refuse_no_switch,
    sizes_of,
)
from chainrule.devices.tensor.choosing import MOST_WAYS, can_choose, not_shared
from chainrule.errors import InputError, MemoryLimitError
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.frozen import NotPickled
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node
from chainrule.plan.pipelines.pipeline import INTERLEAVED
from chainrule.tracebacks import entry
from chainrule.train.step.step import TrainingStep

RANKED, SIMULATED = 10, 20  # plans that are told; those whose pipelines are simulated
MOST_TASKS = 50_000  # of a pipeline that is simulated
MOST_ROWS = 16  # of a micro-batch: with more, pipelines wait longer for as much work


@dataclass(frozen=True)
class Plan:
    """A way to split a step, its stages, and its predicted seconds."""

    way: Way
    stages: tuple[StagePlan, ...] = field(repr=False)
    seconds: float

    @property
    def nbytes(self) -> int:
        """The bytes of the device that needs most."""
        return max(one.nbytes for one in self.stages)


@dataclass(frozen=True, eq=False)
class ParallelPlan(NotPickled, ShownByText):
    """The plans of a step on devices, the best first; `cr.plan_parallel` makes it.

    `ranked` are the ten best; `compared` is how many there were, of which `too_large` do not fit.
    `best.stages` says which layers each stage has, and the bytes of its devices.
    """

    _called = "a plan on paper"
    _instead = "str(plan) is its text, plan.why() says why the best one is the best"

    name: str
    sizes: Mapping[str, int]
    devices: Devices
    ranked: tuple[Plan, ...]
    compared: int
    too_large: int
    priced: int
    chain: Chain = field(repr=False)

    @property
    def best(self) -> Plan:
        """The quickest plan that fits."""
        return self.ranked[0]

    def why(self) -> str:
        """Why the best plan is the best, in some sentences."""
        from chainrule.devices.planning.paper.text import why

        return why(self)

    def __str__(self) -> str:
        from chainrule.devices.planning.paper.text import text

        return text(self)


@entry
def plan_parallel(
    step: TrainingStep,
    devices: Devices,
    *,
    batch: int | Mapping[str, int],
    stages: int | None = None,
    ways: int | None = None,
    replicas: int | None = None,
    micro_batches: int | None = None,
    schedule: str | None = None,
    chunks: int | None = None,
    sharded: bool | None = None,
    recomputed: bool | None = None,
    size: str | None = None,
) -> ParallelPlan:
    """The best plan of a training step on many devices, on paper: nothing is allocated or run.

    The step is made from types alone: `cr.training_step(f, wrt, cr.adam(), x=cr.int64["n 2048"],
    ...)`.  Its forward pass is a chain of layers, which are found in the graph; one of each kind is
    priced.  `stages` are parts of the chain; `ways` devices share each product of a stage, by
    columns and rows (tensor parallelism); `replicas` work on parts of the batch; `sharded` says
    whether each replica has a part of the optimizer's arrays, `recomputed` whether a layer keeps
    its input alone and computes the rest again.  What is left out is searched for.  Of the schedule
    "interleaved", each stage has `chunks` parts of the chain (2).

    Device (r * stages + s) * ways + w is the one of replica r, stage s and way w.  Bytes are
    parameters, sums of gradients, the optimizer's arrays, values that are kept for the backward
    pass, messages, and the operands of the largest operation.  Seconds are those of products by the
    devices' speed, of other values by their memory, and of messages by their links.

    InputError for numbers that no plan has, SizeError for a wrong batch, MemoryLimitError where no
    plan fits, with what does not fit and what would help.
    """
    if not isinstance(step, TrainingStep) or not isinstance(devices, Devices):
        wrong = type(devices if isinstance(step, TrainingStep) else step).__name__
        raise InputError(
            f"cr.plan_parallel plans a training step on devices, got {wrong}",
            hint='cr.plan_parallel(step, cr.Devices.load("cluster.toml"), batch=256)',
        )
    if step.carried:
        raise InputError(
            f"the step carries {', '.join(step.carried)}, and layers on paper are priced without "
            "state of the objective",
            hint="cr.parallel(step, devices, batch=256, micro_batches=8) plans it as it is; or "
            f"leave state= out: training_step(..., of={step.objective!r}, training=False)",
        )
    fixed: dict[str, Any] = {
        "stages": stages,
        "ways": ways,
        "replicas": replicas,
        "micro_batches": micro_batches,
    }
    for name, number in fixed.items():
        if number is not None:
            fixed[name] = count_of(number, name)
    refuse_no_switch(sharded=sharded, recomputed=recomputed)
    if schedule is not None and schedule not in SCHEDULES:
        raise InputError(f"schedule is {schedule!r}", hint=f"one of {', '.join(SCHEDULES)}")
    parts = chunks_of(schedule or INTERLEAVED, chunks)
    whole = step.micro_batched(1, size=size)
    sizes = sizes_of(step, whole.size, batch)
    if micro_batches is None:
        refuse_sum(step, whole.size)
    fixed |= {"schedule": schedule, "sharded": sharded, "recomputed": recomputed}
    return _Search(step, devices, sizes, whole.size, fixed, parts).best()


class _Search:
    def __init__(
        self,
        step: TrainingStep,
        devices: Devices,
        sizes: Mapping[str, int],
        size: str,
        fixed: Mapping[str, Any],
        chunks: int,
    ) -> None:
        self.step, self.devices, self.sizes, self.size = step, devices, sizes, size
        self.fixed, self.chunks = fixed, chunks
        self.micro = step.micro_batched(1, size=size)
        self.chains: dict[int, tuple[Chain, dict[Node, int]]] = {}
        self.prices: dict[tuple[int, int], Totals] = {}
        self.shared: dict[int, bool] = {1: True}
        self.names: dict[Node, str] = {}  # of inputs of chains
        self.priced: set[object] = set()
        limits = [one.memory_nbytes for one in devices.groups]
        known = [one for one in limits if one is not None]
        self.limit = min(known, default=None)
        self.group: Group = min(devices.groups, key=lambda one: one.flops("float32"))

    @cached_property
    def whole(self) -> Parts:
        """The step with the whole batch."""
        return parts_at(self.micro, self.sizes)

    def chain(self, rows: int) -> tuple[Chain, dict[Node, int]]:
        """The chain for micro-batches of so many rows, and the optimizer's bytes by parameter."""
        if rows not in self.chains:
            parts = parts_at(self.micro, {**self.sizes, self.size: rows})
            inputs = {item.name: item.node for item in parts.summing.inputs}
            self.names |= {node: name for name, node in inputs.items()}
            optimizer: dict[Node, int] = {}
            for item in parts.updating.inputs:
                of = parts.owned.get(item.name)
                if of is not None and of != item.name:
                    node = inputs[of]
                    optimizer[node] = optimizer.get(node, 0) + int(item.type.nbytes)
            self.chains[rows] = chain_of(parts, self.step.parameters), optimizer
        return self.chains[rows]

    def priced_at(self, rows: int, ways: int) -> Totals:
        """The price of each element; elements that are alike are priced once."""
        if (rows, ways) not in self.prices:
            chain, optimizer = self.chain(rows)
            link = self.devices.link(0, ways - 1)
            known: dict[object, Price] = {}
            found = []
            for one in chain.elements:
                if one.signature not in known:
                    known[one.signature] = price(one, ways, self.group, link, optimizer)
                found.append(known[one.signature])
            self.priced.update(known)
            self.prices[rows, ways] = Totals(found)
        return self.prices[rows, ways]

    def can_share(self, ways: int) -> bool:
        """Whether so many ranks of `cr.parallel` can share a product; of layers, which are alike,
        those of the first are looked at."""
        if ways not in self.shared:
            parts = self.whole
            graph = parts.summing
            chain, _ = self.chain(1)
            elements = chain.elements
            if chain.layers:
                elements = (*elements[:3], elements[-1])
            some = {one for element in elements for one in element.parameters}
            names = {self.names[one] for one in some}
            objective, known = graph.names[parts.objective], self.step.parameters
            self.shared[ways] = can_choose(graph, objective, known, ways, names)
        return self.shared[ways]

    def ways(self) -> Iterator[Way]:
        """All plans."""
        fixed, rows, most = self.fixed, self.sizes[self.size], self.devices.count
        elements = len(self.chain(1)[0].elements)
        for stages in _those(fixed["stages"], numbers(min(most, elements))):
            for ways in _those(fixed["ways"], _powers(self._most_ways())):
                left = most // (stages * ways)
                if left and not self.can_share(ways):
                    continue
                for replicas in _those(fixed["replicas"], _largest(left, rows)):
                    if stages * ways * replicas > most or rows % replicas:
                        continue
                    for part in self._rows(rows // replicas, replicas):
                        yield from self._variants(stages, ways, replicas, part)

    def _most_ways(self) -> int:
        return min(one.devices for one in self.devices.groups)

    def _rows(self, rows: int, replicas: int) -> list[int]:
        """The rows that a micro-batch may have, of those of a replica."""
        asked = self.fixed["micro_batches"]
        if asked is not None:
            each, left = divmod(asked, replicas)
            return [] if left or not each or rows % each else [rows // each]
        few = [one for one in _powers(min(rows, MOST_ROWS)) if rows % one == 0]
        return sorted({*few, *(rows // one for one in _powers(MOST_EACH) if rows % one == 0)})

    def _variants(self, stages: int, ways: int, replicas: int, rows: int) -> Iterator[Way]:
        count, fixed = self.sizes[self.size] // rows, self.fixed
        schedules = SCHEDULES if stages > 1 else SCHEDULES[:1]
        if stages * self.chunks > len(self.chain(1)[0].elements):
            schedules = [one for one in schedules if one != INTERLEAVED]
        for schedule in _those(fixed["schedule"], schedules):
            chunks = self.chunks if schedule == INTERLEAVED and stages > 1 else 1
            for sharded in _those(fixed["sharded"], (False, True) if replicas > 1 else (False,)):
                for again in _those(fixed["recomputed"], (False, True)):
                    numbers = stages, ways, replicas, rows, count
                    yield Way(*numbers, schedule, sharded, again, chunks)

    def best(self) -> ParallelPlan:
        """The best plans; MemoryLimitError where none fits."""
        ways = self.fixed["ways"]
        if ways is not None and not self.can_share(ways):
            others = [str(one) for one in range(2, MOST_WAYS + 1) if self.can_share(one)]
            raise not_shared(ways, f"ways={' or '.join(others) or 1}")
        found: list[Plan] = []
        large: list[Way] = []
        for way in self.ways():
            stages = stages_of(way, self.priced_at(way.rows, way.ways), self.limit)
            if stages is None:
                large.append(way)
                continue
            seconds = seconds_of(way, stages, self.devices)
            found.append(Plan(way, tuple(stages), seconds))
        if not found:
            raise self._refusal(large)
        found.sort(key=_order)
        best = sorted(map(self._simulated, found[:SIMULATED]), key=_order)
        return ParallelPlan(
            self.step.graph.name,
            dict(self.sizes),
            self.devices,
            tuple(best[:RANKED]),
            len(found) + len(large),
            len(large),
            len(self.priced),
            self.chain(1)[0],
        )

    def _simulated(self, plan: Plan) -> Plan:
        way = plan.way
        if 3 * way.stages * way.each * way.chunks > MOST_TASKS:
            return plan
        return replace(plan, seconds=simulated(way, plan.stages, self.devices))

    def _no_plan(self) -> InputError:
        """Numbers that do not fit each other."""
        fixed, rows = self.fixed, self.sizes[self.size]
        said = ", ".join(f"{k}={v}" for k, v in fixed.items() if v is not None)
        least = prod(fixed[name] or 1 for name in ("stages", "ways", "replicas"))
        if least > self.devices.count:
            hint = f"{least} devices, or fewer stages, ways or replicas"
        else:
            hint = advice_on_parts(rows, fixed["replicas"], fixed["micro_batches"])
        return InputError(
            f"{self.devices.count} devices have no plan for {self.size} = {rows} with {said}",
            hint=hint,
        )

    def _refusal(self, large: Sequence[Way]) -> InputError | MemoryLimitError:
        if not large:
            return self._no_plan()
        least: Plan | None = None
        for way in large:
            stages = stages_of(way, self.priced_at(way.rows, way.ways), None)
            if stages is not None:
                plan = Plan(way, tuple(stages), 0.0)
                least = plan if least is None or plan.nbytes < least.nbytes else least
        if least is None:
            return InputError(
                f"{self.step.graph.name} has {len(self.chain(1)[0].elements)} parts that follow "
                "each other, and more stages were asked for",
                hint="fewer stages, or chunks",
            )
        number, worst = max(enumerate(least.stages), key=lambda one: one[1].nbytes)
        parts = sorted(worst.parts.items(), key=lambda one: -one[1])
        told = ", ".join(f"{name} {in_bytes(nbytes)}" for name, nbytes in parts[:3])
        assert self.limit is not None
        error = MemoryLimitError(
            f"{self.step.graph.name} does not fit on {self.devices.count} devices: in the smallest "
            f"plan found, {least.way.words}, stage {number} needs {worst.nbytes:,} bytes on each "
            f"device, which has {self.limit:,}; there are {told}",
            hint=f"devices with {worst.nbytes:,} bytes each ({in_bytes(worst.nbytes)}), on which "
            "this plan fits",
        )
        error.needed_nbytes, error.free_nbytes = worst.nbytes, self.limit
        error.source = "the memory of a device"
        return error


def _order(plan: Plan) -> tuple[object, ...]:
    """The quickest first; of plans that take the same time, the simplest."""
    return plan.seconds, plan.way.recomputed, plan.way.sharded, plan.way


def _those(fixed: Any, free: Sequence[Any]) -> Sequence[Any]:
    return free if fixed is None else [fixed]


def _powers(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]


def _largest(most: int, rows: int) -> list[int]:
    """The largest numbers of replicas that share the rows evenly, and one that is alone."""
    found = [one for one in range(min(most, rows), 0, -1) if rows % one == 0]
    return found[:2]
