"""The ways to take a training step in an amount of memory, with what each needs and takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.explain.memory.fits import Fit, Way, amount_or_sizes, fit_of
from chainrule.explain.memory.lying import Layout
from chainrule.explain.memory.margins import margin
from chainrule.explain.memory.report import MemoryReport, memory_of_step
from chainrule.graph.body import inner_nodes
from chainrule.graph.node import Node
from chainrule.plan.speeds import checked_speeds
from chainrule.primitives.primitive import Library

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure, Run
    from chainrule.graph.graph import Graph
    from chainrule.plan.speeds import Speeds
    from chainrule.train.step.micro_memory import MicroBatchMemory
    from chainrule.train.step.step import TrainingStep

COUNTS = (2, 4, 8, 16, 32)  # of parts of a batch
SHOWN = 3  # of these, where more fit


class Option(NamedTuple):
    """A way, its report, how many runs of that take as many rows as the batch has, the number of
    its parts, and whether the whole batch goes at once."""

    way: Way
    report: MemoryReport | MicroBatchMemory
    times: float = 1.0
    parts: int = 1
    is_whole: bool = False

    @property
    def run(self) -> Callable[[Measure], Run]:
        """The run, as `measured_runs.timed` takes it."""
        return self.report.run


def fit_of_step(
    step: TrainingStep,
    amount: int | str | Mapping[str, int] | None,
    nbytes: int | str | None,
    executor: str | None,
    layout: Layout | None,
    sizes: Mapping[str, int],
    speeds: Speeds | None = None,
    measure: Measure | None = None,
) -> Fit:
    """See `TrainingStep.fits`; `amount` may be the sizes, as elsewhere."""
    speeds = checked_speeds(speeds)
    nbytes, named = amount_or_sizes(amount, nbytes)
    sizes = {**named, **sizes}
    report = step.memory(sizes, predict=None, executor=executor, layout=layout)
    fit = fit_of(report, nbytes)
    limit = fit.limit_nbytes
    return replace(fit, find_ways=partial(_ways_to_fit, step, report, limit, speeds, measure))


def _ways_to_fit(
    step: TrainingStep,
    plain: MemoryReport,
    nbytes: int,
    speeds: Speeds | None,
    measure: Measure | None,
) -> tuple[Way, ...]:
    """The ways in which the step of a report fits in `nbytes`, the quickest first for each row, by
    the longest that it may take: parts are no advice where they only may be quicker.

    The whole batch, perhaps within a budget; the batch in parts; a smaller batch.  None where the
    executor cannot keep to a budget, or has to compile each to know what it needs.
    """
    executor = executor_of(plain.executor)
    if getattr(executor, "within", None) is None or executor.traits.compiles_to_count:
        return ()
    within = executor_with(plain.executor, memory=nbytes)
    found = [*whole(step, plain, within, nbytes, speeds)]
    found += in_parts(step, plain.sizes, within, nbytes, speeds)
    found += smaller(step, plain, within, nbytes, speeds)
    found = [_with_margin(one, plain, plain.nanoseconds(speeds)) for one in found]
    if measure is None:
        ways = _measured_if_possible(found, plain.concrete) if speeds is None else None
    else:
        ways = _measured(found, measure) if measure is not False else None
    ways = [one.way for one in found] if ways is None else ways
    return tuple(sorted(ways, key=lambda way: way.nanoseconds * (1 + way.margin)))


def _measured_if_possible(found: list[Option], graph: Graph) -> list[Way] | None:
    """The ways with the times of runs that nobody asked for; None where arrays that are made up
    cannot stand in for the user's: these decide what is computed, or they make a run fail."""
    from chainrule.explain.cost.measured_runs import EACH_UNASKED, UNASKED

    if any(_follows_data(node) for node in (*graph.nodes, *inner_nodes(graph))):
        return None
    try:
        return _measured(found, True, UNASKED, EACH_UNASKED)
    except Exception:  # of what was made up, which is no fault of the user's
        return None


def _follows_data(node: Node) -> bool:
    """Whether what a node takes depends on the elements: a loop that ends when they say so, a
    function of the user's."""
    kernel = node.primitive.kernel
    if not isinstance(kernel, Library):
        return False
    return kernel.keeps or (kernel.turns is not None and kernel.turns(node) is None)


def _measured(
    found: list[Option], measure: Measure, seconds: float = inf, each: float | None = None
) -> list[Way]:
    """The ways with the times of runs."""
    from chainrule.explain.cost.measured_runs import timed  # loaded where it is asked for

    runs = [one.run(measure) for one in found]
    estimated = [one.way.nanoseconds / one.times for one in found]
    return [
        replace(
            one.way,
            nanoseconds=one.times * taken.nanoseconds,
            is_measured=taken.is_measured,
            margin=0.0 if taken.is_measured else one.way.margin,
        )
        for one, taken in zip(found, timed(runs, estimated, seconds, each), strict=True)
    ]


def _with_margin(one: Option, plain: MemoryReport, nanoseconds: float) -> Option:
    """The option with how far its estimated time may be off."""
    way = one.way
    found = margin(plain.executor, way.nanoseconds, nanoseconds, is_whole=one.is_whole)
    return one._replace(way=replace(way, margin=found))


def whole(
    step: TrainingStep, plain: MemoryReport, within: str, nbytes: int, speeds: Speeds | None
) -> Iterator[Option]:
    """The whole batch, as it is or within a budget; nothing where no plan needs so little."""
    try:
        report = memory_of_step(step, plain.sizes, executor=within)
    except MemoryLimitError:
        return
    what = "the whole batch"
    if plain.needed_nbytes > nbytes:
        what += f" within a budget: training_step(..., memory={nbytes})"
    way = Way(what, report.needed_nbytes, report.nanoseconds(speeds))
    yield Option(way, report, is_whole=True)


def in_parts(
    step: TrainingStep,
    sizes: Mapping[str, int],
    within: str,
    nbytes: int,
    speeds: Speeds | None,
) -> Iterator[Option]:
    """The batch in equal parts, the few first numbers of them that fit."""
    for count, report in islice(parts_that_fit(step, sizes, within), SHOWN):
        what = f"{count} parts of it: training_step(..., memory={nbytes}).micro_batched({count})"
        way = Way(what, report.needed_nbytes, report.nanoseconds(speeds))
        yield Option(way, report, parts=count)


def parts_that_fit(
    step: TrainingStep, sizes: Mapping[str, int], executor: str | None, least: float = 0
) -> Iterator[tuple[int, MicroBatchMemory]]:
    """In how many parts of a batch, `least` or more, the step fits, and its memory then."""
    from chainrule.train.step.micro_memory import memory_of_parts

    for count in COUNTS:
        if count >= least:
            try:
                report = memory_of_parts(step.micro_batched(count), executor, None, sizes)
            except (MemoryLimitError, InputError, SizeError):
                continue
            yield count, report


def smaller(
    step: TrainingStep, plain: MemoryReport, within: str, nbytes: int, speeds: Speeds | None
) -> Iterator[Option]:
    """The largest batch that fits without a budget, if this one does not; the time is that of as
    many rows."""
    if not step.graph.sizes or plain.needed_nbytes <= nbytes:
        return
    name = step.graph.sizes[0]
    try:
        size = plain.largest(name, nbytes).size
    except MemoryLimitError:
        return
    part = memory_of_step(step, {**plain.sizes, name: size}, executor=within)
    times = plain.sizes[name] / size
    what = f"another batch, {name} = {size:,} (time for as many rows)"
    yield Option(Way(what, part.needed_nbytes, times * part.nanoseconds(speeds)), part, times)
