"""The ways to take a training step in an amount of memory, with what each needs and takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.explain.memory.fits import Fit, Way, fit_of
from chainrule.explain.memory.lying import Layout
from chainrule.explain.memory.report import MemoryReport, memory_of_step

if TYPE_CHECKING:
    from chainrule.train.step.step import TrainingStep

COUNTS = (2, 4, 8, 16, 32)  # of parts of a batch
SHOWN = 3  # of these, where more fit


def fit_of_step(
    step: TrainingStep,
    amount: int | str | Mapping[str, int] | None,
    nbytes: int | str | None,
    executor: str | None,
    layout: Layout | None,
    sizes: Mapping[str, int],
) -> Fit:
    """See `TrainingStep.fits`; `amount` may be the sizes, as elsewhere."""
    if isinstance(amount, Mapping):
        sizes = {**amount, **sizes}
    elif amount is not None and nbytes is not None:
        raise InputError(
            f"step.fits got two amounts of memory, {amount!r} and nbytes={nbytes!r}",
            hint="leave one of them out",
        )
    else:
        nbytes = nbytes if amount is None else amount
    report = step.memory(sizes, predict=None, executor=executor, layout=layout)
    fit = fit_of(report, nbytes)
    return replace(fit, ways=ways_to_fit(step, report.sizes, fit.limit_nbytes, report.executor))


def ways_to_fit(
    step: TrainingStep, sizes: Mapping[str, int], nbytes: int, executor: str
) -> tuple[Way, ...]:
    """The ways in which a step at these sizes fits in `nbytes`, the quickest first for each row.

    The whole batch, perhaps with values computed again; the batch in parts; a smaller batch.  None
    where the executor does not say how long a run takes.
    """
    if getattr(executor_of(executor), "within", None) is None:
        return ()
    within = executor_with(executor, memory=nbytes)
    found = [*_whole(step, sizes, within, nbytes), *_in_parts(step, sizes, within, nbytes)]
    found += _smaller(step, sizes, executor, within)
    return tuple(sorted(found, key=lambda way: way.nanoseconds))


def _nanoseconds(report: MemoryReport) -> float:
    return float(getattr(report.main.program, "nanoseconds", 0.0))


def _whole(step: TrainingStep, sizes: Mapping[str, int], within: str, nbytes: int) -> Iterator[Way]:
    try:
        report = memory_of_step(step, sizes, executor=within)
    except MemoryLimitError:
        return
    lives = report.main.lives_of.values()
    again = any(len(one) > 1 for one in lives)
    what = "the whole batch"
    if again:
        what += f", some values computed again: training_step(..., memory={nbytes})"
    yield Way(what, report.needed_nbytes, _nanoseconds(report))


def _in_parts(
    step: TrainingStep, sizes: Mapping[str, int], within: str, nbytes: int
) -> Iterator[Way]:
    shown = 0
    for count in COUNTS:
        if shown == SHOWN:
            return
        try:
            report = step.micro_batched(count).memory(sizes, executor=within)
        except (MemoryLimitError, InputError, SizeError):
            continue
        taken = count * _nanoseconds(report.accumulating) + _nanoseconds(report.updating)
        shown += 1
        what = f"{count} parts of it: training_step(..., memory={nbytes}).micro_batched({count})"
        yield Way(what, report.needed_nbytes, taken)


def _smaller(
    step: TrainingStep, sizes: Mapping[str, int], executor: str, within: str
) -> Iterator[Way]:
    """The largest batch that fits without a value computed again, if this one does not; the time is
    that of as many rows."""
    if not step.graph.sizes:
        return
    name = step.graph.sizes[0]
    report = memory_of_step(step, sizes, executor=executor)
    nbytes = executor_of(within).memory_nbytes  # type: ignore[attr-defined]
    if report.needed_nbytes <= nbytes:
        return
    try:
        size = report.largest(name, nbytes).size
    except MemoryLimitError:
        return
    part = memory_of_step(step, {**sizes, name: size}, executor=within)
    times = sizes[name] / size
    yield Way(
        f"another batch, {name} = {size:,} (time for as many rows)",
        part.needed_nbytes,
        times * _nanoseconds(part),
    )
