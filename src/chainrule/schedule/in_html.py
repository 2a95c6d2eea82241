"""Writes the instructions of a plan as a table in HTML, for notebooks; it loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

MOST_ROWS = 200  # instructions
STYLE = """
.chainrule-plan { font: 14px/1.45 system-ui, sans-serif; max-width: 1100px; }
.chainrule-plan .scroll { overflow-x: auto; }
.chainrule-plan table { border-collapse: collapse; margin: 8px 0; }
.chainrule-plan caption { text-align: left; font-weight: 600; padding: 4px 0; }
.chainrule-plan th, .chainrule-plan td {
  padding: 2px 16px 2px 0; text-align: left; vertical-align: top; background: none; }
.chainrule-plan thead th { border-bottom: 1px solid currentColor; }
.chainrule-plan tbody th { font-weight: 400; }
.chainrule-plan .number {
  text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chainrule-plan small { display: block; opacity: 0.8; font-size: 12px; }
"""
Instruction = tuple[Sequence[str], Sequence[str]]  # cells, and the lines below the second one


def table(
    title: str, head: Sequence[str], instructions: Iterable[Instruction], summary: str
) -> str:
    """One row for each instruction; the column `bytes` and the first are numbers."""
    rows = iter(instructions)
    shown = list(islice(rows, MOST_ROWS))
    rest = sum(1 for _ in rows)
    numbers = {0, *(place for place, words in enumerate(head) if words == "bytes")}

    def cell(tag: str, place: int, words: str, notes: Sequence[str] = ()) -> str:
        kind = ' class="number"' if place in numbers else ""
        below = "".join(f"<small>{escape(note)}</small>" for note in notes)
        return f"<{tag}{kind}>{escape(words)}{below}</{tag.split()[0]}>"

    titles = "".join(cell('th scope="col"', place, words) for place, words in enumerate(head))
    lines = "".join(
        "<tr>"
        + cell('th scope="row"', 0, cells[0])
        + "".join(
            cell("td", place, words, notes if place == 1 else ())
            for place, words in enumerate(cells[1:], 1)
        )
        + "</tr>\n"
        for cells, notes in shown
    )
    more = f"<p>and {rest:,} further instructions: print the plan</p>\n" if rest else ""
    return (
        f'<div class="chainrule-plan">\n<style>{STYLE}</style>\n<div class="scroll"><table>\n'
        f"<caption>{escape(title)}</caption>\n<thead><tr>{titles}</tr></thead>\n"
        f"<tbody>\n{lines}</tbody>\n</table></div>\n{more}<p>{escape(summary)}</p>\n</div>\n"
    )
