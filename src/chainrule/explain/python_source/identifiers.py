"""Turns names of a graph into Python identifiers: dJ/dW1 becomes dJ_dW1."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Hashable, Iterable

# What the source itself uses beside the names of the graph.
RESERVED = frozenset(keyword.kwlist) | {
    *("np", "ml_dtypes", "math", "float", "map", "max", "min", "range", "slice"),
    *("ValueError", "IndexError", "__debug__"),
}


def normalized(name: str) -> str:
    """The identifier that is most like a name; '' where nothing of it can be in one.

    Python compares identifiers by their NFKC form, so this is in it.
    """
    text = unicodedata.normalize("NFKC", name)
    if text.isidentifier():
        return text
    parts = "".join(c if f"a{c}".isidentifier() else " " for c in text).split()
    joined = unicodedata.normalize("NFKC", "_".join(part.strip("_") for part in parts)).strip("_")
    if joined and not joined.isidentifier():
        joined = f"_{joined}"
    return joined if joined.isidentifier() else ""


class Identifiers:
    """Identifiers that are given out once each; no keyword, nor what the source itself uses."""

    def __init__(self) -> None:
        self._taken = set(RESERVED)
        self._of: dict[Hashable, str] = {}
        self._next: dict[str, int] = {}

    def __getitem__(self, key: Hashable) -> str:
        return self._of[key]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._of

    def add(self, key: Hashable, name: str, fallback: str = "value") -> str:
        """An identifier for `key`, as much as possible like `name`."""
        wanted = normalized(name) or fallback
        found, number = wanted, self._next.get(wanted, 2)
        while found in self._taken:
            found, number = f"{wanted}_{number}", number + 1
        self._next[wanted] = number
        self._taken.add(found)
        self._of[key] = found
        return found

    def add_all(self, pairs: Iterable[tuple[Hashable, str]]) -> None:
        """Identifiers for several; names that are identifiers already are served first."""
        several = list(pairs)
        for key, name in several:
            if name.isidentifier():
                self.add(key, name)
        for key, name in several:
            if not name.isidentifier():
                self.add(key, name)
