"""The ways to train a step on several devices: one plan of each kind, made and followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from chainrule.advice.ways.way import OTHER, ROUNDING, TrainingWay
from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.grid import in_words
from chainrule.devices.instructions import AllGather, AllReduce, Begin, ReduceScatter, Send
from chainrule.devices.planning.ask import search_of
from chainrule.devices.planning.choose import Followed, Search
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.pins import Way
from chainrule.devices.reports.timeline import timeline_of
from chainrule.devices.reports.values import values_of
from chainrule.devices.stages import TIME
from chainrule.errors import ChainruleError, InputError
from chainrule.explain.cost.measured_runs import run_of_step
from chainrule.graph.bytes_text import in_bytes
from chainrule.plan.speeds import Speeds
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep
    from chainrule.devices.splitting import Split

EACH = (1, 2, 4, 8)  # micro-batches of a replica
ORDER = "1f1b"


@dataclass(frozen=True)
class Kind:
    """A kind of plans: its name, and over how many stages, replicas and ways it splits a step."""

    name: str
    stages: int
    replicas: int
    ways: int
    shard: bool = False
    recompute: bool = False


def kinds_of(devices: int, *, limited: bool) -> list[Kind]:
    """The kinds of plans on all of so many devices."""
    found = [
        Kind("data parallel", 1, devices, 1),
        Kind("data parallel, sharded states", 1, devices, 1, shard=True),
        Kind("pipeline", devices, 1, 1),
        Kind("split products", 1, 1, devices),
    ]
    if limited:
        found.append(Kind("pipeline, recomputing", devices, 1, 1, recompute=True))
    if devices % 2 == 0 and devices > 2:
        half = devices // 2
        found += [
            Kind("pipeline x data parallel", 2, half, 1),
            Kind("split products x data parallel", 1, half, 2),
        ]
    return found


@dataclass(frozen=True)
class Shared:
    """A step with a batch of some sizes on devices."""

    step: TrainingStep
    devices: Devices
    sizes: Mapping[str, int]
    size: str
    speeds: Speeds | None
    changes: str
    is_large: bool
    _known: list[Search] = field(default_factory=list, repr=False)

    def kinds(self) -> list[Kind]:
        """What is tried."""
        limited = any(one.memory_nbytes is not None for one in self.devices.groups)
        found = kinds_of(self.devices.count, limited=limited and not self.is_large)
        return [one for one in found if not (self.is_large and one.ways > 1 and one.replicas > 1)]

    def way(self, kind: Kind) -> Iterator[TrainingWay]:
        """The quickest plan of a kind by the model, as its programs say; nothing where there is
        none."""
        try:
            search = self._search().like(only=self._plans(kind))
            if not search.predictions:
                raise InputError("no plan has work for each device")
            ranked = search.possible or search.smallest
            found = search.follow(ranked[0])
        except ChainruleError as error:
            numbers = in_words(kind.stages, kind.replicas, kind.ways)
            yield TrainingWay(
                f"{kind.name}: {numbers}", kind.name, 0, 0.0, self._rows, "", why_not=error.what
            )
            return
        yield self._told(kind, search, found)

    def _search(self) -> Search:
        """The search, whose costs all kinds share."""
        if not self._known:
            self._known.append(search_of(self.step, self.devices, dict(self.sizes), size=self.size))
        return self._known[0]

    @property
    def _rows(self) -> int:
        return self.sizes[self.size]

    def _plans(self, kind: Kind) -> list[Way]:
        each = [one for one in EACH if self._rows % (one * kind.replicas) == 0]
        if kind.stages > 1:
            each = [one for one in each if one >= kind.stages] or each[-1:]
        if self.is_large or kind.shard or (kind.replicas > 1 and kind.stages == 1) or kind.ways > 1:
            each = each[:2]
        return [
            Way(
                kind.stages,
                kind.replicas,
                one * kind.replicas,
                ORDER,
                TIME,
                kind.recompute,
                kind.ways,
                kind.shard,
            )
            for one in each
        ]

    def _told(self, kind: Kind, search: Search, found: Followed) -> TrainingWay:
        plan, split, memory = found.way, found.split, found.memory
        programs = split.split_at(self.sizes)
        times = timeline_of(split, programs, self.sizes, self.speeds, memory)
        nbytes = max(one.most_nbytes for one in memory.ranks)
        idle = 1 - sum(times.busy) / (len(times.busy) * times.seconds) if times.seconds else 0.0
        limits = [search.devices.group_of(rank).memory_nbytes for rank in range(plan.ranks)]
        known = [one for one in limits if one is not None]
        why_not = ""
        if found.excess > 1:
            why_not = f"a device needs {in_bytes(nbytes)}, more than {in_bytes(min(known))}"
        forward = self.step.graph.cost(dict(self.sizes)).phases.get("forward")
        again = forward.flops if forward is not None and plan.recompute else 0
        made: Any = replace(split, devices=None, candidates=None)
        return TrainingWay(
            f"{kind.name}: {_words(plan)}",
            kind.name,
            nbytes,
            times.step_seconds,
            self._rows,
            _code(plan),
            devices=plan.ranks,
            extra_flops=again if isinstance(again, int) else 0,
            sent_nbytes=_sent(split, programs),
            idle=max(idle, 0.0),
            trajectory=OTHER if self.changes == OTHER and plan.micro_batches > 1 else ROUNDING,
            why_not=why_not,
            run=partial(run_of_step, made, self.sizes),
        )


def _sent(split: ParallelStep, programs: Split) -> int:
    """The bytes that devices give to others in a step: messages, and their parts of sums."""
    values = values_of(split, programs)
    found = 0
    for program in programs.programs:
        for one in program.instructions:
            match one:
                case Send(key):
                    found += values[key.value].nbytes
                case Begin(begun):
                    found += sum(values[key.value].nbytes for key in begun.keys)
                case AllReduce(keys):
                    found += sum(values[key.value].nbytes for key in keys)
                case AllGather(reads) | ReduceScatter(reads):
                    found += sum(values[key.value].nbytes for key in reads)
    return found


def _words(plan: Way) -> str:
    split = in_words(plan.stages, plan.replicas, plan.ways)
    parts = f"{plan.micro_batches} micro-batch{'es' if plan.micro_batches > 1 else ''}"
    return f"{split}, {parts}" if split else parts


def _code(plan: Way) -> str:
    said = [f"micro_batches={plan.micro_batches}"]
    for name, number in (("stages", plan.stages), ("replicas", plan.replicas), ("ways", plan.ways)):
        if number > 1:
            said.append(f"{name}={number}")
    said += ["shard_optimizer=True"] if plan.shard else []
    said += ["recompute=True"] if plan.recompute else []
    return f"cr.parallel(step, {', '.join(said)})"
