"""One pass of the drawing: its boxes in nested scopes, every scope on its grid."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from chainrule.explain.drawing.bands import Flat
from chainrule.explain.drawing.figure import Form, Group, Item
from chainrule.explain.drawing.layout.alone import BACKWARD, FORWARD
from chainrule.explain.drawing.looks import COPY_SIDE, Look, Looks
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.drawing.units import Unit, Units
from chainrule.explain.report.layout_bundles import (
    Bundle,
    bundle_item,
    bundled,
    bundled_mirror,
    by_key,
    copied,
    distant,
    shared,
)
from chainrule.explain.report.layout_homes import Homes, boxes_of_units
from chainrule.explain.report.layout_looks import (
    box_data,
    copy_width,
    scope_title,
    title_width,
)
from chainrule.explain.report.layout_nested import Boxes, Kept, Layouts, Pair, nested_data
from chainrule.explain.report.layout_parameters import (
    merged_copies,
    parameter_bundles,
    parameter_scopes,
    parameters_box,
)
from chainrule.explain.report.outline_groups import PageScope, page_scopes, scopes_in


class PageBand:
    """A pass that is drawn forward, and with `mirror` the backward band that stands below it.

    `under` gives for each item of the backward band the number of that above it.  Where there are
    `few` boxes, all stands as in the static drawing.
    """

    def __init__(
        self, units: Units, looks: Looks, flat: Flat, name: str, mirror: Mirror | None, few: bool
    ) -> None:
        self.looks, self.flat, self.mirror = looks, flat, mirror
        self.bundles: list[Bundle] = []
        if not few:
            self._bundle(copied(flat))
        several = parameter_bundles(self.flat)
        bundled = {entry.key for bundle in several for entry in bundle.entries[1:]}
        self.whole = page_scopes(units, flat.units, name, boxes_of_units(self.flat, bundled))
        if not few:
            self._bundle(distant(self.flat, Homes(self.flat, self.whole)))
            self._bundle(shared(self.flat, Homes(self.flat, self.whole)))
        self.homes = Homes(self.flat, self.whole)
        self.parameters = parameter_scopes(self.flat, self.homes)
        self.copies: dict[tuple[str, str], Look] = {}  # of several parameters at once
        if self.mirror:
            self.mirror, self.copies = merged_copies(
                self.mirror, self.parameters.values(), self.looks
            )
        self.every = scopes_in(self.whole)
        self.items = self._items(self.flat)
        self.mirrored = self._items(self.mirror.band) if self.mirror else ()
        self.number_of = {item.key: number for number, item in enumerate(self.items)}
        self.under: list[int] = []
        self.links = self._links()

    def _bundle(self, several: list[Bundle]) -> None:
        """Shows values again where they are read."""
        self.flat = bundled(self.flat, several)
        self.mirror = bundled_mirror(self.mirror, several) if self.mirror else None
        self.bundles += several

    def _items(self, flat: Flat) -> tuple[Item, ...]:
        bundles = by_key(self.bundles)
        return tuple(
            bundle_item(bundles[entry.key], entry, self.looks)
            if entry.key in bundles
            else self.looks.item(entry)
            for entry in flat.entries
        )

    def _links(self) -> dict[Pair, int]:
        """In which bands each pair of items is linked; notes `under`."""
        number_of, mirror = self.number_of, self.mirror
        links = ((number_of[source], number_of[target]) for source, target in self.flat.links)
        if mirror is None:
            return dict.fromkeys(links, FORWARD)
        above = {key: number_of[one] for key, one in mirror.under.items()}
        self.under = [above[entry.key] for entry in mirror.band.entries]
        found = dict.fromkeys(links, FORWARD)
        for source, target in mirror.band.links:
            pair = above[target], above[source]
            found[pair] = found.get(pair, 0) | BACKWARD
        return found

    def inside(self) -> dict[PageScope, int]:
        """How many boxes stand directly in each scope, in both bands."""
        found = dict.fromkeys(self.every, 0)
        for item in chain(self.items, (self.items[number] for number in self.under)):
            found[self.homes.of[item.key]] += 1
        return found

    def folded(self) -> dict[PageScope, int]:
        """As how many boxes each scope is drawn when it is folded: two with one below it."""
        found = dict.fromkeys(self.every, 1)
        for number in self.under:
            scope = self.homes.of[self.items[number].key]
            while found[scope] == 1:
                found[scope] = 2
                scope = self.homes.parents.get(scope, scope)
        return found

    def data(self, layouts: Layouts) -> list[dict[str, Any]]:
        """The scopes, outer ones first; the first one is the band itself."""
        told = self._told()
        boxes = Boxes(
            self.items,
            dict(zip(self.under, self.mirrored, strict=True)),
            {key: (_folded(one["box"]), _folded(one.get("mirror"))) for key, one in told.items()},
            self._kept(),
        )
        nested = nested_data(boxes, self.links, self._groups(told), layouts)
        return [told[one["key"]] | one if one["key"] else one for one in nested]

    def _kept(self) -> list[Kept]:
        """What the backward band reads of the forward one, as `mirror.saved` has it."""
        if self.mirror is None:
            return []
        return [
            Kept(
                self.number_of[source],
                self.number_of[self.mirror.under[target]],
                copy_width(self.copies.get((source, target)) or self.looks.of[source]),
                COPY_SIDE,
            )
            for source, target in self.mirror.saved
        ]

    def _groups(self, told: Mapping[str, Mapping[str, Any]]) -> tuple[Group, ...]:
        """The scopes as the layout knows them."""
        members: dict[PageScope, list[str]] = {one: [] for one in self.every}
        for item in self.items:
            members[self.homes.of[item.key]].append(item.key)
        made: dict[PageScope, Group] = {}
        for one in reversed(self.every):
            inner = tuple(made[scope] for scope in one.inner)
            width = title_width(told[one.key]["title"]) if one is not self.whole else 0.0
            made[one] = Group(
                one.key, tuple(members[one]), inner, width, as_one=one in self.parameters
            )
        return made[self.whole].groups

    def _told(self) -> dict[str, dict[str, Any]]:
        """What each scope is called, what is in it, and its box when it is folded."""
        folded = self.folded()
        inside: dict[PageScope, tuple[Unit, ...]] = {}
        found: dict[str, dict[str, Any]] = {}
        for scope in reversed(self.every):
            parts = (
                inside.pop(one) if isinstance(one, PageScope) else (one,) for one in scope.elements
            )
            units = inside[scope] = tuple(chain.from_iterable(parts))
            if scope is self.whole:
                continue
            is_mirrored = folded[scope] == 2
            if scope in self.parameters:
                bundle = self.parameters[scope]
                box = parameters_box(bundle, self.mirror if is_mirrored else None, self.looks)
            else:
                box = box_data(scope, units, self.looks, mirrored=is_mirrored)
            found[scope.key] = {
                "kind": scope.kind,
                "title": scope_title(scope, units, self.looks),
                "count": scope.count,
                "path": scope.path,
                "operators": len(units),
                "values": sum(bool(unit.name) for unit in units),
                **box,
            }
        return found


def _folded(box: Mapping[str, Any] | None) -> Item | None:
    """A folded scope as the layout knows it."""
    return None if box is None else Item("", Form.FOLDED, box["width"], box["height"])
