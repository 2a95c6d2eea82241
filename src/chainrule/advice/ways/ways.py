"""`cr.ways`: every way to train a step with a batch, the best first, and those that do not fit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from numbers import Integral
from typing import TYPE_CHECKING, Any

from chainrule.advice.showing import Table, duration, number
from chainrule.advice.ways.alone import Alone
from chainrule.advice.ways.shared import Shared
from chainrule.advice.ways.way import OTHER, TrainingWay
from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.planning.devices import Devices
from chainrule.devices.planning.pins import sizes_of
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.executors import memory_of
from chainrule.explain.plot import Plot
from chainrule.graph.bytes_text import in_bytes, nbytes_of
from chainrule.graph.frozen import NotPickled
from chainrule.plan.speeds import Speeds, checked_speeds
from chainrule.tracebacks import entry
from chainrule.train.step.step import TrainingStep

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure

Task = tuple[str, Callable[[], Iterable[TrainingWay]]]

# Of their time: the same way, measured twice with others in turns, differs by up to 4 %.
TIED = 0.05


@dataclass(frozen=True, eq=False)
class Ways(NotPickled):
    """The ways to train a step with a batch; `cr.ways` makes it.

    `fitting` are the ways that fit, the quickest for each sample first, those last that change the
    training (another batch, optimizer, or roundings); `others` are those that do not fit, each with
    `why_not`.
    `unknown` are what was not looked at, where somebody stopped it.
    """

    _called = "a table of ways"
    _instead = "json.dumps(ways.json()) holds its numbers, str(ways) its text"

    name: str
    sizes: Mapping[str, int]
    limit_nbytes: int | None
    fitting: tuple[TrainingWay, ...]
    others: tuple[TrainingWay, ...]
    unknown: tuple[str, ...] = ()
    speeds: Speeds | None = field(default=None, repr=False)

    @property
    def best(self) -> TrainingWay:
        """The quickest way that fits.  MemoryLimitError where none does."""
        if not self.fitting:
            raise MemoryLimitError(f"no way was found in which {self.name} fits", hint=self._least)
        return self.fitting[0]

    @property
    def _least(self) -> str:
        least = min(self.others, key=lambda one: one.needed_nbytes or sys.maxsize)
        return f"{least.what} needs {in_bytes(least.needed_nbytes)}"

    @property
    def tied(self) -> tuple[TrainingWay, ...]:
        """The best way and those that take at most 5 % longer for a sample, by the prediction, and
        train alike.  Which of them is quickest, a prediction cannot tell: choose by their bytes."""
        if not self.fitting:
            return ()
        limit = self.best.seconds_a_sample * (1 + TIED)
        alike = (one for one in self.fitting if one.trajectory != OTHER)
        return tuple(one for one in alike if one.seconds_a_sample <= limit)

    def __iter__(self) -> Iterator[TrainingWay]:
        return iter((*self.fitting, *self.others))

    def __len__(self) -> int:
        return len(self.fitting) + len(self.others)

    @entry
    def measure(
        self, chosen: Iterable[int] | None = None, *, arrays: Measure = True, progress: bool = False
    ) -> Ways:
        """The table with the times of runs beside the predicted ones: `print(ways.measure())`.

        `chosen` are places in `fitting`, from 0; all by default.  Steps are taken on arrays that
        are made up, or on `arrays`, by name, whose elements are repeated or cut to the batch of
        each way; ways on several devices run as threads.  Ctrl-C gives what is known by then.

        InputError for other places.
        """
        from chainrule.explain.cost.measured_runs import ENOUGH, ROUNDS, turn

        places = range(len(self.fitting)) if chosen is None else self._places(chosen)
        measured: dict[int, float] = {}
        begun = time.perf_counter()

        def task(place: int) -> Callable[[], Iterable[TrainingWay]]:
            def run() -> Iterable[TrainingWay]:
                one = self.fitting[place]
                known = measured.get(place, inf)
                is_enough = known < inf and time.perf_counter() - begun > ENOUGH
                if one.run is not None and not is_enough:
                    found = turn(one.run(arrays)) / 1e9
                    if found < inf:
                        measured[place] = min(found, known)
                return ()

            return run

        # in turns, so that what else the machine does for a while disturbs none of them always
        once = [(self.fitting[place].what, task(place)) for place in places]
        _, undone = _done(once * ROUNDS, progress=progress)
        done = {self.fitting[place].what for place in measured}
        unknown = tuple(name for name in dict.fromkeys(undone) if name not in done)
        fitting = tuple(
            replace(one, measured_seconds=measured.get(place, one.measured_seconds))
            for place, one in enumerate(self.fitting)
        )
        return replace(self, fitting=fitting, unknown=unknown)

    def _places(self, chosen: Any) -> list[int]:
        found = list(chosen) if isinstance(chosen, Iterable) else [chosen]
        count = len(self.fitting)
        known = [isinstance(one, Integral) and 0 <= int(one) < count for one in found]
        if not isinstance(chosen, Iterable) or not all(known):
            raise InputError(
                f"chosen={chosen!r}, and the ways that fit have the places {list(range(count))}",
                hint="the first two: chosen=(0, 1)",
            )
        return [int(one) for one in found]

    @property
    def table(self) -> Table:
        """The ways as a table."""
        measured = any(one.measured_seconds is not None for one in self.fitting)
        head = ["", "way", "bytes each", "a sample", "a step"]
        head += ["measured"] if measured else []
        head += ["more operations", "sent", "idle", "noise", "trajectory", "code"]
        rows = []
        for place, one in enumerate(self.fitting, 1):
            row = [str(place), one.what, in_bytes(one.needed_nbytes)]
            row += [duration(one.seconds_a_sample), duration(one.seconds)]
            if measured:
                row.append("-" if one.measured_seconds is None else duration(one.measured_seconds))
            row += [
                number(float(one.extra_flops)) if one.extra_flops else "-",
                in_bytes(one.sent_nbytes) if one.sent_nbytes else "-",
                f"{one.idle:.0%}" if one.devices > 1 else "-",
                "-" if one.noise == 1 else f"x {number(one.noise)}",
                one.trajectory,
                one.code,
            ]
            rows.append(tuple(row))
        notes = [
            f"{'does not fit' if one.needed_nbytes else 'left out'}: {one.what}: {one.why_not}"
            for one in self.others
        ]
        tied = self.tied
        if not self.fitting:
            notes.insert(0, f"nothing fits: {self._least}")
        if len(tied) > 1:
            places = ", ".join(str(1 + self.fitting.index(one)) for one in tied)
            notes.insert(0, f"about as quick as each other: {places} (within {TIED:.0%})")
        notes += [f"not looked at: {', '.join(self.unknown)}"] if self.unknown else []
        at = ", ".join(f"{name} = {size:,}" for name, size in self.sizes.items())
        within = f" in {in_bytes(self.limit_nbytes)}" if self.limit_nbytes is not None else ""
        numbers = (2, 3, 4, 5, 6, 7, 8, 9) if measured else (2, 3, 4, 5, 6, 7, 8)
        return Table(
            f"ways to train {self.name} with {at}{within}",
            tuple(head),
            rows,
            frozenset((0, *numbers)),
            notes,
        )

    def json(self) -> dict[str, Any]:
        """The numbers as dicts and lists that `json.dumps` takes."""
        return {
            "schema": "chainrule.ways/1",
            "graph": self.name,
            "sizes": dict(self.sizes),
            "limit_nbytes": self.limit_nbytes,
            "fitting": [one.json() for one in self.fitting],
            "others": [one.json() for one in self.others],
            "unknown": list(self.unknown),
        }

    @property
    def plot(self) -> Plot:
        """Bytes against time a sample, with the line of the ways that none is better than."""
        from chainrule.advice.ways.picture import plot

        return plot(self)

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The pictures: `plot`."""
        return (self.plot,)

    def __str__(self) -> str:
        return self.table.text()

    def _repr_html_(self) -> str:
        return self.table.html(self.plot.svg())


@entry
def ways(
    step: TrainingStep,
    *,
    batch: int | Mapping[str, int],
    memory: int | str | None = None,
    devices: int | Devices | None = None,
    speeds: Speeds | None = None,
    size: str | None = None,
    progress: bool | None = None,
) -> Ways:
    """Every way to train a step with a batch: `print(cr.ways(step, batch=512, memory="2 GiB"))`.

    As it is, a smaller batch, micro-batches, recomputation within budgets, an optimizer that keeps
    less, what the backward pass reads in bfloat16; on `devices` (a number of ranks of this machine,
    or a `cr.Devices`; `memory` limits each device) data parallel, sharded, as a pipeline, with
    products split, and combined.  Each with the bytes of the device that needs most, predicted time
    (of this machine, calibrated once, or by `speeds`), operations beyond those of the
    plain step, bytes sent, the share of time in which devices wait, what becomes of noise and
    trajectory, and the code that does it.

    A bar shows progress where somebody watches (`progress`); Ctrl-C gives what is known by then.
    How many plans are made depends on the number of nodes, not on a clock.  SizeError for a wrong
    batch; InputError for a step with `memory=`, which has a budget already.
    """
    if not isinstance(step, TrainingStep):
        raise InputError(
            f"cr.ways takes a training step, got {type(step).__name__}",
            hint="step = cr.training_step(objective, ...); cr.ways(step, batch=512)",
        )
    if memory_of(step.executor) is not None:
        raise InputError(
            "the step has a budget (memory=), and cr.ways looks for one",
            hint='make it without memory=, and say cr.ways(step, batch=512, memory="2 GiB")',
        )
    parts = step.micro_batched(1, size=size)
    sizes = sizes_of(step, parts.size, batch)
    limit = None if memory is None else nbytes_of(memory, "memory")
    speeds = checked_speeds(speeds)
    if devices is not None and not isinstance(devices, Devices):
        devices = Devices.cpu(devices, memory=memory, speeds=speeds)
    elif devices is not None and limit is not None:
        devices = _limited(devices, limit)
    alone = Alone(step, sizes, parts.size, limit, speeds)
    found, unknown = _done(
        _tasks(alone, devices), progress=_is_watched() if progress is None else progress
    )
    fitting = sorted((one for one in found if one.fits), key=_order)
    others = tuple(one for one in found if not one.fits)
    return Ways(step.graph.name, sizes, limit, tuple(fitting), others, unknown, speeds)


def _limited(devices: Devices, limit: int) -> Devices:
    """The devices with at most so many bytes each."""
    known = [one.memory_nbytes for one in devices.groups]
    groups = tuple(
        replace(group, memory_nbytes=limit if own is None else min(own, limit))
        for group, own in zip(devices.groups, known, strict=True)
    )
    return replace(devices, groups=groups)


def _order(way: TrainingWay) -> tuple[bool, float]:
    """The quickest first; those last that make another training of it."""
    return way.trajectory == OTHER, way.seconds_a_sample


def _is_watched() -> bool:
    """Whether messages go to a terminal; there are none where standard error was closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _tasks(alone: Alone, devices: Devices | None) -> Iterator[Task]:
    """What is looked at, the cheapest first."""
    plain: list[TrainingWay] = []
    changes = alone.parted()

    def first() -> Iterable[TrainingWay]:
        plain.append(alone.plain())
        return plain

    yield "as it is", first
    if not plain:
        return
    yield "a smaller batch", lambda: alone.smaller(plain[0])
    yield "micro-batches", lambda: alone.in_parts(changes)
    yield "another optimizer", alone.other_optimizers
    yield "saved values", alone.saving
    yield "recomputation", lambda: alone.recomputing(plain[0])
    if not plain[0].fits and not alone.is_large:
        yield "micro-batches that recompute", lambda: alone.parts_within(changes)
    if devices is not None and devices.count > 1:
        known = alone.size, alone.speeds, changes, alone.is_large
        shared = Shared(alone.step, devices, alone.sizes, *known)
        for kind in shared.kinds():
            yield kind.name, lambda kind=kind: shared.way(kind)


def _done(tasks: Iterable[Task], *, progress: bool) -> tuple[list[TrainingWay], tuple[str, ...]]:
    """What the tasks found, and those that Ctrl-C left undone."""
    found: list[TrainingWay] = []
    unknown: list[str] = []
    iterator = iter(tasks)
    with _bar(progress) as show:
        for name, task in iterator:
            show(name)
            try:
                for one in task():
                    found.append(one)
            except KeyboardInterrupt:
                unknown = [name, *[other for other, _ in iterator]]
                break
    return found, tuple(unknown)


@contextmanager
def _bar(shown: bool) -> Iterator[Callable[[str], None]]:
    """What says on stderr which way is being looked at."""
    if not shown:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)
        yield lambda name: progress.update(bar, description=name)
