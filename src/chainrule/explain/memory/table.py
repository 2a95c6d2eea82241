"""Prints a memory report as text; the rich and HTML forms show the same rows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chainrule.explain.memory.blocks import block_of
from chainrule.explain.memory.overhead import compiled_words, overhead_words
from chainrule.explain.memory.words import expression
from chainrule.graph.body import bodies_of
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.memory.report import MemoryReport
    from chainrule.explain.memory.run_memory import RunMemory
    from chainrule.explain.memory.value import Value

ROWS = 40  # values that a table shows where nobody asks for more
WIDTH = 100
VALUES = ("value", "type", "bytes", "kind", "made at", "needed until", "kept because")
NUMBERS = (2, 4, 5)  # columns of VALUES that are flush right
BLOCKS = 4  # results of loops that are taken apart
NAMES = 3  # of those that one instruction computes, that are told

Row = tuple[str, ...]


def text(report: MemoryReport, rows: int | None = ROWS) -> str:
    """The report as plain text, with the `rows` largest values; None for all."""
    values, left_out = value_rows(report, rows)
    settings = [(f"  {what}", value) for what, value in settings_rows(report)]
    parts = [("bytes at the peak", *runs(report)), *part_rows(report)]
    lines = [
        f"memory of {printable(report.graph.name)}",
        *_aligned(settings),
        "",
        *_aligned(parts, range(1, len(parts[0]))),
        "",
        *_wrapped(notes(report)),
    ]
    if values:
        lines += ["", *_aligned([VALUES, *values], NUMBERS)]
    if left_out:
        lines += _wrapped([f"{left_out}: report.table(rows=None) shows all"])
    return "\n".join(lines)


def runs(report: MemoryReport) -> dict[str, RunMemory]:
    """The runs that there are, by name."""
    training = {} if report.training is None else {"training": report.training}
    return {**training, "prediction": report.prediction}


def picture_title(report: MemoryReport, run: str) -> str:
    """What the picture of a run is of."""
    sizes = "".join(f", {name} = {size}" for name, size in report.sizes.items())
    return printable(f"Memory of {report.graph.name}, {run}{sizes}, executor {report.executor}")


def settings_rows(report: MemoryReport) -> list[Row]:
    """What the numbers are for: sizes, executor, what is kept, what prediction makes."""
    assumed = [f"{n} = {v}" + " (assumed)" * (n in report.assumed) for n, v in report.sizes.items()]
    keep = report.keep if isinstance(report.keep, str) else ", ".join(report.keep)
    found = {
        "sizes": ", ".join(assumed) or "all fixed",
        "executor": report.executor,
        "keep": keep,
        "predict": ", ".join(report.predict),
    }
    return [(what, printable(value)) for what, value in found.items()]


def part_rows(report: MemoryReport) -> list[Row]:
    """For each part its bytes in each run, then the peak and the instruction where it is."""
    found = list(runs(report).values())
    rows = [(part, *(f"{one.parts[part]:,}" for one in found)) for part in found[0].parts]
    large = any(one.peak_nbytes >= 1024 for one in found)
    return [
        *rows,
        ("peak", *(f"{one.peak_nbytes:,}" for one in found)),
        *([("", *(in_bytes(one.peak_nbytes) for one in found))] if large else []),
        ("at instruction", *(f"{one.peak_instruction} of {one.usage.count}" for one in found)),
    ]


def notes(report: MemoryReport) -> list[str]:
    """What else is to be said: what is computed at the peak, and what is outside the numbers."""
    found = []
    for name, run in runs(report).items():
        number = run.peak_instruction
        if number:
            found.append(f"at its peak, {name} computes {written(run, number)}")
    if report.compiled:
        found.append(compiled_words(report.compiled, report.compiled_values))
    return [*found, *blocks(report.main), overhead_words(report.overhead)]


def blocks(run: RunMemory) -> list[str]:
    """For the largest results of loops at the peak what lies in them, where rows are kept there;
    what is computed in blocks."""
    alive = [one for one in run.usage.alive_at(run.peak_instruction) if not one.in_place]
    several = [found for one in alive if (found := block_of(run, one.node)) is not None]
    kept = sorted([one for one in several if one.kept_nbytes], key=lambda one: -one.nbytes)
    found = [f"{one.what} takes {in_bytes(one.nbytes)}: {one.parts}" for one in kept[:BLOCKS]]
    notes = [body.note for node in run.graph.nodes for body in bodies_of(node) if body.note]
    return [*found, *dict.fromkeys(notes)]


def written(run: RunMemory, number: int) -> str:
    """The first few values that an instruction writes; how, where one has no name."""
    if not number:
        return ""
    nodes, names = run.written_at(number), run.timeline[number].writes
    found = [
        name if not name.startswith("%") else f"{name} = {expression(run.graph, node)}"
        for node, name in zip(nodes[:NAMES], names, strict=False)
    ]
    more = len(nodes) - NAMES
    return printable(", ".join(found)) + (f" and {more} more" if more > 0 else "")


def value_rows(report: MemoryReport, rows: int | None) -> tuple[list[Row], str]:
    """The rows of the `rows` largest values in the order of the graph; what of the others."""
    values = list(report.values.values())
    largest = sorted(values, key=lambda value: -value.nbytes)[
        : len(values) if rows is None else rows
    ]
    chosen = {value.name for value in largest}
    end = report.main.usage.count
    left_out = [value for value in values if value.name not in chosen]
    words = ""
    if left_out:
        nbytes = max(value.nbytes for value in left_out)
        words = f"{_counted(len(left_out), 'value')} of at most {in_bytes(nbytes)} left out"
    return [_value_row(value, end) for value in values if value.name in chosen], words


def _value_row(value: Value, end: int) -> Row:
    is_there = value.stored or bool(value.view_of)
    made = ", ".join(map(str, (value.made_at or ("start" if is_there else "-"), *value.again_at)))
    last = str(value.last_needed_at or "-")
    if is_there and value.last_needed_at == end and not value.kept_because:
        last = "end"
    return (
        printable(value.name),
        value.type,
        _nbytes(value),
        str(value.kind),
        made,
        last,
        printable(value.kept_because),
    )


def _nbytes(value: Value) -> str:
    if not value.stored:
        return "a view" if value.view_of else "not stored"
    return "in place" if value.in_place else f"{value.nbytes:,}"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"


def _aligned(rows: Sequence[Row], right: Iterable[int] = ()) -> list[str]:
    """The rows in columns; those in `right` flush right."""
    flush, widths = set(right), [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in flush else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _wrapped(sentences: Iterable[str]) -> list[str]:
    return [
        line
        for one in sentences
        for line in textwrap.wrap(one, WIDTH, subsequent_indent="  ", break_long_words=False)
    ]
