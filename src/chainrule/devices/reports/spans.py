"""When each rank does what: the records of a timeline, predicted or measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainrule.dataclass import dataclass, field
from chainrule.devices.grid import Grid
from chainrule.devices.pieces import PASSES
from chainrule.errors import InputError
from chainrule.explain.image import image_of
from chainrule.explain.writing import write_beside, write_svg
from chainrule.graph.frozen import NotPickled
from chainrule.graph.in_notebooks import ShownByText

FORWARD, RECOMPUTE = "forward", "recompute"
BACKWARD, GRADIENTS, UPDATE = "backward", "gradients", "update"
ADDING, GATHERING, WAITING = "adding up", "gathering", "waiting"
DOING = (FORWARD, RECOMPUTE, BACKWARD, GRADIENTS, PASSES, UPDATE, ADDING, GATHERING, WAITING)


@dataclass(frozen=True)
class Span:
    """What a rank does from `start` to `end`, in seconds since the step began: `doing` is one of
    DOING, `instruction` the one of its program, from 0, and `nbytes` the most bytes it has then.

    Of one program on all ranks, as it was measured, `instruction` is the first of the rank's
    operations in the span, and `nbytes` what the compiler says that the program needs."""

    doing: str
    micro_batch: int | None
    start: float
    end: float
    instruction: int
    nbytes: int

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Operation:
    """An operation that a rank was seen to do as part of one program on all of them, in seconds
    since the first of all began: for the value `name`, in the pass over a micro-batch `doing` says
    what.  What the compiler has fused is one operation, for its last value; `name` is empty for a
    value without a name."""

    rank: int
    name: str
    doing: str
    micro_batch: int | None
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Message:
    """A value on its way from a rank to another one, in seconds since the step began."""

    name: str
    micro_batch: int | None
    nbytes: int
    sender: int
    to: int
    start: float
    end: float


@dataclass(frozen=True)
class Exchange:
    """Gradients that the helper of a rank adds up with other ranks, while the rank goes on: from
    when all had begun, in seconds since the step began.

    `waited` are the seconds of these in which the rank did nothing but wait for the sums.
    """

    rank: int
    nbytes: int
    start: float
    end: float
    waited: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class ParallelTimeline(NotPickled, ShownByText):
    """When each rank of a split step does what: `ranks[r]` are the spans of rank r in order.

    `is_measured` says whether they were measured in a step, or are predicted.  `lower_bound` is
    proved for the predicted times: no order of the same pieces takes less; None where nothing is.
    `starting` are the seconds of a step before and after it: to cut the batch, to start ranks, to
    let go of what they had.
    """

    _called = "a timeline"
    _instead = "json.dumps(timeline.json()) holds its numbers"

    title: str
    stages: int
    is_measured: bool
    ranks: tuple[tuple[Span, ...], ...] = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    lower_bound: float | None = None
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False)
    ways: int = 1
    starting: float = 0.0

    @property
    def grid(self) -> Grid:
        """How the ranks are numbered."""
        return Grid(self.stages, len(self.ranks) // (self.stages * self.ways), self.ways)

    @property
    def hidden(self) -> float | None:
        """The part of the time of exchanges in which ranks did something else; None without any."""
        whole = sum(one.seconds for one in self.exchanges)
        return 1 - sum(one.waited for one in self.exchanges) / whole if whole else None

    @property
    def seconds(self) -> float:
        """From the start of the first rank to the end of the last one."""
        return max((spans[-1].end for spans in self.ranks if spans), default=0.0)

    @property
    def step_seconds(self) -> float:
        """From the call of the step to the end of the last rank."""
        return self.starting + self.seconds

    @property
    def busy(self) -> tuple[float, ...]:
        """The seconds in which each rank does something; adding up counts, waiting does not."""
        return tuple(
            sum(one.seconds for one in spans if one.doing != WAITING) for spans in self.ranks
        )

    @property
    def waiting(self) -> tuple[float, ...]:
        """The seconds of each rank in which it does nothing, to the end of the step."""
        return tuple(self.seconds - one for one in self.busy)

    @property
    def bubble(self) -> float:
        """The part of the time in which the busiest rank waits."""
        return 1 - max(self.busy) / self.seconds if self.seconds else 0.0

    def json(self) -> dict[str, Any]:
        """The timeline in dicts, lists, strings and numbers alone."""
        return {
            "schema": "chainrule.parallel-timeline/1",
            "title": self.title,
            "measured": self.is_measured,
            "stages": self.stages,
            "ways": self.ways,
            "seconds": self.seconds,
            "step_seconds": self.step_seconds,
            "bubble": self.bubble,
            "lower_bound": self.lower_bound,
            "ranks": [[vars(span) for span in spans] for spans in self.ranks],
            "messages": [vars(one) for one in self.messages],
            "exchanges": [vars(one) for one in self.exchanges],
            "hidden": self.hidden,
        }

    def trace_json(self) -> dict[str, Any]:
        """As Chrome and Perfetto (ui.perfetto.dev) read it."""
        from chainrule.devices.reports.trace_events import events_of

        return events_of([self])

    def svg(self, *, width: int = 960) -> str:
        """A picture: a lane for each rank, messages as arrows, bytes below each lane.

        `width` is in pixels; InputError below 320.
        """
        from chainrule.devices.reports.picture import picture

        return picture(self, width)

    def save(self, path: str | Path) -> None:
        """Write it to a file: .svg is the picture, .json the trace for Chrome and Perfetto.

        InputError for another ending, and where the file cannot be written.
        """
        save_timelines([self], Path(path))

    def __str__(self) -> str:
        from chainrule.devices.reports.timeline_text import text

        return text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.svg()
        html = image_of(svg, self.title, "max-width:100%")
        return {"text/html": html, "image/svg+xml": svg, "text/plain": str(self)}


def save_timelines(
    timelines: Sequence[ParallelTimeline], path: Path, operations: Sequence[Operation] = ()
) -> None:
    """The first as a picture, or all of them in one trace, with the operations of the first."""

    from chainrule.devices.reports.trace_events import events_of

    match path.suffix.lower():
        case ".svg":
            write_svg(path, timelines[0].svg(), "timeline")
        case ".json":
            write_beside(path, json.dumps(events_of(timelines, operations), indent=1).encode())
        case _:
            raise InputError(
                f"a timeline cannot be written to {path}",
                hint=f"{path.stem or 'step'}.svg, a picture, or {path.stem or 'step'}.json, a "
                "trace for Perfetto",
            )


@dataclass(frozen=True, eq=False)
class StepTrace(NotPickled, ShownByText):
    """A step that was taken, and what was measured in it: `objective` is what the step gives,
    `measured` when its ranks did what, `predicted` when they were to.  Of one program on all ranks,
    `operations` are what each did, rank by rank."""

    _called = "the trace of a step"

    objective: Any
    measured: ParallelTimeline
    predicted: ParallelTimeline
    operations: tuple[Operation, ...] = field(default=(), repr=False)

    def trace_json(self) -> dict[str, Any]:
        """Both side by side, as Chrome and Perfetto (ui.perfetto.dev) read it."""
        from chainrule.devices.reports.trace_events import events_of

        return events_of([self.measured, self.predicted], self.operations)

    def save(self, path: str | Path) -> None:
        """Write it to a file: .svg is the picture of what was measured, .json both as a trace for
        Chrome and Perfetto.  InputError for another ending."""
        save_timelines([self.measured, self.predicted], Path(path), self.operations)

    def __str__(self) -> str:
        from chainrule.devices.reports.timeline_text import longest

        return "\n\n".join(map(str, [self.measured, *longest(self.operations), self.predicted]))
