"""Spells the names of a graph as mathematics, each name differently."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.dataclass import dataclass, field
from chainrule.explain.reading.symbols import Notation


@dataclass(frozen=True)
class Spelling(Notation):
    """A notation that remembers what it has written: names come again, also inside gradients'."""

    _texts: dict[tuple[str, int], str] = field(init=False, default_factory=dict)
    _latexes: dict[tuple[str, int], str] = field(init=False, default_factory=dict)

    def text(self, name: str, depth: int = 0) -> str:
        """As `Notation.text`."""
        return _once(self._texts, super().text, name, depth)

    def latex(self, name: str, depth: int = 0) -> str:
        """As `Notation.latex`."""
        return _once(self._latexes, super().latex, name, depth)


def _once(
    known: dict[tuple[str, int], str], write: Callable[[str, int], str], name: str, depth: int
) -> str:
    found = known.get((name, depth))
    if found is None:
        found = known[name, depth] = write(name, depth)
    return found


def spelling(notation: Notation) -> Spelling:
    """The notation, with a memory."""
    return Spelling(**vars(notation))
