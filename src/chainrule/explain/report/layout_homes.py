"""In which scope of the page each box stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chainrule.explain.drawing.bands import Flat
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.units import Unit
from chainrule.explain.report.outline_groups import MOST_INSIDE, PageScope, scopes_in


def boxes_of_units(band: Flat, bundled: Collection[str]) -> dict[Unit, int]:
    """How many boxes each unit needs: its circle, its square, and sources that it reads first,
    but for `bundled` ones, which are shown by the box of another."""
    found: dict[Unit, int] = {}
    waiting = 0
    for entry in band.entries:  # sources come just before the first circle that reads them
        if entry.unit is None:
            waiting += entry.key not in bundled
        else:
            found[entry.unit] = found.get(entry.unit, 0) + 1 + waiting
            waiting = 0
    return found


class Homes:
    """The scope of every box of one band; `parents` has that around each scope."""

    def __init__(self, band: Flat, whole: PageScope) -> None:
        self.band, self.whole = band, whole
        self.parents = {one: scope for scope in scopes_in(whole) for one in scope.inner}
        units = {
            unit: scope
            for scope in scopes_in(whole)
            for unit in scope.elements
            if isinstance(unit, Unit)
        }
        self.of: dict[str, PageScope] = {
            entry.key: units[entry.unit] for entry in band.entries if entry.unit is not None
        }
        self.readers: dict[str, dict[PageScope, None]] = {  # of sources, in order
            entry.key: {} for entry in band.entries if entry.unit is None
        }
        for source, target in band.links:
            if source in self.readers:
                self.readers[source][self.of[target]] = None
        self._add_sources()

    def _add_sources(self) -> None:
        """What is read in one scope only is inside; where many boxes stand side by side, sources
        that several scopes read go into the first of these."""
        outside: list[str] = []
        for entry in self.band.entries:
            if entry.unit is not None:
                continue
            readers = list(self.readers[entry.key])
            stays = entry.beside or entry.form is Form.COPY
            self.of[entry.key] = self._common(readers) if readers and stays else self.whole
            if len(readers) > 1 or (readers and not stays):
                outside.append(entry.key)
        counts = self._counts()
        for key in outside:
            if counts[self.of[key]] > MOST_INSIDE:
                self.of[key] = next(iter(self.readers[key]))

    def _common(self, scopes: list[PageScope]) -> PageScope:
        """The innermost scope around all of these."""
        paths = [self.path(one) for one in scopes]
        common = self.whole
        for several in zip(*paths, strict=False):
            if any(one is not several[0] for one in several):
                break
            common = several[0]
        return common

    def path(self, scope: PageScope) -> list[PageScope]:
        """From the whole pass to the scope itself."""
        found = [scope]
        while scope in self.parents:
            scope = self.parents[scope]
            found.append(scope)
        return found[::-1]

    def add(self, scope: PageScope, around: PageScope, keys: Iterable[str]) -> None:
        """A scope more, with boxes that stood around it."""
        around.elements.insert(0, scope)
        self.parents[scope] = around
        self.of.update((key, scope) for key in keys)

    def _counts(self) -> Mapping[PageScope, int]:
        """How many boxes stand directly in each scope."""
        found = {scope: len([*scope.inner]) for scope in scopes_in(self.whole)}
        for scope in self.of.values():
            found[scope] += 1
        return found
