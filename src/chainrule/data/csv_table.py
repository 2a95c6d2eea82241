"""Reads CSV files: a row of names, then rows of numbers or text; each column is an array."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.csv_column import Column
from chainrule.data.files import damaged, opened, refuse, unpacked
from chainrule.errors import InputError
from chainrule.execute.free_memory import free_memory
from chainrule.nearest import nearest
from chainrule.tracebacks import entry

AT_A_TIME = 1024  # rows
LONGEST_LINE = 1 << 22  # bytes: a file without line ends would be one line


@entry
def read_csv(
    path: str | os.PathLike[str],
    *,
    types: Mapping[str, Any] | None = None,
    delimiter: str = ",",
) -> dict[str, np.ndarray]:
    """Reads the columns of a CSV file (UTF-8, plain or gzip), by the names in its first row.

    A column's type is that of its first value, or the dtype that `types` gives for its name:
    int64, or float64 (also where a later value is no integer), or text.  Numbers are written as in
    Python; a missing one as `nan`, which makes the column float64.

    Raises DataFileError, with the line and the column, for a cell that is no such number, a row of
    another length, and a file that is missing or damaged; InputError for a name in `types` that is
    no column.
    """
    with opened(path) as (path, file, _), unpacked(path, file) as content:
        lines = _Lines(path, content)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            names = next(reader, None)
            if not names:
                refuse(path, "a CSV file begins with a row of names, but this one is empty")
            columns = _columns(path, names, types or {})
            _read_rows(path, reader, columns, lines)
        except csv.Error as error:
            raise damaged(path, f"line {lines.number}: {error}") from error
        except UnicodeDecodeError as error:
            what = f"line {lines.number + 1}: byte {error.object[error.start]:02x} is not UTF-8"
            raise damaged(path, what, "save the file as UTF-8") from error
        return {column.name: column.finished() for column in columns}


class _Lines:
    """The lines of the file as text; knows the number of the last one."""

    def __init__(self, path: Path, content: BufferedIOBase) -> None:
        self.path, self.content, self.number = path, content, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.content.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            refuse(self.path, f"line {self.number + 1} has {LONGEST_LINE:,} bytes or more")
        if not line:
            raise StopIteration
        if b"\0" in line:
            refuse(self.path, f"line {self.number + 1} has a zero byte, which no text has")
        text = line.decode("utf-8-sig" if self.number == 0 else "utf-8")
        self.number += 1
        return text


def _columns(path: Path, names: list[str], types: Mapping[str, Any]) -> list[Column]:
    names = [name.strip() for name in names]
    for place, name in enumerate(names):
        if not name:
            refuse(path, f"line 1: column {place + 1} has no name", "the first row names columns")
        if name in names[:place]:
            refuse(path, f"line 1: two columns are called {name!r}", "give each a name of its own")
    for name in types:
        if name not in names:
            near = nearest(name, names)
            raise InputError(
                f"{path} has no column {name!r}: {', '.join(names[:20])}",
                hint=f"perhaps {near[0]!r}" if near else "types= takes the names in the first row",
            )
    return [Column(path, name, place, types.get(name)) for place, name in enumerate(names)]


def _read_rows(path: Path, reader: Any, columns: list[Column], lines: _Lines) -> None:
    """Add all rows to the columns, some hundreds at a time."""
    free = free_memory()
    for rows, numbers in _blocks(path, reader, len(columns), lines):
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column.add(cells, numbers)
        nbytes = sum(column.nbytes for column in columns)
        if free is not None and nbytes > free.nbytes:
            refuse(path, f"up to line {numbers[-1]} it has {nbytes:,} bytes, all free memory")


def _blocks(
    path: Path, reader: Any, count: int, lines: _Lines
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of `count` cells and the numbers of their lines; empty lines are passed over."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    for row in reader:
        if not row:
            continue
        if len(row) != count:
            refuse(
                path,
                f"line {lines.number} has {len(row)} cells, and the first row names "
                f"{count} columns",
                "a cell that contains the delimiter stands in quotation marks",
            )
        rows.append(row)
        numbers.append(lines.number)
        if len(rows) == AT_A_TIME:
            yield rows, numbers
            rows, numbers = [], []
    if rows:
        yield rows, numbers
