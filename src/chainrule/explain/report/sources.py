"""The user's source lines that the values of a page come from, each with two around it."""

from __future__ import annotations

import linecache
import os
from types import CodeType
from typing import Any

from chainrule.explain.report.plain import text
from chainrule.graph.origin import Origin

AROUND = 2  # lines above and below
LONGEST = 400  # characters of a line
TAB = 4

Position = tuple[int | None, int | None, int | None, int | None]


class Sources:
    """Finds lines and columns; remembers the positions of code objects, which are slow to read."""

    def __init__(self) -> None:
        self._positions: dict[int, tuple[CodeType, list[Position]]] = {}
        self._files: dict[str, int] = {}
        self._needed: list[set[int]] = []
        self._found: dict[tuple[int, int], dict[str, Any] | None] = {}

    def place(self, origin: Origin) -> dict[str, Any] | None:
        """The `source` of a value: file, line and columns; None where nothing is known."""
        code = origin.code
        if code is None:
            return None
        key = id(code), origin.lasti  # `_positions` has the code, so its id is not used again
        if key not in self._found:
            self._found[key] = self._place(code, origin.lasti)
        return self._found[key]

    def _place(self, code: CodeType, lasti: int) -> dict[str, Any] | None:
        if id(code) not in self._positions:
            self._positions[id(code)] = code, list(code.co_positions())
        positions = self._positions[id(code)][1]
        at = lasti // 2
        line, end_line, start, end = positions[at] if 0 <= at < len(positions) else (None,) * 4
        if line is None:
            line, start = code.co_firstlineno, None
        file = self._files.setdefault(code.co_filename, len(self._files))
        if file == len(self._needed):
            self._needed.append(set())
        self._needed[file].update(range(max(1, line - AROUND), line + AROUND + 1))
        column = None
        if start is not None and end is not None:
            column = _columns(
                linecache.getline(code.co_filename, line), start, end if end_line == line else None
            )
        return {"file": file, "line": line, "column": column}

    def data(self) -> list[dict[str, Any]]:
        """The `sources` of a page: the lines that were asked for, where there is a file."""
        names = _short(list(self._files))
        found = []
        for (path, file), name in zip(self._files.items(), names, strict=True):
            every = linecache.getlines(path)
            needed = [one for one in sorted(self._needed[file]) if one <= len(every)]
            lines = {str(one): _shown(every[one - 1]) for one in needed}
            found.append({"file": text(name), "lines": lines})
        return found


def _shown(line: str) -> str:
    """A line as the page shows it: tabs as spaces, nothing that a screen would obey."""
    return text(line.rstrip("\r\n").expandtabs(TAB))[:LONGEST]


def _columns(line: str, start: int, end: int | None) -> list[int] | None:
    """Where an expression begins and ends in the line as it is shown, counted in letters.

    `start` and `end` count UTF-8 bytes; without `end` it goes to the end of the line.
    """
    code = line.rstrip().encode("utf-8", "surrogatepass")
    end = len(code) if end is None else end
    if not start < end <= len(code):  # the file is not the one that was run
        return None
    first, last = (len(_shown(code[:at].decode("utf-8", "replace"))) for at in (start, end))
    return [first, last] if first < last else None


def _short(paths: list[str]) -> list[str]:
    """The names of files without their folders, where these do not tell two of them apart."""
    parts = [path.replace(os.sep, "/").split("/") for path in paths]
    lengths = [1] * len(paths)
    while True:
        names = ["/".join(one[-length:]) for one, length in zip(parts, lengths, strict=True)]
        alike = [at for at, name in enumerate(names) if names.count(name) > 1]
        longer = [at for at in alike if lengths[at] < len(parts[at])]
        if not longer:
            return names
        for at in longer:
            lengths[at] += 1
