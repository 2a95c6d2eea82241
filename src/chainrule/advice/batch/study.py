"""`cr.batch_study`: what a step takes with each size of a batch, and which one is recommended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, inf, isfinite
from statistics import median
from typing import Any

from chainrule.advice.batch.along import noise_along
from chainrule.advice.batch.choice import Training, between, recommended, training_with
from chainrule.advice.noise.noise import GradientNoise
from chainrule.advice.showing import Table, duration, number
from chainrule.data.rows import rows_of
from chainrule.dataclass import dataclass, field
from chainrule.devices.planning.devices import products_of
from chainrule.errors import InputError, MemoryLimitError, SizeError
from chainrule.execute.executors import executor_of
from chainrule.execute.native.runtime.machine import settings_now
from chainrule.explain.cost.calibration import speeds_here
from chainrule.explain.cost.measured_runs import run_of_report, timed
from chainrule.explain.memory.report import MemoryReport
from chainrule.explain.plot import Plot
from chainrule.graph.bytes_text import in_bytes, nbytes_of
from chainrule.graph.frozen import NotPickled
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.speeds import Speeds, checked_speeds, speeds_of
from chainrule.tracebacks import entry
from chainrule.train.step.check_arguments import refuse_no_state
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

MOST = 1024  # rows of the largest batch, unless somebody asks for more
FORMULA = 100  # letters of a formula that is told


@dataclass(frozen=True)
class OfBatch:
    """What a step takes with one batch.

    `needed_nbytes` as `memory().needed_nbytes`; `seconds` of a step, measured or predicted; `flops`
    of a step; `moved_nbytes` are those of stored values, each written and read once, at least.
    `of_best` is the part of this machine's best operations a second, `of_memory` that of what its
    memory moves.  `training` says what a training takes with it; None where noise is not known.
    """

    batch: int
    needed_nbytes: int
    seconds: float
    is_measured: bool
    flops: int
    moved_nbytes: int
    of_best: float
    of_memory: float
    steps_an_epoch: int
    training: Training | None

    @property
    def seconds_a_sample(self) -> float:
        """Seconds of a step, by the rows of its batch."""
        return self.seconds / self.batch


@dataclass(frozen=True, eq=False)
class BatchStudy(NotPickled, ShownByText):
    """What each batch takes, and which one is recommended; `cr.batch_study` makes it.

    `recommended` is the batch with the least product of time and samples to a target, `quickest`
    the one of the table with the least time, `critical_batch` the noise scale, the median of those
    in `noise`.  `rooflines` are the least seconds of each batch by operations and by memory.
    """

    _called = "a study of batches"
    _instead = "json.dumps(study.json()) holds its numbers, str(study) its text"

    name: str
    size: str
    rows: int
    batches: tuple[OfBatch, ...]
    noise: tuple[GradientNoise, ...]
    critical_batch: float
    recommended: int
    formula: str
    left_out: tuple[str, ...]
    rooflines: tuple[tuple[float, float], ...] = field(repr=False)

    @property
    def quickest(self) -> int:
        """The batch of the table that reaches a target in the least time."""
        known = [(one.training.seconds, one.batch) for one in self.batches if one.training]
        return min(known)[1] if known else self.batches[-1].batch

    @property
    def reason(self) -> str:
        """Why the recommended batch is recommended, in some sentences."""
        if not self.noise:
            return "without noise (at=()), no batch is recommended"
        latest = self.noise[-1]
        seconds = between(*zip(*[(one.batch, one.seconds) for one in self.batches], strict=True))
        first, most = self.batches[0].batch, self.batches[-1].batch
        chosen = training_with(self.critical_batch, self.recommended, seconds(self.recommended))
        because = "with it, a larger batch saves as much of the time as it costs of the samples"
        if self.recommended == most:
            because = "of those looked at, each saves more of the time than it costs of the samples"
        words = (
            f"{self.size} = {self.recommended} is recommended: {because}. The noise scale is "
            f"{number(self.critical_batch)} ({number(latest.low)} to {number(latest.high)} after "
            f"{latest.steps:,} steps)"
        )
        if not isfinite(self.critical_batch):
            return (
                f"{self.size} = {self.recommended} is recommended, the largest that was looked at: "
                f"the mean gradient of {latest.rows:,} examples cannot be told from 0, so the "
                "noise scale is larger than they can show"
            )
        for other in (first, most):
            if other == self.recommended:
                continue
            one = training_with(self.critical_batch, other, seconds(other))
            words += (
                f"; {self.size} = {other} would take {one.seconds / chosen.seconds:.2f} times the "
                f"time and {one.samples / chosen.samples:.2f} times the samples to a target"
            )
        return words

    @property
    def table(self) -> Table:
        """The study as a table."""
        rows = []
        for one in self.batches:
            known = one.training
            rows.append(
                (
                    str(one.batch),
                    in_bytes(one.needed_nbytes),
                    ("" if one.is_measured else "about ") + duration(one.seconds),
                    duration(one.seconds_a_sample),
                    f"{one.of_best:.0%}",
                    f"{one.of_memory:.0%}",
                    f"{one.steps_an_epoch:,}",
                    number(known.steps) if known else "-",
                    number(known.samples) if known else "-",
                    duration(known.seconds) if known else "-",
                )
            )
        near = min(self.batches, key=lambda one: abs(one.batch / self.recommended - 1))
        return Table(
            f"batches of {self.name}: {self.rows:,} samples an epoch",
            (
                *(self.size, "bytes", "a step", "a sample", "of best", "of memory"),
                *("steps an epoch", "steps", "samples", "time"),
            ),
            rows,
            frozenset(range(10)),
            [
                "steps, samples, time: to a target, in units of the fewest steps and samples",
                *([f"bytes of arrays: {self.formula}"] if self.formula else []),
                *self.left_out,
                self.reason,
            ],
            self.batches.index(near) if self.noise else None,
        )

    def json(self) -> dict[str, Any]:
        """The numbers as dicts and lists that `json.dumps` takes; null for what is infinite."""
        return {
            "schema": "chainrule.batch-study/1",
            "graph": self.name,
            "size": self.size,
            "rows": self.rows,
            "critical_batch": self.critical_batch if isfinite(self.critical_batch) else None,
            "recommended": self.recommended,
            "quickest": self.quickest,
            "reason": self.reason,
            "formula": self.formula,
            "batches": [
                {
                    **{k: v for k, v in vars(one).items() if k != "training"},
                    "seconds_a_sample": one.seconds_a_sample,
                    "training": _finite(vars(one.training)) if one.training else None,
                }
                for one in self.batches
            ],
            "noise": [one.json() for one in self.noise],
        }

    @property
    def noise_plot(self) -> Plot:
        """Noise scale by steps of training."""
        from chainrule.advice.batch.pictures import noise_plot

        return noise_plot(self)

    @property
    def time_plot(self) -> Plot:
        """Time a sample by batch, with the least by operations and by memory."""
        from chainrule.advice.batch.pictures import time_plot

        return time_plot(self)

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The pictures: `time_plot`, and of several moments `noise_plot`."""
        return (self.time_plot, *([self.noise_plot] if len(self.noise) > 1 else []))

    def __str__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html("".join(one.svg() for one in self.plots))


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: one if isfinite(one) else None for name, one in numbers.items()}


@entry
def batch_study(
    step: TrainingStep,
    state: State,
    data: Mapping[str, Any],
    sizes: Iterable[int] | None = None,
    *,
    at: Iterable[int] = (0,),
    measure: bool = True,
    speeds: Speeds | None = None,
    memory: int | str | None = None,
    rows: int | None = None,
    batch: int = 32,
    size: str | None = None,
    seed: int = 0,
) -> BatchStudy:
    """What a step takes with each batch of `sizes`: `print(cr.batch_study(step, state, data))`.

    `data` maps inputs to arrays whose rows are examples; what it lacks, it takes as a step does.
    `sizes` are 1, 2, 4, ... up to 1,024 or all rows, those that fit in `memory`.  Times are
    measured; with `measure=False` predicted for this machine, calibrated once, or by `speeds`.  The
    noise of gradients is that of `rows` examples (512) after the numbers of steps in `at`, of a
    training from a copy of the state with `batch` rows a step; without any (`at=()`) nothing is
    recommended.  `size` is the named size of the batch, where the
    step has several.

    InputError for data that are no examples, and as `cr.gradient_noise`.
    """
    if not isinstance(step, TrainingStep):
        raise InputError(
            f"cr.batch_study takes a training step, got {type(step).__name__}",
            hint="step = cr.training_step(objective, ...)",
        )
    refuse_no_state(state, step.parameters)
    parts = step.micro_batched(1, size=size)
    given, count = dict(data), rows_of(dict(data)).count
    speeds = checked_speeds(speeds)
    noise = noise_along(step, state, given, at, batch=batch, rows=rows, seed=seed)
    reports, left_out = _reports(step, parts.size, given, _sizes(sizes, count), memory)
    if not reports:
        raise InputError(
            f"none of the batches can be taken: {'; '.join(left_out)}", hint="sizes=(1, 2, 4)"
        )
    estimated = [one.nanoseconds(speeds) for one in reports.values()]
    if measure:
        arrays = {**given, **{name: state.arrays[name] for name in step.weights}}
        runs = [run_of_report(one, arrays) for one in reports.values()]
        found = [(one.nanoseconds / 1e9, one.is_measured) for one in timed(runs, estimated)]
    else:
        found = [(one / 1e9, False) for one in estimated]
    known = [one.total.scale for one in noise]
    scale = median(known) if known else inf
    seconds = between([*reports], [one for one, _ in found])
    chosen = recommended(scale, seconds, min(reports), max(reports))
    batches, lines = [], []
    for (each, report), (taken, is_measured) in zip(reports.items(), found, strict=True):
        flops, moved = _work(step, report)
        least = _least_seconds(step, flops, moved, speeds)
        lines.append(least)
        training = training_with(scale, each, taken) if noise else None
        of_best, of_memory = (one / taken if taken else 0.0 for one in least)
        batches.append(
            OfBatch(
                each,
                report.needed_nbytes,
                taken,
                is_measured,
                flops,
                moved,
                of_best,
                of_memory,
                ceil(count / each),
                training,
            )
        )
    return BatchStudy(
        step.graph.name,
        parts.size,
        count,
        tuple(batches),
        noise,
        scale,
        max(round(chosen), 1),
        _formula([*reports.values()][-1]),
        tuple(left_out),
        tuple(lines),
    )


def _sizes(asked: Iterable[int] | None, rows: int) -> list[int]:
    if asked is None:
        return [2**k for k in range(min(rows, MOST).bit_length())]
    found = sorted({*asked})
    for one in found:
        if not hasattr(one, "__index__") or isinstance(one, bool) or one < 1:
            raise InputError(f"a batch of {one!r} rows", hint="sizes=(1, 2, 4)")
    if not found:
        raise InputError("sizes has no batch", hint="sizes=(1, 2, 4)")
    return [int(one) for one in found]


def _reports(
    step: TrainingStep, size: str, data: Mapping[str, Any], sizes: list[int], memory: Any
) -> tuple[dict[int, MemoryReport], list[str]]:
    """The memory of each batch, and why others are left out."""
    limit = None if memory is None else nbytes_of(memory)
    others = _other_sizes(step, size, data)
    found: dict[int, MemoryReport] = {}
    left_out = []
    for one in sizes:
        try:
            report = step.memory({**others, size: one}, predict=None)
        except (MemoryLimitError, SizeError) as error:
            left_out.append(f"{size} = {one}: {error.what}")
            continue
        if limit is not None and report.needed_nbytes > limit:
            left_out.append(f"{size} = {one} needs {in_bytes(report.needed_nbytes)}, does not fit")
            break
        found[one] = report
    return found, left_out


def _other_sizes(step: TrainingStep, size: str, data: Mapping[str, Any]) -> dict[str, int]:
    """The named sizes that shapes of the data show, but for that of the batch."""
    found: dict[str, int] = {}
    for item in step.graph.inputs:
        if item.name in data:
            for axis, length in zip(item.type.shape, data[item.name].shape, strict=False):
                if str(axis) in step.graph.sizes and str(axis) != size:
                    found[str(axis)] = length
    return found


def _work(step: TrainingStep, report: MemoryReport) -> tuple[int, int]:
    """Operations of a step, and the bytes that it moves at least: stored values, once each way."""
    flops = step.graph.cost(report.sizes).flops
    assert isinstance(flops, int)
    main = report.main
    given = {item.node for item in main.graph.inputs}
    moved = 0
    for node, lives in main.lives_of.items():
        moved += int(node.type.nbytes) * (1 if node in given else 2 * len(lives))
    return flops, moved


def _least_seconds(
    step: TrainingStep, flops: int, moved: int, speeds: Speeds | None
) -> tuple[float, float]:
    """The least seconds of a step by its operations, on all threads of compiled code, and by its
    memory."""
    settings = settings_now()
    compiled = executor_of(step.executor).traits.has_kernels
    # NumPy's times are one record for every processor, and so is what they are compared with.
    here = settings.target.vector_nbytes, settings.threads
    known = speeds or (speeds_here(*here) if compiled else speeds_of(0))
    dtype = str(step.graph[step.objective].dtype)
    best = products_of(known).get(dtype, products_of(known)["float32"])
    best *= max(settings.threads, 1) if compiled else 1
    return flops / best, moved / (known.memory[-1].nbytes_each_nanosecond * 1e9)


def _formula(report: MemoryReport) -> str:
    """The peak as a formula of named sizes; "" where it is long, or none."""
    try:
        text = str(report.formulas.peak)
    except InputError:
        return ""
    return text if len(text) <= FORMULA and "\n" not in text else ""
