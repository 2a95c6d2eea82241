"""`report`: a graph or a training step, with the values of one run, as one page for a browser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.execute import Run
from chainrule.execute.run import Keep
from chainrule.explain.reading.symbols import Indices
from chainrule.explain.report.advice import Advice
from chainrule.explain.report.curves import History
from chainrule.explain.report.data import report_data
from chainrule.explain.report.html import page_html
from chainrule.explain.writing import write_beside
from chainrule.graph.graph import Graph
from chainrule.graph.words import printable
from chainrule.tracebacks import entry

if TYPE_CHECKING:
    from chainrule.explain.report.subject import SplitStep
    from chainrule.train.step.state import State
    from chainrule.train.step.step import TrainingStep

SUFFIXES = (".html", ".htm")


@dataclass(frozen=True, eq=False)
class Report:
    """What `report` found, as data (`chainrule.report/1`) and as a page.

    `path` is where the page was written, None where it was not.
    """

    data: Mapping[str, Any]
    path: Path | None = None

    def html(self) -> str:
        """The page: one HTML file, which loads nothing from elsewhere; the same each time."""
        return page_html(self.data)

    @entry
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which is there as a whole or not at all.

        InputError for an ending other than .html and for a path that cannot be written.
        """
        write_beside(checked_path(path), self.html().encode())

    def __str__(self) -> str:
        facts = [(str(label), str(text)) for label, text in self.data["facts"]]
        width = max((len(label) for label, _ in facts), default=0)
        rows = [f"  {label:{width}}  {text}" for label, text in facts]
        return printable(self.data["title"]) + "".join(
            f"\n{row.rstrip()}" for row in [f"  {printable(self.data['subtitle'])}", *rows]
        )

    def __repr__(self) -> str:
        return f"<Report: {printable(self.data['title'])}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """For notebooks: the facts, and where the page is; the page itself is too large for one."""
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(str(label))}</th>'
            f'<td style="text-align:left">{escape(str(text))}</td></tr>'
            for label, text in self.data["facts"]
        )
        html = (
            f"<p><strong>{escape(printable(self.data['title']))}</strong><br>"
            f"{escape(printable(self.data['subtitle']))}</p><table>{rows}</table>"
            f"<p>{escape(self._place())}</p>"
        )
        return {"text/html": html, "text/plain": f"{self}\n{self._place()}"}

    def _place(self) -> str:
        if self.path is None:
            return 'Not written yet: report.save("report.html"), then open it in a browser.'
        return f"Open {printable(str(self.path))} in a browser."


@entry
def report(
    what: Graph | TrainingStep | Run | SplitStep,
    inputs: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    state: State | Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    executor: str | None = None,
    keep: Keep = "outputs",
    history: History | None = None,
    title: str | None = None,
    indices: Indices = "subscript",
    symbols: Mapping[str, str] | None = None,
    tradeoff: bool = False,
    advice: Advice | Iterable[Advice] = (),
) -> Report:
    """The page that walks through a graph or a training step, value by value.

    `cr.report(step, inputs={"x": x, ...}, path="report.html")` runs it once on `inputs`, and
    writes the page to `path` (default: nowhere; `report.save` does).  A training step takes its
    arrays from `state`, or from `inputs`.  Without them the page has no values, and its memory
    view needs `sizes`, the named sizes.  Instead of a graph and inputs it can be a run.  A step
    that is split over ranks (`cr.parallel`) has their timeline and bytes beside.

    `history` is what a training wrote down, and becomes curves: a JSON Lines file, or dicts, each
    with "step" and numbers by name.  The steps and the memory are those of `executor` (default:
    that of the training step; of a graph or a run the reference, which goes forward and then
    backward; with "native" the steps come in the order of its plan).  The values are those of the
    reference executor.  `keep` is as for `Graph.memory`, `indices` and `symbols` are as
    for equations.  With `tradeoff`, the page has a slider over budgets of memory, which shows what
    is computed again within each; planning them takes a second or so, of thousands of nodes more.
    `advice` is what `cr.ways` or `cr.batch_study` gave, or several of these: their pictures and
    tables.

    InputError for an argument that cannot be used, before anything is run or written.
    """
    if indices not in get_args(Indices):
        choices = ", ".join(map(repr, get_args(Indices)))
        raise InputError(f"indices={indices!r} is not one of {choices}", hint=f"one of {choices}")
    place = None if path is None else checked_path(path)
    data = report_data(
        what,
        inputs,
        state=state,
        sizes=sizes,
        executor=executor,
        keep=keep,
        history=history,
        title=title,
        indices=indices,
        symbols=symbols,
        tradeoff=tradeoff,
        advice=advice,
    )
    made = Report(data, place)
    if place is not None:
        made.save(place)
    return made


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of a page that can be written there; InputError for another one."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(
            f"a report is written to a path, got {type(path).__name__}",
            hint='path="report.html"',
        )
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"a report cannot be written as {place.suffix or 'a file without an ending'}, "
            f"asked for by {printable(str(path))}",
            hint=f"a file whose name ends in .html: {printable(place.stem or 'report')}.html",
        )
    if place.is_dir() or not os.access(place.parent, os.W_OK):
        raise InputError(
            f"cannot write to {printable(str(place))}: "
            + ("it is a folder" if place.is_dir() else _why_not(place.parent)),
            hint="a path in a folder that exists and that you may write to",
        )
    return place


def _why_not(folder: Path) -> str:
    if folder.is_dir():
        return f"the folder {printable(str(folder))} may not be written to"
    return f"there is no folder {printable(str(folder))}"
