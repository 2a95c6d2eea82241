"""Tabulates a run: as plain text, as HTML, and for rich."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.explain.values.statistics import statistics_of
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.execute import Run

HEAD = ("name", "type", "min", "max", "mean", "norm", "not finite")
NUMBERS = range(2, 6)  # the columns that are flush right
ROWS = 60
Row = tuple[str, ...]


def rows_of(run: Run, rows: int | None = ROWS) -> tuple[list[Row], int]:
    """A row for each kept value, at most `rows`, and how many were left out."""
    names = list(run)
    shown = names if rows is None else names[:rows]
    return [_row(name, run[name]) for name in shown], len(names) - len(shown)


def _row(name: str, array: np.ndarray) -> Row:
    found = statistics_of(array)
    numbers = (found.least, found.greatest, found.mean, found.norm)
    wrong = [f"{found.nan:,} NaN"] if found.nan else []
    wrong += [f"{found.infinite:,} inf"] if found.infinite else []
    type_ = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
    return printable(name), type_, *map(_number, numbers), ", ".join(wrong)


def _head(rows: list[Row]) -> Row:
    """The titles; the column of what is not finite is there only where something is."""
    return HEAD if any(row[-1] for row in rows) else HEAD[:-1]


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def _more(left_out: int) -> str:
    return f"and {left_out:,} more values: run[name]" if left_out else ""


def plain(run: Run, rows: int | None = ROWS) -> str:
    """The table as text in columns."""
    found, left_out = rows_of(run, rows)
    head = _head(found)
    table = [head, *(row[: len(head)] for row in found)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = [f"run of {printable(run.graph.name)}"]
    for row in table:
        cells = [
            cell.rjust(width) if i in NUMBERS else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines + ([f"  {_more(left_out)}"] if left_out else []))


def html(run: Run, rows: int | None = ROWS) -> str:
    """The table for a notebook."""
    found, left_out = rows_of(run, rows)
    head = _head(found)

    def line(row: Row, tag: str) -> str:
        sides = ["right" if i in NUMBERS else "left" for i in range(len(head))]
        cells = zip(row[: len(head)], sides, strict=True)
        return "".join(f'<{tag} align="{side}">{escape(cell)}</{tag}>' for cell, side in cells)

    body = "".join(f"<tr>{line(row, 'td')}</tr>\n" for row in found)
    note = f"<p>{_more(left_out)}</p>\n" if left_out else ""
    return (
        f"<table>\n<caption>run of {escape(printable(run.graph.name))}</caption>\n"
        f"<thead><tr>{line(head, 'th')}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{note}"
    )


def rich_table(run: Run, rows: int | None = ROWS) -> Any:
    """The table as rich shows it; names are text, whatever markup they hold."""
    from rich.table import Table
    from rich.text import Text

    found, left_out = rows_of(run, rows)
    head = _head(found)
    table = Table(title=Text(f"run of {printable(run.graph.name)}"), title_justify="left")
    for i, words in enumerate(head):
        table.add_column(words, justify="right" if i in NUMBERS else "left", no_wrap=i > 0)
    for row in found:
        table.add_row(*map(Text, row[: len(head)]), style="red" if row[-1] else None)
    if left_out:
        table.caption = Text(_more(left_out))
    return table
