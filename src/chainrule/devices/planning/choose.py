"""Searches for the best plan of a step on devices: all by a model, the best by their programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.carried import Carried, carried_in
from chainrule.devices.keeping import most_under_way
from chainrule.devices.parts import Parts, parts_at
from chainrule.devices.planning.candidates import Candidate, Candidates
from chainrule.devices.planning.costs import StageCosts, compiled, costs_of, exchanging, in_numpy
from chainrule.devices.planning.counting import first_to_fit, least_to_fit
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.model import Prediction, orders_of, predicted
from chainrule.devices.planning.pins import Pins, Way
from chainrule.devices.reports.memory import ParallelMemory, memory_of
from chainrule.devices.reports.timeline import timeline_of
from chainrule.devices.single_parts import without_sums
from chainrule.devices.splitting import placed_step, weights_of
from chainrule.devices.stages import TIME, Placed
from chainrule.devices.tensor.choosing import Axes, choose
from chainrule.devices.tensor.collectives import REPLICAS, SHARDS
from chainrule.devices.tensor.step import over_replicas, over_shards
from chainrule.errors import InputError
from chainrule.execute.executors import executor_of
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep

RANKED = 10  # plans that are told
EFFORT = 20_000  # nodes of the plans whose programs are made: time is bounded, without a clock
LEAST_NODES, OF_RANK = 250, 20  # that a plan counts as, and each of its ranks
DOUBTFUL = 12  # plans that are tried though they hardly fit
KEEPING = 3  # shares of what is left that are tried, each half of the one before
UNLIMITED = 1 << 62  # bytes
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

    `ranks` are the numbers of ranks allowed; `in_job` says that a job has as many.  `only` are the
    plans that are compared; all, if there are none of them.
    """

    step: TrainingStep
    devices: Devices
    sizes: Mapping[str, int]
    size: str
    pins: Pins
    ranks: tuple[int, ...]
    in_job: bool = False
    only: tuple[Way, ...] = ()
    _parts: dict[int, MicroBatchedStep] = field(default_factory=dict)
    _graphs: dict[tuple[int, int, int, bool], Parts] = field(default_factory=dict)
    _costs: dict[tuple[object, ...], tuple[StageCosts, ...]] = field(default_factory=dict)
    _places: dict[tuple[object, ...], tuple[Parts, Placed]] = field(default_factory=dict)
    _axes: dict[int, Axes | None] = field(default_factory=dict)
    _followed: dict[Way, Followed] = field(default_factory=dict, init=False)

    def like(
        self,
        *,
        sizes: Mapping[str, int] | None = None,
        devices: Devices | None = None,
        only: Iterable[Way],
    ) -> Search:
        """The search among some plans for another batch, or on more of these devices; what is known
        stays known."""
        sizes, devices = {**self.sizes, **(sizes or {})}, devices or self.devices
        return replace(self, sizes=sizes, devices=devices, only=tuple(only))

    @property
    def rows(self) -> int:
        """The rows of the whole batch."""
        return self.sizes[self.size]

    # All plans, by the model ----------------------------------------------------------------------

    @cached_property
    def predictions(self) -> dict[Way, Prediction]:
        """What each plan takes by the model."""
        found = {}
        for way in self.only or self.pins.plans(self.ranks, self.rows):
            if way.ways > 1 and self._axes_of(way.ways) is None:
                continue
            if self._waits(way):
                continue
            costs = self.costs(way)
            if self.pins.stages is None and any(not one.forward for one in costs):
                continue  # there is not as much to do
            found[way] = predicted(costs, way, self.devices)
        return found

    def _waits(self, way: Way) -> bool:
        """Whether ranks would wait for each other for state that the objective reads."""
        is_pinned = self.pins.schedule is not None
        found = self._carried
        return bool(
            (way.replicas > 1 and found.serial) or (way.chunks > 1 and found.read and not is_pinned)
        )

    @cached_property
    def _carried(self) -> Carried:
        return carried_in(self.parts(1))

    def costs(self, way: Way) -> tuple[StageCosts, ...]:
        """What the stages of a plan cost each rank."""
        rows = self.rows // way.micro_batches
        sharing = way.replicas if way.shard else 0
        weights = weights_of(self.devices, way.grid, way.balance)
        single = way.each == 1
        key = way.stages, rows, way.balance, way.ways, sharing, way.chunks, weights, single
        if key not in self._costs:
            graphs = self.graphs(way)
            placed = self._placed(self.parts(way.micro_batches), graphs, way)
            traits = executor_of(self.step.executor).traits
            seconds = (compiled if traits.has_kernels else in_numpy)(self.devices.groups[0])
            links = {
                SHARDS: self.devices.link(0, way.ways - 1),
                REPLICAS: self.devices.link(0, way.ranks - way.stages * way.ways),
            }
            self._costs[key] = costs_of(
                graphs,
                placed,
                exchanging(seconds, links),
                by_numpy=not traits.one_block,
                copies=not traits.one_block or way.ways > 1 or way.shard,
            )
        return self._costs[key]

    def graphs(self, way: Way) -> Parts:
        """The two graphs of a rank."""
        rows = self.rows // way.micro_batches
        key = rows, way.ways, way.replicas if way.shard else 0, way.each == 1
        if key not in self._graphs:
            sizes = {**self.sizes, self.size: rows}
            found, cuts = parts_at(self.parts(way.micro_batches), sizes), {}
            grid = way.grid
            if way.ways > 1:
                found, cuts, _ = over_shards(found, grid, self._axes_of(way.ways) or {})
            if way.each == 1:
                found = without_sums(found)
            if way.shard:
                found, cuts = over_replicas(found, grid, cuts)
            self._graphs[key] = found
        return self._graphs[key]

    def _axes_of(self, ways: int) -> Axes | None:
        """Along which axes parameters are split; None where none can be, and nobody asked for it.

        InputError where it was asked for.
        """
        if ways not in self._axes:
            parts = self.parts(1)
            graphs = parts_at(parts, self.sizes)
            objective = graphs.summing.names[parts.whole.objective]
            is_asked = self.pins.split is not None or self.pins.ways == (ways,)
            try:
                parameters, asked = self.step.parameters, self.pins.split
                found = choose(graphs.summing, objective, parameters, ways, asked, advise=is_asked)
                self._axes[ways] = found.axes
            except InputError:
                if is_asked:
                    raise
                self._axes[ways] = None
        return self._axes[ways]

    def _placed(self, step: MicroBatchedStep, graphs: Parts, way: Way) -> Placed:
        """The stages of the nodes: where the first batch has them, whose nodes are alike."""
        chunks = way.stages * way.chunks
        weights = weights_of(self.devices, way.grid, way.balance)
        rows = 0 if way.balance == TIME else self.rows // way.micro_batches
        key = chunks, way.balance, way.ways, weights, way.each == 1, rows
        if key in self._places:
            known, placed = self._places[key]
            nodes = known.summing.nodes, graphs.summing.nodes
            if [one.primitive for one in nodes[0]] == [one.primitive for one in nodes[1]]:
                return placed.on(dict(zip(*nodes, strict=True)))
        placed = placed_step(
            step,
            graphs,
            way.grid,
            orders_of(way.stages, way.each, way.schedule, way.chunks),
            self.pins.ends,
            way.balance,
            self.step.executor,
            weights,
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
        for rank in range(way.ranks):
            limit = self.devices.group_of(rank).memory_nbytes
            if limit is not None:
                at = rank if len(known) == way.ranks else way.grid.stage_of(rank)
                worst = max(worst, known[at] / limit)
        return worst

    @cached_property
    def least_excess(self) -> dict[Way, float]:
        """The excess of each plan by the model."""
        return {way: self.excess(way, one.nbytes) for way, one in self.predictions.items()}

    @cached_property
    def least_state_excess(self) -> float:
        """The excess by the model where a batch had no bytes: no smaller one fits then, either."""
        ways = self.predictions.items()
        return min(self.excess(way, one.state_nbytes) for way, one in ways)

    @cached_property
    def state_nbytes(self) -> int | None:
        """The bytes of the state and its sums on all ranks, once; None if no plan has it whole."""
        ways = self.predictions.items()
        return next((sum(one.state_nbytes) for way, one in ways if way.ways == 1), None)

    @cached_property
    def possible(self) -> list[Way]:
        """The plans that may fit, the quickest first."""
        found = [way for way in self.predictions if self.least_excess[way] <= SLACK]
        return sorted(found, key=lambda way: (self.predictions[way].seconds, way))

    @cached_property
    def smallest(self) -> list[Way]:
        """All plans, those first that may fit best; of plans that differ in their schedules alone,
        one."""
        found: dict[Way, Way] = {}
        for way in sorted(self.predictions, key=lambda way: (self.least_excess[way], way)):
            found.setdefault(way._replace(schedule=""), way)
        return list(found.values())

    # The best, by their programs ------------------------------------------------------------------

    def follow(self, way: Way) -> Followed:
        """The plan with its programs and the bytes of its ranks."""
        from chainrule.devices.parallelise import split_into

        if way not in self._followed:
            stages = way.stages if self.pins.ends is None else self.pins.ends
            parts = self.parts(way.micro_batches)
            asked = self.pins.split if way.ways > 1 else None
            more = way.ways, asked, way.shard, way.chunks
            made = split_into(parts, stages, way.replicas, way.schedule, way.recompute, *more)
            made = replace(made, balance=way.balance, devices=self.devices)
            self._followed[way] = self._with_memory(way, made)
        return self._followed[way]

    def _with_memory(self, way: Way, made: ParallelStep) -> Followed:
        memory = memory_of(made, made.split_at(self.sizes), self.sizes)
        excess = self.excess(way, [one.most_nbytes for one in memory.ranks])
        return Followed(way, made, memory, excess)

    def _keeping(self, one: Followed) -> Followed:
        """A plan that fits, and recomputes only what its devices have no room for, unless somebody
        asked for more."""
        if not one.way.recompute or False not in self.pins.recomputing:
            return one
        share = 1.0
        for _ in range(KEEPING):
            spare = tuple(int(share * nbytes) for nbytes in self._spare(one))
            if not any(spare):
                return one
            found = self._with_memory(one.way, replace(one.split, spare=spare, _splits={}))
            if found.excess <= 1:
                self._followed[one.way] = found
                return found
            share /= 2
        return one

    def _spare(self, one: Followed) -> list[int]:
        """The bytes of a micro-batch that each chunk may keep: what its devices have left."""
        grid, found = one.way.grid, []
        for chunk in range(grid.all_chunks):
            stage = grid.stage_with(chunk)
            left = []
            for rank in grid.of_stage(stage):
                limit = self.devices.group_of(rank).memory_nbytes
                most = one.memory.ranks[rank].most_nbytes
                left.append(UNLIMITED if limit is None else limit - most)
            units = most_under_way(one.split.orders[stage], chunk // grid.stages)
            found.append(min(left) // (grid.chunks * units))
        return found

    def within_effort(self, ways: Iterable[Way], effort: int = EFFORT) -> Iterator[Followed]:
        left = effort
        for way in ways:
            yield self.follow(way)
            graphs = self.graphs(way)
            nodes = len(graphs.summing.nodes) + len(graphs.updating.nodes)
            left -= max(nodes, LEAST_NODES) + OF_RANK * way.ranks
            if left < 0:
                return

    def _more(self, way: Way) -> float:
        """How many times as many bytes as by the model plans of this kind have that were
        followed."""
        ratios = [
            one.excess / self.least_excess[other]
            for other, one in self._followed.items()
            if other.kind == way.kind and self.least_excess[other]
        ]
        return max(median(ratios), 1.0) if ratios else 1.0

    def _may_fit(self, way: Way) -> bool:
        return self.least_excess[way] * self._more(way) <= 1

    def _promising(self) -> Iterator[Way]:
        """The plans that may fit: the quickest of those that do if the model is as far off as it
        was before; then some of those that need least."""
        left, doubtful = list(self.possible), 0
        while left and doubtful < DOUBTFUL:
            way = next(filter(self._may_fit, left), None)
            if way is None:
                doubtful += 1
                way = min(left, key=lambda way: (self.least_excess[way], way))
            left.remove(way)
            yield way

    def first_fitting(self, effort: int) -> Followed | None:
        """A plan that fits, if one of those that need least does."""
        ways = (way for way in self.smallest if self.least_excess[way] <= SLACK)
        found = (one for one in self.within_effort(ways, effort) if one.excess <= 1)
        return next(found, None)

    def best(self) -> ParallelStep | None:
        """The best plan, with what it was compared with; None where none fits."""
        fits = (one for one in self.within_effort(self._promising()) if one.excess <= 1)
        fitting = list(islice(fits, RANKED))
        if not fitting:
            found = self.first_fitting(DOUBTFUL * LEAST_NODES) or least_to_fit(self)
            if found is None:
                return None
            fitting = [found]
        fitting = [self._keeping(one) for one in fitting]
        exact = {one.way: self._timed(one) for one in fitting}
        ranked = first_to_fit(self, sorted(exact, key=lambda way: (exact[way].seconds, way)))
        large = {x for x, one in self._followed.items() if one.excess > 1 or x in exact} - {*ranked}
        known = exact.keys() | large
        others = [way for way in self.possible if way not in known and self._may_fit(way)]
        off = median(exact[way].seconds / self.predictions[way].seconds for way in exact)
        told = [*map(exact.__getitem__, ranked), *(self._modelled(one, off) for one in others)]
        too_large = len(self.predictions) - len({*self.possible, *exact} - large)
        candidates = Candidates(
            self.step.graph.name,
            dict(self.sizes),
            self.devices.count,
            tuple(told[:RANKED]),
            len(self.predictions),
            too_large,
            self._is_unequal(ranked[0]),
        )
        return replace(self._followed[ranked[0]].split, candidates=candidates)

    def _is_unequal(self, way: Way) -> bool:
        """Whether the ranks of a stage have devices that differ in speed."""
        grid = way.grid
        speeds = [self.devices.group_of(rank).flops("float32") for rank in range(grid.count)]
        stages = range(grid.stages)
        return any(len({speeds[rank] for rank in grid.of_stage(one)}) > 1 for one in stages)

    def _timed(self, one: Followed) -> Candidate:
        split = one.split.split_at(self.sizes)
        found = timeline_of(one.split, split, self.sizes, None, one.memory)
        nbytes = max(rank.most_nbytes for rank in one.memory.ranks)
        return Candidate(*one.way, found.seconds, nbytes, True)

    def _modelled(self, way: Way, off: float) -> Candidate:
        """What the model says of a plan, as far off as it is for those that were followed."""
        known = self.predictions[way]
        nbytes = int(self._more(way) * max(known.nbytes))
        return Candidate(*way, off * known.seconds, nbytes, False)
