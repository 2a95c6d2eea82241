"""Predicts the memory of a step in micro-batches: its two graphs, and the bytes held between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass, field, replace
from chainrule.errors import MemoryLimitError, SizeError
from chainrule.execute.budget import with_copies
from chainrule.execute.executor import InPlace
from chainrule.execute.executors import executor_of, executor_with, memory_of
from chainrule.execute.overhead import AS_COMPILED
from chainrule.explain.memory.fits import Fit, fit_of
from chainrule.explain.memory.largest import Largest, largest
from chainrule.explain.memory.lying import Layout, Lying, lying_of
from chainrule.explain.memory.report import MemoryReport, memory_of_step, of_step
from chainrule.graph.bind import check_sizes
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure, Run
    from chainrule.plan.speeds import Speeds
    from chainrule.train.step.micro_batches import MicroBatchedStep

# Nanoseconds for each array that a run is given: that is looked at, or goes straight to the code.
LOOKED_AT, STRAIGHT = 5000.0, 50.0
ZERO = 0.1  # in which a byte is set to zero
# By all graphs that a process runs:
SHARED = ("stacks of threads", "buffers of BLAS", "buffers of NumPy", "freed arrays")


@dataclass(frozen=True, eq=False)
class MicroBatchMemory(ShownByText):
    """The bytes of one step, all parts and the update.

    `sizes` are those of the whole batch.  `accumulating` is the report of one part, `updating` that
    of the update.  `held_nbytes` are there throughout: parameters and optimizer's arrays, the sums
    (`sums_nbytes` of them), the whole batch.  `scratch_nbytes` is what runs allocate beside these:
    that of a part and of the update where both stay allocated (on the native executor), else the
    larger of them.
    """

    sizes: Mapping[str, int]
    accumulating: MemoryReport
    updating: MemoryReport
    count: int
    executor: str
    held_nbytes: int
    sums_nbytes: int
    scratch_nbytes: int
    step: MicroBatchedStep = field(repr=False)
    _again: Callable[..., MicroBatchMemory] = field(repr=False)

    @property
    def peak_nbytes(self) -> int:
        """The bytes allocated when most are."""
        return self.held_nbytes + self.scratch_nbytes

    @property
    def overhead_nbytes(self) -> int:
        """What both graphs take outside arrays, as `MemoryReport.overhead`; what all runs of a
        process share is there once."""
        both = self.accumulating.overhead, self.updating.overhead
        each = {name: [one.get(name, 0) for one in both] for name in {**both[0], **both[1]}}
        each.pop(AS_COMPILED, None)  # what runs allocate
        return sum(max(found) if name in SHARED else sum(found) for name, found in each.items())

    @property
    def needed_nbytes(self) -> int:
        """The peak, and what is taken outside arrays."""
        return self.peak_nbytes + self.overhead_nbytes

    def nanoseconds(self, speeds: Speeds | None = None) -> float:
        """About how long a step takes: its runs, taking their arguments before each, and setting
        the sums to zero."""
        each, last = self.accumulating, self.updating
        arguments = self.count * len(each.concrete.inputs) + len(last.concrete.inputs)
        runs = self.count * each.nanoseconds(speeds) + last.nanoseconds(speeds)
        is_short = isinstance(each.main.program, InPlace)
        return runs + arguments * (STRAIGHT if is_short else LOOKED_AT) + self.sums_nbytes * ZERO

    def run(self, measure: Measure = True) -> Run:
        """The step as `measured_runs.timed` takes it."""
        from chainrule.explain.cost.measured_runs import run_of_step

        whole = replace(self.step.whole, executor=self.executor)
        parts = whole.micro_batched(self.count, size=self.step.size)
        return run_of_step(parts, self.sizes, measure)

    @property
    def parts(self) -> dict[str, int]:
        """What the peak is made of, in bytes."""
        return {
            "held throughout": self.held_nbytes - self.sums_nbytes,
            "sums of gradients": self.sums_nbytes,
            "allocated by runs": self.scratch_nbytes,
        }

    def at(self, **sizes: int) -> MicroBatchMemory:
        """The same at other sizes; those not given are as they are here."""
        return self._again({**self.sizes, **sizes}, None, None)

    @entry
    def fits(self, nbytes: int | str | None = None) -> Fit:
        """Whether the step fits in `nbytes`, as `Graph.fits`; None stands for what is free."""
        limit = fit_of(self.accumulating, nbytes).limit_nbytes
        parts = {**self.parts, "outside arrays": self.overhead_nbytes}
        return Fit(self.needed_nbytes, limit, parts, self.sizes)

    @entry
    def largest(self, name: str, nbytes: int | str) -> Largest:
        """The largest size called `name`, of the whole batch, that fits in `nbytes`.

        As `MemoryReport.largest`; sizes of the batch that have no equal parts are left out.
        MemoryLimitError if none fits, SizeError for an unknown size.
        """
        part = self.accumulating
        times = {one: self.sizes[one] // size for one, size in part.sizes.items()}

        def need(report: MemoryReport) -> int:
            sizes = {one: n * times[one] for one, n in report.sizes.items()}
            same = all(sizes[one] == n for one, n in self.updating.sizes.items())
            return self._again(sizes, report, self.updating if same else None).needed_nbytes

        try:
            found = largest(part, name, nbytes, need)
        except MemoryLimitError as error:
            if times[name] == 1:
                raise
            what = f"{error.what}, where {name} is that of one of {times[name]} parts"
            raise MemoryLimitError(what, hint=error.hint) from None
        planned = {size * times[name]: n for size, n in found.planned.items()}
        return replace(found, size=found.size * times[name], planned=planned)

    def __str__(self) -> str:
        rows = {**self.parts, "peak": self.peak_nbytes}
        sizes = ", ".join(f"{n} = {size}" for n, size in self.accumulating.sizes.items())
        lines = [
            f"memory of {self.accumulating.graph.name} in {self.count} parts",
            f"  each part  {sizes}",
            f"  executor   {self.executor}",
            "",
            *(f"{name:17}  {nbytes:15,}  {in_bytes(nbytes)}" for name, nbytes in rows.items()),
        ]
        return "\n".join(lines)


def memory_of_parts(
    step: MicroBatchedStep,
    executor: str | None,
    layout: Layout | None,
    sizes: Mapping[str, int],
    one: MemoryReport | None = None,
    update: MemoryReport | None = None,
) -> MicroBatchMemory:
    """See `MicroBatchedStep.memory`; `one` and `update` are the reports of a part and of the
    update at these sizes, where they are there already.

    MemoryLimitError within a budget that is too small: no less than its `needed_nbytes` is enough.
    """
    part, known = sizes_of_parts(step, sizes, "step.memory")
    whole = step.whole.graph.bind(**sizes)
    lying = lying_of(whole, layout, [x.name for x in whole.inputs if x.name not in _own(step)])
    lies = _lying_of_parts(step, whole, lying)
    if update is None:
        update = memory_of_step(step.updating, known, executor=executor)
    if one is None:
        one = of_step(step.accumulating, None, lies, executor, part)
    sums = _nbytes(one.concrete, [summed.name for summed in step.accumulating.persistent])
    swapped = _nbytes(whole, [name for name, one in lying.items() if one.swapped])
    stays = executor_of(one.executor).traits.one_block

    def together(one: MemoryReport) -> MicroBatchMemory:
        scratch = [_allocated(report) for report in (one, update)]
        once = [report.main.usage for report in (one, update)]  # by one run at a time
        passing = [usage.allocated_nbytes + usage.copied_nbytes for usage in once]
        return MicroBatchMemory(
            sizes=dict(sizes),
            accumulating=one,
            updating=update,
            count=step.count,
            executor=executor or step.whole.executor,
            held_nbytes=_nbytes(whole) + swapped + sums,
            sums_nbytes=sums,
            scratch_nbytes=sum(scratch) - min(passing) if stays else max(scratch),
            step=step,
            _again=partial(memory_of_parts, step, executor, layout),
        )

    found = together(one)
    limit = memory_of(found.executor)
    if limit is not None and found.needed_nbytes > limit:
        unused = 0 if stays else found.scratch_nbytes - _allocated(one)
        others = found.needed_nbytes - unused - one.needed_nbytes
        others += with_copies(0, one.main.usage.copied)  # of a part of the batch, on another axis
        within = executor_with(found.executor, memory=max(limit - others, 0))
        try:
            found = together(of_step(step.accumulating, None, lies, within, part))
        except MemoryLimitError as error:
            error.needed_nbytes, error.budget_nbytes = error.needed_nbytes + others, limit
            raise
    return found


def _own(step: MicroBatchedStep) -> set[str]:
    """The arrays of the state."""
    return {part.name for part in step.whole.persistent}


def _lying_of_parts(
    step: MicroBatchedStep, whole: Graph, lying: Mapping[str, Lying]
) -> dict[str, Lying]:
    """How what a part is given lies: a part of the batch, as a view of it."""
    found = dict(lying)
    for name, axis in step.split.items():
        node = whole.input(name).node
        here = lying.get(name) or Lying(tuple(range(node.ndim)))
        found[name] = here.part(node, axis, step.part_of(node.shape[axis]))
    return found


def sizes_of_parts(
    step: MicroBatchedStep, sizes: Mapping[str, int], call: str
) -> tuple[dict[str, int], dict[str, int]]:
    """The sizes of one part, and of the update, for those of the whole batch.

    SizeError where one is missing, unknown, or none, for a `call` such as step.memory; InputError
    for no equal parts.
    """
    graph = step.whole.graph
    check_sizes(graph, sizes)
    known = graph.sizes
    missing = [name for name in known if name not in sizes]
    if missing:
        what = call.rpartition(".")[2].removesuffix("_at")
        raise SizeError(
            f"the {what} of {graph.name} depends on {', '.join(missing)}, which was not given",
            hint=f"{call}({', '.join(f'{name}=...' for name in known)})",
        )
    part = {**sizes, step.size: step.part_of(sizes[step.size])}
    return part, {name: sizes[name] for name in step.updating.graph.sizes}


def _allocated(report: MemoryReport) -> int:
    """The bytes at the peak of a run that were not given to it."""
    more = report.overhead.get(AS_COMPILED, 0)
    return report.main.peak_nbytes + more - _nbytes(report.concrete)


def _nbytes(graph: Graph, names: list[str] | None = None) -> int:
    """The bytes of the inputs of a concrete graph, or of those with these names."""
    return sum(
        int(item.type.nbytes) for item in graph.inputs if names is None or item.name in names
    )
