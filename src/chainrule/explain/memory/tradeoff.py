"""What less memory costs in time: the plans from no value computed again to the least bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.explain.memory.margins import MEASURE, margin
from chainrule.explain.memory.repeats import Repeat, repeats_of
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.cached import cached_property
from chainrule.graph.in_notebooks import ShownByText
from chainrule.plan.speeds import checked_speeds
from chainrule.schedule.records import Compute
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.explain.cost.measured_runs import Measure
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.plan.speeds import Speeds

PARTS = 64  # of what can be saved: less than one of them is worth no point
SLOWER = 1.001  # times as long, or more, takes a point than one that needs more
SHOWN = 6  # names of a row
LOOPS = "states of loops"


@dataclass(frozen=True)
class Point:
    """One plan: `needed_nbytes` is the `memory=` for which it is chosen.

    `nanoseconds` is about what a run takes, `extra` how much longer that is than at the first
    point, as a fraction; `extra_flops` are the operations done again.  `again` names the values
    that are computed again; `in_loops` says whether states of loops are, too.  `report` is the
    memory report of the plan, `speeds` are of the machine whose times are told; `is_measured`: the
    times of the point are those of runs.  Else they may be less or more by the fraction `margin`.
    """

    needed_nbytes: int
    nanoseconds: float
    extra: float
    extra_flops: int
    again: tuple[str, ...]
    in_loops: bool
    report: MemoryReport
    speeds: Speeds | None = None
    is_measured: bool = False
    margin: float = 0.0

    @cached_property
    def repeats(self) -> tuple[Repeat, ...]:
        """What each instruction computes again, from what, at which cost, and what it saves."""
        return repeats_of(self.report.main, self.speeds)

    @property
    def words(self) -> tuple[str, ...]:
        """What is computed again: values by name, then parts of them, then states of loops."""
        parts = [name for one in self.repeats for name in one.values]
        return tuple(dict.fromkeys([*self.again, *parts, *([LOOPS] if self.in_loops else [])]))


@dataclass(frozen=True)
class Tradeoff(ShownByText):
    """Bytes against time: `points` from no value computed again to the least bytes.

    Each saves at least a 64th of what can be saved more than the one before it, but for the last,
    which needs the least; and each but the first takes longer than those before it.  Measured, the
    first may take longer than others.  `print` shows a table; `svg()` is a picture, `json()` the
    numbers.
    """

    name: str
    executor: str
    points: tuple[Point, ...]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @entry
    def within(self, nbytes: int | str) -> Point:
        """The quickest point within so many bytes.  MemoryLimitError where there is none."""
        from chainrule.graph.bytes_text import nbytes_of

        limit = nbytes_of(nbytes)
        found = [one for one in self.points if one.needed_nbytes <= limit]
        if not found:
            least = self.points[-1].needed_nbytes
            raise MemoryLimitError(
                f"no plan of {self.name} needs at most {limit:,} bytes ({in_bytes(limit)}): the "
                f"least that was found is {least:,} ({in_bytes(least)})",
                hint=f"memory={least} is enough",
            )
        return found[0]

    def json(self) -> dict[str, Any]:
        """The points as dicts that `json.dumps` takes."""
        return {
            "graph": self.name,
            "executor": self.executor,
            "points": [
                {
                    "needed_nbytes": one.needed_nbytes,
                    "nanoseconds": one.nanoseconds,
                    "extra": one.extra,
                    "is_measured": one.is_measured,
                    "margin": one.margin,
                    "extra_flops": one.extra_flops,
                    "again": list(one.again),
                    "in_loops": one.in_loops,
                    "repeats": [repeat.json() for repeat in one.repeats],
                }
                for one in self.points
            ],
        }

    @property
    def times(self) -> str:
        """How times were found, in a word."""
        return "measured" if any(one.is_measured for one in self.points) else "predicted"

    @property
    def highest(self) -> float:
        """The most extra time that a picture has room for: that of the points, but not of a last
        one that saves next to nothing and takes more than twice as long."""
        *_, before, last = (self.points[0], *self.points)
        worth = (self.points[0].needed_nbytes - last.needed_nbytes) / PARTS
        is_steep = before.needed_nbytes - last.needed_nbytes < worth
        if is_steep and last.extra > 2 * before.extra > 0:
            return before.extra
        return last.extra

    def svg(self) -> str:
        """The curve of predicted time by bytes."""
        from chainrule.explain.memory.tradeoff_picture import tradeoff_picture

        return tradeoff_picture(self)

    @entry
    def save(self, path: str | Path) -> None:
        """Write the picture to a file, whose name ends in .svg."""
        from chainrule.explain.writing import write_svg

        write_svg(Path(path), self.svg(), "plot")

    def __str__(self) -> str:
        rows = [("needed", "of all", "more time", "operations again", "computed again")]
        most = self.points[0].needed_nbytes
        for one in self.points:
            names = [*one.words[:SHOWN], *(["…"] if len(one.words) > SHOWN else [])]
            rows.append(
                (
                    f"{one.needed_nbytes:,}",
                    f"{one.needed_nbytes / most:.1%}",
                    f"{one.extra:.1%}{_plus_minus(one)}",
                    f"{one.extra_flops:,}",
                    ", ".join(names) or "-",
                )
            )
        widths = [max(len(row[place]) for row in rows) for place in range(4)]
        lines = [
            "  ".join(
                [*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[4]]
            )
            for row in rows
        ]
        measured = "measured " if self.times == "measured" else ""
        title = f"memory against {measured}time of {self.name}, by {self.executor}"
        if any(one.margin for one in self.points):
            lines.append(MEASURE)
        return "\n".join([title, *lines])

    def _repr_svg_(self) -> str:
        return self.svg()


def tradeoff_of(
    report: MemoryReport, speeds: Speeds | None = None, measure: Measure = False
) -> Tradeoff:
    """The plans for less and less memory than a report needs, each planned by its executor.

    `speeds` are of the machine whose times are told: by default this one, calibrated once.
    With `measure`, as for `TrainingStep.tradeoff`, those worth choosing by these times are run.
    InputError for an executor that cannot compute values again.
    """
    speeds = checked_speeds(speeds)
    base = report.executor
    refuse_without_budgets(base)
    points: list[Point] = []
    try:
        report.again(executor_with(base, memory=1), report.sizes)
    except MemoryLimitError as error:
        least = error.needed_nbytes or report.needed_nbytes
    else:
        least = 1
    part = max((report.needed_nbytes - least) // PARTS, 1)
    nbytes = report.needed_nbytes
    while True:
        try:
            now = report.again(executor_with(base, memory=nbytes), report.sizes)
        except MemoryLimitError:
            break
        points.append(_point(now, points, speeds))
        if nbytes <= least or now.needed_nbytes <= least:
            break
        nbytes = max(now.needed_nbytes - part, least)
    points = worth_choosing(points)
    if measure is not False:
        points = worth_choosing(_measured(points, measure))
    return Tradeoff(report.graph.name, base, tuple(points))


def _measured(points: Sequence[Point], measure: Measure) -> list[Point]:
    """The points with the times of runs."""
    from chainrule.explain.cost.measured_runs import timed  # loaded where it is asked for

    found = timed([one.report.run(measure) for one in points], [one.nanoseconds for one in points])
    first = found[0].nanoseconds
    return [
        replace(
            point,
            nanoseconds=one.nanoseconds,
            extra=one.nanoseconds / first - 1,
            is_measured=one.is_measured,
            margin=0.0 if one.is_measured else point.margin,
        )
        for point, one in zip(points, found, strict=True)
    ]


def _plus_minus(one: Point) -> str:
    """How far the extra time may be off, in the same percents."""
    return f" ± {(1 + one.extra) * one.margin:.0%}" if one.margin else ""


def refuse_without_budgets(executor: str) -> None:
    """InputError for the name of an executor that cannot compute values again, or has to compile
    each plan to know what it needs."""
    if executor_of(executor).traits.compiles_to_count:
        raise InputError(
            f"the executor {executor!r} compiles each plan to know what it needs, which takes too "
            "long for all that there are between most bytes and least",
            hint='executor="native" weighs them; memory= takes one budget',
        )
    if getattr(executor_of(executor), "within", None) is None:
        raise InputError(
            f"the executor {executor!r} cannot compute values again, so there is nothing to weigh",
            hint='executor="native" or "reference"',
        )


def worth_choosing(points: Sequence[Point]) -> list[Point]:
    """The first and the last point, and those between that no later one is as quick as.

    Points come with fewer and fewer bytes.
    """
    kept = list(points[-1:])
    for one in reversed(points[1:-1]):
        if kept[-1].nanoseconds >= one.nanoseconds * SLOWER:
            kept.append(one)
    return [*points[: len(points) > 1], *reversed(kept)]


def _point(report: MemoryReport, before: list[Point], speeds: Speeds | None) -> Point:
    run = report.main
    nanoseconds = report.nanoseconds(speeds)
    first = before[0] if before else None
    names = run.graph.name_of
    again = [names[node] for node, lives in run.lives_of.items() if lives[1:] and node in names]
    flops = 0
    done = set[Any]()
    for one in run.usage.schedule.instructions:
        if isinstance(one, Compute):
            if one.nodes in done:
                flops += sum(int(node.primitive.flops(node)) for node in (*one.nodes, *one.inner))
            done.add(one.nodes)
    extra = nanoseconds / first.nanoseconds - 1 if first and first.nanoseconds else 0.0
    in_loops = first is not None and len(run.graph.nodes) != len(first.report.main.graph.nodes)
    plain = first.nanoseconds if first else nanoseconds
    return Point(
        report.needed_nbytes,
        nanoseconds,
        extra,
        flops,
        tuple(again),
        in_loops,
        report,
        speeds,
        margin=margin(report.executor, nanoseconds, plain, is_whole=True),
    )
