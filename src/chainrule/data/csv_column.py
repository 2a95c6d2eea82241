"""Reads one column of a CSV file: its first value decides integers, floats or text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.files import refuse, refuse_beyond_free
from chainrule.errors import InputError

NUMBERS: dict[str, Callable[[str], Any]] = {"i": int, "u": int, "f": float}
STORED = {"i": "q", "u": "q", "f": "d"}  # as 8 bytes each
CALLED = {"i": "an integer", "u": "an integer", "f": "a number"}


class Column:
    """The values of a column so far; `wanted` is the dtype that the user asks for."""

    def __init__(self, path: Path, name: str, place: int, wanted: Any) -> None:
        self.path, self.name, self.place = path, name, place
        self.dtype = None if wanted is None else np.dtype(wanted)
        self.kind = "" if self.dtype is None else self.dtype.kind
        if self.kind not in ("", "U", *NUMBERS):
            raise InputError(
                f"types: {name!r} cannot be read as {self.dtype}",
                hint="give an integer or floating-point dtype, or str",
            )
        self.values: Any = None
        self.nbytes = 0
        self.first = ""

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Further cells, and the numbers of their lines; DataFileError for one that is no value."""
        if self.values is None:
            self.first = cells[0]
            self.kind = self.kind or _kind_of(self.first)
            self.values = [] if self.kind == "U" else array(STORED[self.kind])
        if self.kind == "U":
            self.values.extend(cells)
            self.nbytes += sum(map(len, cells))
            return
        new = self._converted(cells, lines)
        self.values.extend(new)
        self.nbytes += 8 * len(new)

    def finished(self) -> np.ndarray:
        """The whole column; float64 where there are no rows."""
        values = self.values
        if self.kind == "U" and values is not None:
            width = max(map(len, values))
            refuse_beyond_free(self.path, 4 * width * len(values), f"the texts of {self.name!r}")
            return np.array(values, np.str_)
        dtype = self.dtype or np.dtype(np.int64 if self.kind == "i" else np.float64)
        return np.array([] if values is None else values, dtype)

    def _converted(self, cells: Sequence[str], lines: Sequence[int]) -> Any:
        """The cells as numbers; a column of no given type becomes one of floats if need be."""
        try:
            return self._numbers(cells)
        except (ValueError, OverflowError):
            if self.kind == "i" and self.dtype is None and _are_floats(cells):
                self.kind = "f"
                self.values = array("d", self.values)
                return self._numbers(cells)
            self._refuse(cells, lines)

    def _numbers(self, cells: Sequence[str]) -> Any:
        if "_" in "".join(cells):
            raise ValueError  # which Python allows in numbers
        new = array(STORED[self.kind], map(NUMBERS[self.kind], cells))
        if self.dtype is not None and self.kind in "iu" and new:
            limits = np.iinfo(self.dtype)
            if min(new) < limits.min or max(new) > limits.max:
                raise OverflowError
        return new

    def _refuse(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Name the first cell that is no number of this column."""
        for cell, line in zip(cells, lines, strict=True):
            try:
                self._numbers([cell])
            except (ValueError, OverflowError) as error:
                self._refuse_cell(cell, line, isinstance(error, OverflowError))

    def _refuse_cell(self, cell: str, line: int, is_too_large: bool) -> None:
        where = f"line {line}, column {self.name!r} (the {self.place + 1}. of the row)"
        if not cell.strip():
            refuse(self.path, f"{where} is empty", "write nan for a missing number")
        if is_too_large:
            refuse(
                self.path,
                f"{where}: {_short(cell)} is too large for {self.dtype or 'int64'}",
                f"types={{{self.name!r}: 'float64'}}",
            )
        because = f"as {_short(self.first)} in its first row is"
        if self.dtype is not None:
            because = f"which types= asks for: {self.dtype}"
        refuse(
            self.path,
            f"{where}: {_short(cell)} is not {CALLED[self.kind]}, {because}",
            f"correct it, or read the column as text: types={{{self.name!r}: str}}",
        )


def _kind_of(cell: str) -> str:
    for kind in ("i", "f"):
        try:
            NUMBERS[kind](cell)
        except ValueError:
            continue
        return kind if "_" not in cell else "U"
    return "U"


def _are_floats(cells: Sequence[str]) -> bool:
    try:
        return bool(array("d", map(float, cells)))
    except ValueError:
        return False


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
