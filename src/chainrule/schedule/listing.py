"""Writes a schedule as text: a line for each instruction that computes, and what it frees."""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.graph.words import printable
from chainrule.schedule.in_html import table
from chainrule.schedule.names_in_messages import Wording
from chainrule.schedule.records import SCRATCH, Compute, Free, Schedule


def text(schedule: Schedule) -> str:
    """What is computed in which order, where every value is an array of its own.

    Values without a name are called as in the text of the (concrete) graph.
    """
    rows = list(_rows(schedule))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    lines = [f"plan of {schedule.graph.name}"]
    for number, label, nbytes, value, freed in rows:
        cells = (number.rjust(widths[0]), label.ljust(widths[1]), nbytes.rjust(widths[2]))
        line = "  ".join(["", *cells, value.ljust(widths[3]) if freed else value])
        lines.append(f"{line}  then frees {freed}" if freed else line)
    return "\n".join([*lines, _summary(schedule, len(rows))])


def html(schedule: Schedule) -> str:
    """The same as a table for notebooks."""
    rows = list(_rows(schedule))
    head = ("", "operation", "bytes", "value", "frees then")
    cells = (((*one[:2], one[2].removesuffix(" bytes"), *one[3:]), ()) for one in rows)
    title = f"plan of {printable(schedule.graph.name)}"
    return table(title, head, cells, _summary(schedule, len(rows)))


def _rows(schedule: Schedule) -> Iterator[tuple[str, str, str, str, str]]:
    """Number, label, bytes, values with their types, and what is freed then."""
    wording = Wording(schedule)
    found: list[tuple[Compute, list[str]]] = []
    for one in schedule.instructions:
        if isinstance(one, Compute):
            found.append((one, []))
        elif isinstance(one, Free) and found:
            found[-1][1].append(wording.name(one.node))
    for number, (one, freed) in enumerate(found, 1):
        nbytes = sum(buffer.nbytes for buffer in one.into)
        values = ", ".join(map(wording.typed, one.nodes))
        yield str(number), one.label, f"{nbytes:,} bytes", values, ", ".join(freed)


def _summary(schedule: Schedule, count: int) -> str:
    into = [b for one in schedule.instructions if isinstance(one, Compute) for b in one.into]
    results = sum(buffer.nbytes for buffer in into if buffer.arena != SCRATCH)
    others = sum(buffer.nbytes for buffer in into if buffer.arena == SCRATCH)
    return (
        f"{count} instruction{'' if count == 1 else 's'}, each value an array of its own: "
        f"{others:,} bytes that are freed again, {results:,} bytes of results"
    )
