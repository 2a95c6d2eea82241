"""Shows a table with notes, as text and as HTML that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import inf, isnan

from chainrule.dataclass import dataclass
from chainrule.graph.columns import in_columns
from chainrule.graph.words import printable

Row = tuple[str, ...]
STYLE = """
.chainrule-advice { font: 14px/1.45 system-ui, sans-serif; max-width: 1100px; }
.chainrule-advice h2 { font-size: 18px; margin: 0 0 8px; }
.chainrule-advice .scroll { overflow-x: auto; }
.chainrule-advice table { border-collapse: collapse; margin: 12px 0; }
.chainrule-advice th, .chainrule-advice td {
  padding: 2px 16px 2px 0; text-align: left; vertical-align: top; background: none;
  white-space: nowrap; }
.chainrule-advice thead th { border-bottom: 1px solid currentColor; }
.chainrule-advice tbody th { font-weight: 400; }
.chainrule-advice .number { text-align: right; font-variant-numeric: tabular-nums; }
.chainrule-advice .chosen > * { font-weight: 600; }
.chainrule-advice svg { max-width: 100%; height: auto; }
"""


@dataclass(frozen=True)
class Table:
    """A title, columns of which some have numbers, rows, and sentences below them.

    `chosen` is the place of a row that is marked, if there is one.
    """

    title: str
    head: Row
    rows: Sequence[Row]
    numbers: frozenset[int]
    notes: Sequence[str] = ()
    chosen: int | None = None

    def text(self) -> str:
        """Columns of equal width."""
        rows = [self.head, *(tuple(map(printable, row)) for row in self.rows)]
        shown = in_columns(rows, self.numbers)
        if self.chosen is not None:
            shown = [
                f"{'>' if place == self.chosen + 1 else ' '} {one}"
                for place, one in enumerate(shown)
            ]
        notes = ["", *map(printable, self.notes)] if self.notes else []
        return "\n".join([printable(self.title), "", *shown, *notes])

    def html(self, below: str = "") -> str:
        """A part of a page, with a style of its own; `below` is HTML that follows."""

        def cell(row: Row, place: int, tag: str) -> str:
            scope = "" if tag == "td" else ' scope="col"' if row is self.head else ' scope="row"'
            number = ' class="number"' if place in self.numbers else ""
            return f"<{tag}{scope}{number}>{escape(printable(row[place]))}</{tag}>"

        places = range(len(self.head))
        head = "".join(cell(self.head, place, "th") for place in places)
        body = "".join(
            f"<tr{' class=chosen' if number == self.chosen else ''}>"
            + "".join(cell(row, place, "th" if not place else "td") for place in places)
            + "</tr>\n"
            for number, row in enumerate(self.rows)
        )
        notes = "".join(f"<p>{escape(printable(one))}</p>\n" for one in self.notes)
        return (
            f'<div class="chainrule-advice">\n<style>{STYLE}</style>\n'
            f"<h2>{escape(printable(self.title))}</h2>\n"
            f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}'
            f"</tbody>\n</table></div>\n{notes}{below}</div>\n"
        )


def number(value: float, digits: int = 3) -> str:
    """A number for a table."""
    if isnan(value):
        return "-"
    if value in (inf, -inf):
        return "∞"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, times in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * times >= 1 or unit == "us":
            return f"{seconds * times:.3g} {unit}"
    return ""
