"""Finds the user's source line of an instruction, and shows it in messages."""

from __future__ import annotations

import linecache
import unicodedata
from itertools import islice
from types import CodeType
from typing import NamedTuple


class Location(NamedTuple):
    """A span of source; lines count from 1, columns are UTF-8 byte offsets from 0, as in `ast`.

    What the code object does not tell is None (the columns under `-X no_debug_ranges`).
    """

    filename: str
    function: str
    line: int
    end_line: int | None
    column: int | None
    end_column: int | None


def source_location(code: CodeType, lasti: int) -> Location:
    """The span of the instruction at byte offset `lasti` (a frame's `f_lasti`)."""
    line, end_line, column, end_column = None, None, None, None
    if lasti >= 0:
        line, end_line, column, end_column = _position(code, lasti // 2)
    if line is None:
        line, end_line, column, end_column = code.co_firstlineno, None, None, None
    if end_line is None or column is None or end_column is None:
        column, end_column = None, None
    return Location(code.co_filename, code.co_qualname, line, end_line, column, end_column)


LONG = 500  # instructions from which a function's positions are remembered
Position = tuple[int | None, int | None, int | None, int | None]
_positions: tuple[CodeType | None, list[Position]] = None, []  # of the long function asked last


def _position(code: CodeType, index: int) -> Position:
    """Where an instruction comes from; a long function is not gone through for each."""
    global _positions
    nowhere = (None, None, None, None)
    if index < LONG:
        return next(islice(code.co_positions(), index, None), nowhere)
    known, found = _positions
    if known is not code:
        found = [*code.co_positions()]
        _positions = code, found
    return found[index] if index < len(found) else nowhere


def underlined(location: Location) -> str:
    """The first source line of the expression, `^` under its span; without columns the bare line.

    An empty string without source. An expression of several lines is marked to the line's end.
    """
    text = linecache.getline(location.filename, location.line).rstrip()
    shown = text.lstrip()
    if location.column is None or location.end_column is None or not shown:
        return shown
    end_column = location.end_column if location.end_line == location.line else None
    start = len(text.encode()[: location.column].decode(errors="replace"))
    end = len(text.encode()[:end_column].decode(errors="replace"))
    indent = len(text) - len(shown)
    if not indent <= start < end <= len(text):  # the file is not the one that was run
        return shown
    before = "".join(c if c == "\t" else " " * _cells(c) for c in text[indent:start])
    return f"{shown}\n{before}{'^' * sum(map(_cells, text[start:end]))}"


def _cells(character: str) -> int:
    """How many columns of a terminal the character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "FW" else 1
