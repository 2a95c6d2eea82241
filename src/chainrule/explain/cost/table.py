"""Prints a cost as text; the rich form shows the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chainrule.explain.memory.polynomials import Polynomial, expression
from chainrule.graph.sizes import size_values
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.cost.cost import Cost, Count

ROWS = 40  # values that a table shows where nobody asks for more
TYPICAL = 256  # of a size that is not given, where values are compared
HEAD = ("operations", "bytes moved")
PER_BYTE = "per byte"
NOTE = "bytes are what each node reads and writes by itself; views move none, fused code fewer"

Row = tuple[str, ...]


def text(cost: Cost, rows: int | None = ROWS) -> str:
    """The cost as plain text, with the `rows` values of most operations; None for all."""
    phases, values = phase_rows(cost), value_rows(cost, rows)
    left_out = left_out_words(cost, rows)
    return "\n".join(
        [
            title(cost),
            "",
            *_aligned(phases, range(1, len(phases[0]))),
            "",
            *_aligned(values, range(3, len(values[0]))),
            *([left_out] if left_out else []),
            "",
            NOTE,
        ]
    )


def title(cost: Cost) -> str:
    """What the numbers are of, and at which sizes."""
    at = ", ".join(f"{name} = {size}" for name, size in cost.sizes.items())
    return f"cost of {printable(cost.graph.name)}" + (f" at {at}" if at else "")


def phase_rows(cost: Cost) -> list[Row]:
    """A head, a row for each phase, and their sum."""
    counts = {**cost.phases, "total": cost.total}
    return [("phase", *head(cost)), *((name, *cells(cost, one)) for name, one in counts.items())]


def value_rows(cost: Cost, rows: int | None) -> list[Row]:
    """A head, and a row for each of the values of most operations, in the order of the graph."""
    found: list[Row] = [("value", "type", "phase", *head(cost))]
    chosen = _largest(cost, rows)
    for name, one in cost.values.items():
        if name in chosen:
            found.append((printable(name), one.type, str(one.phase), *cells(cost, one)))
    return found


def left_out_words(cost: Cost, rows: int | None) -> str:
    """How many values are not shown; nothing where all are."""
    count = len(cost.values) - len(_largest(cost, rows))
    if not count:
        return ""
    values = "value" if count == 1 else "values"
    return f"{count:,} {values} of fewer operations left out: cost.table(rows=None) shows all"


def head(cost: Cost) -> Row:
    """The columns of numbers; operations for each byte only where all sizes are known."""
    return HEAD if cost.names else (*HEAD, PER_BYTE)


def cells(cost: Cost, one: Count) -> Row:
    """The numbers of a row."""
    found = (number(cost, one.flops), number(cost, one.nbytes))
    return found if cost.names else (*found, f"{one.intensity:.3g}")


def number(cost: Cost, one: Polynomial) -> str:
    """`1,024`, or `2*n*d` where sizes are open."""
    return f"{one:,}" if isinstance(one, int) else expression(one, cost.names)


def _largest(cost: Cost, rows: int | None) -> set[str]:
    if rows is None:
        return set(cost.values)
    typical = dict.fromkeys(cost.names, TYPICAL)

    def rank(name: str) -> tuple[int, int]:
        one = cost.values[name]
        flops, nbytes = (size_values.evaluate(x, typical) for x in (one.flops, one.nbytes))
        assert isinstance(flops, int) and isinstance(nbytes, int)
        return -flops, -nbytes

    return set(sorted(cost.values, key=rank)[:rows])


def _aligned(rows: Sequence[Row], right: Iterable[int]) -> list[str]:
    """The rows in columns; those in `right` flush right."""
    flush, widths = set(right), [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in flush else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
