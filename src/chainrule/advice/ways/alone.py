"""The ways to train a step on one device, those of `step.fits` among them, with what each takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from chainrule.advice.noise.holding import holding
from chainrule.advice.noise.noise import forward_of
from chainrule.advice.ways.way import NONE, OTHER, ROUNDING, TrainingWay
from chainrule.control.sums import count_in_loops
from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import InputError, MemoryLimitError, SizeError, UnsupportedError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.explain.memory.report import MemoryReport, memory_of_step
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.dtypes import bfloat16
from chainrule.plan.speeds import Speeds
from chainrule.schedule.records import Compute
from chainrule.train.optimizers.optimizer import Optimizer
from chainrule.train.optimizers.optimizers import sgd
from chainrule.train.step.micro_memory import MicroBatchMemory
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.update import with_update
from chainrule.train.step.ways_to_fit import in_parts, parts_that_fit, smaller, whole
from chainrule.transforms.saved import saved_in

BUDGETS = (0.75, 0.5, 0.25)  # of the bytes that can be saved, that are kept
LESS = 0.999  # of the bytes of the way before: no other one is listed
LEANER = ((0, "sgd", sgd(0.1)), (1, "momentum", sgd(0.1, momentum=0.9)))  # and their arrays
LARGE = 1000  # nodes: of larger graphs, fewer plans are made


@dataclass(frozen=True)
class Alone:
    """A step with a batch of some sizes on one device, of `limit` bytes (None: no limit)."""

    step: TrainingStep
    sizes: Mapping[str, int]
    size: str
    limit: int | None
    speeds: Speeds | None
    _known: dict[str, MemoryReport] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """The rows of the batch."""
        return self.sizes[self.size]

    @property
    def is_large(self) -> bool:
        """Whether so much time is needed for each plan that fewer are made."""
        return len(self.step.graph.nodes) > LARGE

    @property
    def can_recompute(self) -> bool:
        """Whether the executor keeps to budgets."""
        executor = executor_of(self.step.executor)
        return hasattr(executor, "within") and not executor.traits.compiles_to_count

    def parted(self) -> str:
        """What becomes of the training where the batch is cut into parts."""
        if self.step.carried:
            return OTHER
        forward = forward_of(self.step)
        others = {name: n for name, n in self.sizes.items() if name != self.size}
        forward = forward.bound(others) if others else forward
        try:
            holding(forward, forward[self.step.objective], self.size)
        except InputError:
            return OTHER
        return ROUNDING

    def fitted(self, way: TrainingWay) -> TrainingWay:
        """The way, with why it does not fit where it does not."""
        if self.limit is None or way.needed_nbytes <= self.limit:
            return way
        more = in_bytes(way.needed_nbytes - self.limit)
        return replace(way, why_not=f"needs {more} more than {in_bytes(self.limit)}")

    def plain(self) -> TrainingWay:
        """The step as it is."""
        return self.fitted(self._of_report("as it is", "whole", self._report(), "step"))

    def _report(self) -> MemoryReport:
        """The report of the plain step, which is planned once."""
        if "plain" not in self._known:
            self._known["plain"] = memory_of_step(self.step, self.sizes)
        return self._known["plain"]

    def _of_report(self, what: str, kind: str, report: MemoryReport, code: str) -> TrainingWay:
        seconds = report.nanoseconds(self.speeds) / 1e9
        need = report.needed_nbytes
        return TrainingWay(what, kind, need, seconds, self.rows, code, run=report.run)

    def smaller(self, plain: TrainingWay) -> Iterator[TrainingWay]:
        """Half of the batch; where the whole does not fit, the largest that does (by halves, of
        large graphs)."""
        if self.limit is not None and not plain.fits and not self.is_large:
            report = self._report()
            for one in smaller(self.step, report, self.step.executor, self.limit, self.speeds):
                assert isinstance(one.report, MemoryReport)
                yield self._of_fewer(one.report)
            return
        rows = self.rows // 2
        while rows >= 1:
            try:
                way = self._of_fewer(memory_of_step(self.step, {**self.sizes, self.size: rows}))
            except (MemoryLimitError, SizeError):
                return
            if way.fits:
                yield way
                return
            rows //= 2

    def _of_fewer(self, report: MemoryReport) -> TrainingWay:
        rows = report.sizes[self.size]
        way = self._of_report(f"a batch of {rows:,}", "smaller", report, f"{self.size}={rows}")
        return self.fitted(replace(way, rows=rows, noise=self.rows / rows, trajectory=OTHER))

    def in_parts(self, changes: str) -> Iterator[TrainingWay]:
        """The batch in parts: as few as fit, and twice as many."""
        once = _flops_at(self.step, self.sizes)
        found: list[TrainingWay] = []
        for count, report in parts_that_fit(self.step, self.sizes, None):
            way = self.fitted(self._of_parts(count, report, changes, once))
            found = [*found, way] if way.fits else [way]
            if way.fits and len(found) > 1 - self.is_large:
                break
        yield from found

    def _of_parts(
        self, count: int, report: MicroBatchMemory, changes: str, once: int
    ) -> TrainingWay:
        step = report.step
        part, update = report.accumulating.sizes, report.updating.sizes
        flops = count * _flops_at(step.accumulating, part) + _flops_at(step.updating, update)
        return TrainingWay(
            f"{count} micro-batches",
            "parts",
            report.needed_nbytes,
            report.nanoseconds(self.speeds) / 1e9,
            self.rows,
            f"step.micro_batched({count})",
            extra_flops=max(flops - once, 0),
            trajectory=changes,
            run=report.run,
        )

    def recomputing(self, plain: TrainingWay) -> Iterator[TrainingWay]:
        """Values computed again within budgets, from what the plain step needs to the least."""
        if not self.can_recompute:
            return
        most = plain.needed_nbytes
        tight = self.limit is not None and not plain.fits
        if self.is_large:
            budgets = {self.limit or 0 if tight else int(BUDGETS[0] * most)}
        else:
            least = self._least(most)
            budgets = {least, *[int(least + share * (most - least)) for share in BUDGETS]}
            if tight:
                budgets = {least, max(least, self.limit or 0)}
        last = most
        for nbytes in sorted(budgets, reverse=True):
            within = executor_with(self.step.executor, memory=nbytes)
            for one in whole(self.step, self._report(), within, nbytes, self.speeds):
                assert isinstance(one.report, MemoryReport)
                again = _again(one.report)
                code = f"cr.training_step(..., memory={nbytes})"
                what = f"recomputing, within {in_bytes(nbytes)}"
                way = self._of_report(what, "recomputing", one.report, code)
                fewer = LESS * last if self.limit is None or last <= self.limit else last
                if one.report.needed_nbytes < fewer:
                    last = one.report.needed_nbytes
                    changes = self._of_budget(one.report)
                    yield self.fitted(replace(way, extra_flops=again, trajectory=changes))

    def _of_budget(self, report: MemoryReport) -> str:
        """What becomes of the training within a budget: sums that are made after loops may have no
        room there, and are added up in these."""
        before = count_in_loops(self._report().main.graph)
        return ROUNDING if count_in_loops(report.main.graph) > before else NONE

    def _least(self, most: int) -> int:
        """The least bytes that a plan was found for."""
        try:
            within = executor_with(self.step.executor, memory=1)
            memory_of_step(self.step, self.sizes, executor=within)
        except MemoryLimitError as error:
            return error.needed_nbytes or most
        return 1

    def parts_within(self, changes: str) -> Iterator[TrainingWay]:
        """Parts of the batch, each within a budget, where parts alone do not fit."""
        if self.limit is None or not self.can_recompute:
            return
        within = executor_with(self.step.executor, memory=self.limit)
        once = _flops_at(self.step, self.sizes)
        for one in in_parts(self.step, self.sizes, within, self.limit, self.speeds):
            assert isinstance(one.report, MicroBatchMemory)
            again = one.parts * _again(one.report.accumulating)
            if not again:
                return  # parts fit by themselves
            way = self._of_parts(one.parts, one.report, changes, once)
            code = f"cr.training_step(..., memory={self.limit}).micro_batched({one.parts})"
            what = f"{way.what}, recomputing, within {in_bytes(self.limit)}"
            more = way.extra_flops + again
            yield replace(way, what=what, kind="parts recomputing", code=code, extra_flops=more)
            return

    def saving(self) -> Iterator[TrainingWay]:
        """What the backward pass needs, in bfloat16, if that is less; where it does not fit, in
        parts of the batch, too, and with values computed again."""
        if self.step.saved is not None:
            return
        what, code = "saved values in bfloat16", 'cr.training_step(..., saved="bfloat16")'
        try:
            step = with_saved(self.step, bfloat16())
        except UnsupportedError as error:
            yield TrainingWay(what, "saved", 0, 0.0, self.rows, code, why_not=error.hint)
            return
        if step.differentiated is self.step.differentiated:
            return
        other = Alone(step, self.sizes, self.size, self.limit, self.speeds)
        whole = replace(other.plain(), what=what, kind="saved", code=code, trajectory=OTHER)
        if whole.needed_nbytes >= self._report().needed_nbytes:
            return  # as where a loop has most of the bytes
        yield whole
        if self.limit is None or whole.fits:
            return
        for one in other.in_parts(OTHER):
            line = f"{code}.{one.code.partition('.')[2]}"
            if one.fits:
                yield replace(one, what=f"{what}, {one.what}", kind="saved", code=line)
                break
        for one in other.recomputing(whole):
            line = f"{code[:-1]}, memory={self.limit})"
            if one.fits:
                yield replace(
                    one, what=f"{what}, {one.what}", kind="saved", code=line, trajectory=OTHER
                )
                break

    def other_optimizers(self) -> Iterator[TrainingWay]:
        """Optimizers that keep fewer arrays of each parameter."""
        kept = len(self.step.optimizer.arrays)
        for count, name, optimizer in LEANER:
            if count >= kept or (count and self.is_large):
                continue
            step = with_optimizer(self.step, optimizer)
            call = "cr.sgd(learning_rate" + (", momentum=0.9)" if count else ")")
            report = memory_of_step(step, self.sizes)
            own = self.step.optimizer.name
            what = f"{name} in place of {own}" if name != own else f"{name} without momentum"
            code = f"cr.training_step(..., optimizer={call})"
            way = self._of_report(what, "optimizer", report, code)
            yield self.fitted(replace(way, trajectory=OTHER))


def with_optimizer(step: TrainingStep, optimizer: Optimizer) -> TrainingStep:
    """The step with the update of another optimizer."""
    following = {one.name: one.next_name for one in step.persistent if one.is_carried}
    update = with_update(step.differentiated, step.objective, step.parameters, optimizer, following)
    return replace(
        step,
        graph=update.graph,
        optimizer=optimizer,
        persistent=update.persistent,
        scalars=update.scalars,
    )


def with_saved(step: TrainingStep, dtype: np.dtype) -> TrainingStep:
    """The step whose backward pass reads what it needs of the forward pass in this dtype."""
    made = saved_in(step.differentiated, step.objective, dtype)
    return with_optimizer(replace(step, differentiated=made, saved=dtype), step.optimizer)


def _flops_at(step: TrainingStep, sizes: Mapping[str, int]) -> int:
    found = step.graph.cost({name: sizes[name] for name in step.graph.sizes}).flops
    assert isinstance(found, int)
    return found


def _again(report: MemoryReport) -> int:
    """The operations that a plan does a second time."""
    found, done = 0, set[object]()
    for one in report.main.usage.schedule.instructions:
        if isinstance(one, Compute):
            if one.nodes in done:
                found += sum(int(node.primitive.flops(node)) for node in (*one.nodes, *one.inner))
            done.add(one.nodes)
    return found
