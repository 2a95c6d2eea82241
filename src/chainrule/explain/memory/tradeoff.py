"""What less memory costs in time: the plans from no value computed again to the least bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.executors import executor_of, executor_with
from chainrule.graph.bytes_text import in_bytes
from chainrule.schedule.records import Compute
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

MOST = 64  # points
SHOWN = 6  # names of a row


@dataclass(frozen=True)
class Point:
    """One plan: `needed_nbytes` is the `memory=` for which it is chosen.

    `nanoseconds` is about what a run takes, `extra` how much longer that is than without a budget,
    as a fraction; `extra_flops` are the operations done again.  `again` names the values that are
    computed again.  `report` is the memory report of the plan.
    """

    needed_nbytes: int
    nanoseconds: float
    extra: float
    extra_flops: int
    again: tuple[str, ...]
    report: MemoryReport


@dataclass(frozen=True)
class Tradeoff:
    """Bytes against time: `points` from no value computed again to the least bytes.

    `print` shows a table; `svg()` is a picture, `json()` the numbers.
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
        """The quickest plan within so many bytes.  MemoryLimitError where there is none."""
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
                    "extra_flops": one.extra_flops,
                    "again": list(one.again),
                }
                for one in self.points
            ],
        }

    def svg(self) -> str:
        """The curve of predicted time by bytes."""
        from chainrule.explain.memory.tradeoff_picture import tradeoff_picture

        return tradeoff_picture(self)

    @entry
    def save(self, path: str | Path) -> None:
        """Write the picture to a file, whose name ends in .svg."""
        from chainrule.explain.memory.picture import save

        save(self.svg(), Path(path))

    def __str__(self) -> str:
        rows = [("needed", "of all", "more time", "operations again", "computed again")]
        most = self.points[0].needed_nbytes
        for one in self.points:
            names = [*one.again[:SHOWN], *(["…"] if len(one.again) > SHOWN else [])]
            rows.append(
                (
                    f"{one.needed_nbytes:,}",
                    f"{one.needed_nbytes / most:.1%}",
                    f"{one.extra:.1%}",
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
        return "\n".join([f"memory against time of {self.name}, by {self.executor}", *lines])

    def _repr_svg_(self) -> str:
        return self.svg()


def tradeoff_of(report: MemoryReport) -> Tradeoff:
    """The plans for less and less memory than a report needs, each planned by its executor.

    InputError for an executor that cannot compute values again.
    """
    base = report.executor
    if getattr(executor_of(base), "within", None) is None:
        raise InputError(
            f"the executor {base!r} cannot compute values again, so there is nothing to weigh",
            hint='executor="native" or "reference"',
        )
    points: list[Point] = []
    nbytes = report.needed_nbytes
    while len(points) < MOST:
        try:
            now = report.again(executor_with(base, memory=nbytes), report.sizes)
        except MemoryLimitError:
            break
        points.append(_point(now, points))
        nbytes = now.needed_nbytes - 1
    return Tradeoff(report.graph.name, base, tuple(points))


def _point(report: MemoryReport, before: list[Point]) -> Point:
    run = report.main
    nanoseconds = float(getattr(run.program, "nanoseconds", 0.0))
    first = before[0].nanoseconds if before else nanoseconds
    names = run.graph.name_of
    again = [names[node] for node, lives in run.lives_of.items() if lives[1:] and node in names]
    flops = 0
    done = set[Any]()
    for one in run.usage.schedule.instructions:
        if isinstance(one, Compute):
            if one.nodes in done:
                flops += sum(int(node.primitive.flops(node)) for node in (*one.nodes, *one.inner))
            done.add(one.nodes)
    extra = nanoseconds / first - 1 if first else 0.0
    return Point(report.needed_nbytes, nanoseconds, extra, flops, tuple(again), report)
