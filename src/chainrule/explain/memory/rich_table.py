"""Prints a memory report with rich; only this file imports rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from chainrule.explain.memory.table import (
    NUMBERS,
    ROWS,
    VALUES,
    Row,
    notes,
    part_rows,
    runs,
    settings_rows,
    value_rows,
)
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport


def rich_text(report: MemoryReport, rows: int | None = ROWS) -> Group:
    """The report as rich shows it; names are text, whatever markup they hold."""
    values, left_out = value_rows(report, rows)
    parts = _table(("bytes at the peak", *runs(report)), part_rows(report), (1, 2), "peak")
    lines = [*notes(report), *([f"{left_out}: report.table(rows=None)"] if left_out else [])]
    return Group(
        Text(f"memory of {printable(report.graph.name)}", style="bold"),
        *(Text(f"  {what:<10}{value}") for what, value in settings_rows(report)),
        parts,
        *([_table(VALUES, values, NUMBERS)] if values else []),
        *(Text(line) for line in lines),
    )


def _table(head: Row, rows: Sequence[Row], right: Iterable[int], strong: str = "") -> Table:
    flush, table = set(right), Table()
    for column, words in enumerate(head):
        table.add_column(
            Text(words),
            justify="right" if column in flush else "left",
            no_wrap=column in flush,
        )
    for row in rows:
        table.add_row(*map(Text, row), style="bold" if row[0] == strong else None)
    return table
