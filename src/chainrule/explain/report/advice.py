"""What `cr.ways` and `cr.batch_study` found, as the data of a page: a table and its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from chainrule.errors import InputError
from chainrule.explain.plot import Plot
from chainrule.explain.report.plain import text


class Table(Protocol):
    """Columns with a head, of which `numbers` are numbers; `chosen` is a row that is marked."""

    @property
    def title(self) -> str: ...
    @property
    def head(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[str]]: ...
    @property
    def numbers(self) -> frozenset[int]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def chosen(self) -> int | None: ...


@runtime_checkable
class Advice(Protocol):
    """What has a table and pictures about a training step."""

    @property
    def table(self) -> Table: ...
    @property
    def plots(self) -> Sequence[Plot]: ...


def checked_advice(given: Advice | Iterable[Advice]) -> list[Advice]:
    """One or several; InputError for anything else."""
    found = [given] if isinstance(given, Advice) or not isinstance(given, Iterable) else [*given]
    for one in found:
        if isinstance(one, type) or not isinstance(one, Advice):
            raise InputError(
                f"advice= has {type(one).__name__}, which has no table and no pictures",
                hint="what cr.ways or cr.batch_study gave, or a list of them",
            )
    return found


def advice_data(found: Iterable[Advice]) -> list[dict[str, Any]]:
    """The `advice` of a page."""
    return [
        {
            "title": text(one.table.title),
            "head": list(map(text, one.table.head)),
            "rows": [list(map(text, row)) for row in one.table.rows],
            "numbers": sorted(one.table.numbers),
            "chosen": one.table.chosen,
            "notes": list(map(text, one.table.notes)),
            "pictures": [
                {"svg": plot.svg(), "words": text(f"{plot.title}. {plot.description}")}
                for plot in one.plots
            ],
        }
        for one in found
    ]
