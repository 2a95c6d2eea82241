"""Searches for the best plan of a step on devices: all by a model, the best by their programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from chainrule.devices.planning.candidates import Candidate, Candidates
from chainrule.devices.planning.costs import StageCosts, compiled, costs_of, in_numpy
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.model import Prediction, predicted
from chainrule.devices.planning.pins import SCHEDULES, Pins, Way
from chainrule.devices.programs import Parts
from chainrule.devices.reports.memory import ParallelMemory, memory_of
from chainrule.devices.reports.timeline import timeline_of
from chainrule.devices.splitting import parts_at, placed_step
from chainrule.devices.stages import Placed
from chainrule.execute.executors import executor_of
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep

RANKED = 10  # plans that are told
EFFORT = 20_000  # nodes of the plans whose programs are made: time is bounded, without a clock
LEAST_NODES, OF_RANK = 250, 20  # that a plan counts as, and each of its ranks
SLACK = 1.25  # of the model's bytes: stages of other sizes of micro-batches may be cut elsewhere


@dataclass(frozen=True)
class Followed:
    """A plan whose programs were made and followed."""

    way: Way
    split: ParallelStep
    memory: ParallelMemory
    excess: float  # of the rank that is worst off: its bytes by those of its device


@dataclass(eq=False)
class Search:
    """The plans of a step for a batch of some sizes.

    `ranks` are the numbers of ranks allowed; `in_job` says that a job has as many.
    """

    step: TrainingStep
    devices: Devices
    sizes: Mapping[str, int]
    size: str
    pins: Pins
    ranks: tuple[int, ...]
    in_job: bool = False
    _parts: dict[int, MicroBatchedStep] = field(default_factory=dict)
    _graphs: dict[int, Parts] = field(default_factory=dict)
    _costs: dict[tuple[int, int, str], tuple[StageCosts, ...]] = field(default_factory=dict)
    _places: dict[tuple[int, str], tuple[Parts, Placed]] = field(default_factory=dict)
    _followed: dict[Way, Followed] = field(default_factory=dict, init=False)

    def like(
        self,
        *,
        sizes: Mapping[str, int] | None = None,
        devices: Devices | None = None,
        ranks: tuple[int, ...] | None = None,
    ) -> Search:
        """The search for another batch, or on more of these devices, by the schedule that needs
        least; what is known stays known."""
        sizes = {**self.sizes, **(sizes or {})}
        return replace(
            self,
            sizes=sizes,
            devices=devices or self.devices,
            ranks=ranks or self.ranks,
            pins=replace(self.pins, schedule=self.pins.schedule or SCHEDULES[0]),
        )

    @property
    def rows(self) -> int:
        """The rows of the whole batch."""
        return self.sizes[self.size]

    # All plans, by the model ----------------------------------------------------------------------

    @cached_property
    def predictions(self) -> dict[Way, Prediction]:
        """What each plan takes by the model."""
        found = {}
        for way in self.pins.ways(self.ranks, self.rows):
            costs = self.costs(way)
            if self.pins.stages is None and any(not one.forward for one in costs):
                continue  # there is not as much to do
            each = way.micro_batches // way.replicas
            found[way] = predicted(
                costs, way.replicas, each, way.schedule, way.recompute, self.devices
            )
        return found

    def costs(self, way: Way) -> tuple[StageCosts, ...]:
        """What the stages of a plan cost."""
        rows = self.rows // way.micro_batches
        key = way.stages, rows, way.balance
        if key not in self._costs:
            step = self.parts(way.micro_batches)
            graphs = self._graphs.get(rows)
            if graphs is None:
                graphs = self._graphs[rows] = parts_at(step, {**self.sizes, self.size: rows})
            placed = self._placed(step, graphs, way)
            kernels = executor_of(self.step.executor).traits.has_kernels
            seconds = (compiled if kernels else in_numpy)(self.devices.groups[0])
            self._costs[key] = costs_of(graphs, placed, seconds)
        return self._costs[key]

    def _placed(self, step: MicroBatchedStep, graphs: Parts, way: Way) -> Placed:
        """The stages of the nodes: where the first batch has them, whose nodes are alike."""
        key = way.stages, way.balance
        if key in self._places:
            known, placed = self._places[key]
            nodes = known.summing.nodes, graphs.summing.nodes
            if [one.primitive for one in nodes[0]] == [one.primitive for one in nodes[1]]:
                return placed.on(dict(zip(*nodes, strict=True)))
        placed = placed_step(
            step, graphs, way.stages, self.pins.ends, way.balance, self.step.executor
        )
        self._places.setdefault(key, (graphs, placed))
        return placed

    def parts(self, micro_batches: int) -> MicroBatchedStep:
        """The step on so many parts of a batch."""
        if micro_batches not in self._parts:
            self._parts[micro_batches] = self.step.micro_batched(micro_batches, size=self.size)
        return self._parts[micro_batches]

    def excess(self, way: Way, nbytes: Iterable[int]) -> float:
        """How many times as many bytes as it has the device needs that is worst off; `nbytes` are
        those of each stage, or of each rank."""
        known = list(nbytes)
        worst = 0.0
        for rank in range(way.stages * way.replicas):
            limit = self.devices.group_of(rank).memory_nbytes
            if limit is not None:
                worst = max(worst, known[rank % len(known)] / limit)
        return worst

    @cached_property
    def possible(self) -> list[Way]:
        """The plans that may fit, the quickest first."""
        known = self.predictions.items()
        found = [way for way, one in known if self.excess(way, one.nbytes) <= SLACK]
        return sorted(found, key=lambda way: (self.predictions[way].seconds, way))

    @cached_property
    def smallest(self) -> list[Way]:
        """All plans, those first that may fit best; of plans that differ in their schedules alone,
        one."""
        known = self.predictions
        found: dict[tuple[int, int, int, str, bool], Way] = {}
        for way in sorted(known, key=lambda way: (self.excess(way, known[way].nbytes), way)):
            found.setdefault((*way[:3], way.balance, way.recompute), way)
        return list(found.values())

    # The best, by their programs ------------------------------------------------------------------

    def follow(self, way: Way) -> Followed:
        """The plan with its programs and the bytes of its ranks."""
        from chainrule.devices.parallelise import split_into

        if way not in self._followed:
            stages = way.stages if self.pins.ends is None else self.pins.ends
            parts = self.parts(way.micro_batches)
            made = split_into(parts, stages, way.replicas, way.schedule, way.recompute)
            made = replace(made, balance=way.balance, devices=self.devices)
            memory = memory_of(made, made.split_at(self.sizes), self.sizes)
            excess = self.excess(way, [one.most_nbytes for one in memory.ranks])
            self._followed[way] = Followed(way, made, memory, excess)
        return self._followed[way]

    def _within_effort(self, ways: Iterable[Way], effort: int = EFFORT) -> Iterator[Followed]:
        left = effort
        for way in ways:
            yield self.follow(way)
            graphs = self._graphs[self.rows // way.micro_batches]
            nodes = len(graphs.summing.nodes) + len(graphs.updating.nodes)
            left -= max(nodes, LEAST_NODES) + OF_RANK * way.stages * way.replicas
            if left < 0:
                return

    def first_fitting(self, effort: int = EFFORT) -> Followed | None:
        """A plan that fits, if one of those that need least does."""
        possible = set(self.possible)
        ways = (way for way in self.smallest if way in possible)
        found = (one for one in self._within_effort(ways, effort) if one.excess <= 1)
        return next(found, None)

    def best(self) -> ParallelStep | None:
        """The best plan, with what it was compared with; None where none fits."""
        fits = (one for one in self._within_effort(self.possible) if one.excess <= 1)
        fitting = list(islice(fits, RANKED))
        if not fitting:
            found = self.first_fitting()
            if found is None:
                return None
            fitting = [found]
        exact = {one.way: self._timed(one) for one in fitting}
        ranked = sorted(exact, key=lambda way: (exact[way].seconds, way))
        large = {way for way, one in self._followed.items() if one.excess > 1}
        others = [way for way in self.possible if way not in exact and way not in large]
        off = median(exact[way].seconds / self.predictions[way].seconds for way in exact)
        modelled = [_modelled(way, self.predictions[way], off) for way in others]
        told = [*(exact[way] for way in ranked), *modelled][:RANKED]
        too_large = len(self.predictions) - len({*self.possible, *exact} - large)
        candidates = Candidates(
            self.step.graph.name,
            dict(self.sizes),
            self.devices.count,
            tuple(told),
            len(self.predictions),
            too_large,
        )
        return replace(self._followed[ranked[0]].split, candidates=candidates)

    def _timed(self, one: Followed) -> Candidate:
        split = one.split.split_at(self.sizes)
        found = timeline_of(one.split, split, self.sizes, None, one.memory)
        nbytes = max(rank.most_nbytes for rank in one.memory.ranks)
        return Candidate(*one.way, found.seconds, nbytes, True)


def _modelled(way: Way, prediction: Prediction, off: float) -> Candidate:
    """What the model says of a plan, as far off as it is for those that were followed."""
    return Candidate(*way, off * prediction.seconds, max(prediction.nbytes), False)
