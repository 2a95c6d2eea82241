"""Prints a cost with rich; only this file imports rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from chainrule.explain.cost.table import (
    NOTE,
    ROWS,
    Row,
    left_out_words,
    phase_rows,
    title,
    value_rows,
)

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost


def rich_text(cost: Cost, rows: int | None = ROWS) -> Group:
    """The cost as rich shows it; names are text, whatever markup they hold."""
    lines = [one for one in (left_out_words(cost, rows), NOTE) if one]
    return Group(
        Text(title(cost), style="bold"),
        _table(phase_rows(cost), 1, wraps=bool(cost.names)),
        _table(value_rows(cost, rows), 3, wraps=bool(cost.names)),
        *map(Text, lines),
    )


def _table(rows: Sequence[Row], words: int, *, wraps: bool) -> Table:
    """The first row is the head; columns after the first `words` are numbers, or polynomials,
    which may go over several lines."""
    table = Table()
    for column, head in enumerate(rows[0]):
        is_number = column >= words
        table.add_column(
            Text(head),
            justify="right" if is_number else "left",
            no_wrap=column == 0 or (is_number and not wraps),
        )
    for row in rows[1:]:
        table.add_row(*map(Text, row), style="bold" if row[0] == "total" else None)
    return table
