"""Writes a memory report as HTML, which loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from chainrule.explain.image import image_of
from chainrule.explain.memory.picture import picture
from chainrule.explain.memory.table import (
    NUMBERS,
    ROWS,
    VALUES,
    Row,
    notes,
    part_rows,
    picture_title,
    runs,
    settings_rows,
    value_rows,
)
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport

STYLE = """
.chainrule-memory { font: 14px/1.45 system-ui, sans-serif; max-width: 1100px; }
.chainrule-memory h2 { font-size: 18px; margin: 0 0 8px; }
.chainrule-memory .scroll { overflow-x: auto; }
.chainrule-memory table { border-collapse: collapse; margin: 12px 0; }
.chainrule-memory caption { text-align: left; font-weight: 600; padding: 4px 0; }
.chainrule-memory th, .chainrule-memory td {
  padding: 2px 16px 2px 0; text-align: left; vertical-align: top; background: none;
  white-space: nowrap; }
.chainrule-memory tbody td:last-child { white-space: normal; }
.chainrule-memory thead th { border-bottom: 1px solid currentColor; }
.chainrule-memory tbody th { font-weight: 400; }
.chainrule-memory .number { text-align: right; font-variant-numeric: tabular-nums; }
.chainrule-memory .peak > * { border-top: 1px solid currentColor; font-weight: 600; }
.chainrule-memory img { max-width: 100%; background: #ffffff; }
"""


def page(report: MemoryReport, rows: int | None = ROWS) -> str:
    """The report as a whole HTML document."""
    title = f"memory of {printable(report.graph.name)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n</head>\n"
        f"<body>\n{section(report, rows)}</body>\n</html>\n"
    )


def section(report: MemoryReport, rows: int | None = ROWS) -> str:
    """The report as a part of a page, with a style of its own."""
    values, left_out = value_rows(report, rows)
    parts = _table(
        "Bytes at the peak",
        ("", *runs(report)),
        part_rows(report),
        range(1, len(runs(report)) + 1),
        strong="peak",
    )
    table = _table("Values", VALUES, values, NUMBERS) if values else ""
    settings = "; ".join(f"{escape(what)} {escape(value)}" for what, value in settings_rows(report))
    lines = [
        *notes(report),
        *([f"{left_out}: report.html(rows=None) shows all"] if left_out else []),
    ]
    return (
        f'<div class="chainrule-memory">\n<style>{STYLE}</style>\n'
        f"<h2>memory of {escape(printable(report.graph.name))}</h2>\n<p>{settings}</p>\n"
        f"{parts}{_image(report)}{table}"
        + "".join(f"<p>{escape(line)}</p>\n" for line in lines)
        + "</div>\n"
    )


def _image(report: MemoryReport) -> str:
    """The timeline as an image: notebooks that trust nobody drop SVG elements, and keep these."""
    name, run = next(iter(runs(report).items()))
    svg = picture(run, picture_title(report, name))
    words = f"Bytes in use by instruction, {name}: at most {run.peak_nbytes:,} bytes"
    return f"<p>{image_of(svg, words)}</p>\n"


def _table(
    caption: str, head: Row, rows: Sequence[Row], right: Iterable[int], strong: str = ""
) -> str:
    flush = set(right)

    def cell(column: int, words: str) -> str:
        tag, scope = ("th", ' scope="row"') if column == 0 else ("td", "")
        return f"<{tag}{scope}{number(column)}>{escape(words)}</{tag}>"

    def number(column: int) -> str:
        return ' class="number"' if column in flush else ""

    titles = "".join(
        f'<th scope="col"{number(column)}>{escape(words)}</th>' for column, words in enumerate(head)
    )
    lines = "".join(
        ('<tr class="peak">' if row[0] == strong else "<tr>")
        + "".join(cell(column, words) for column, words in enumerate(row))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{titles}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    )
