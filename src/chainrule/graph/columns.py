"""Sets the rows of a table in columns of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def in_columns(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """A line for each row; the columns of `right` are flush right."""
    rows, flush = list(rows), set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:>{width}}" if at in flush else f"{cell:{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
