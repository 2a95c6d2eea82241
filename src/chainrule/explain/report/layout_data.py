"""The drawing of the page as plain data: boxes, nested scopes, and where everything stands.

Every scope is laid out alone, with the scopes inside it folded; the page adds these layouts up as
scopes are unfolded (page/layout.js).  Numbers of items within a band count from its first; `thing`
of a vertex is such a number, or that of a scope.

    {"items": [{key, form, role, width, height, label, number, name, makes, tip, beside?, of?,
      caption?, below?, again?}],
     "bands": [{pass, note, first, count,   items[first : first + count]
                "scopes": [{parent, key, kind, title, below?, count, path, operators, values,
                            box, mirror, things, layout, kept}]}],
     "backward": {band, note, first, count, under,    of each item the number of that above it
                  kept: [[number above, number of the item, [saved, ...], {label, tip}?], ...]}
                  or null, the label and the tip of a copy of several values,
     "saved": [bytes or null],
     "layouts": [{kinds, connections, x, width, forward, backward?, between?, kept?,
                  inner?, units?, lanes?}],
     "open": [keys], "colours": {...}}

scopes[0] is the band itself; `below` is the title of the frame in the backward band, where that is
another; `kept` of a scope are places in that of `backward`.  Of a layout `kinds` are those of the
vertices: 0 an entry, 1 an item, 2 a scope inside, 3 an exit (entries and exits are ports; their
thing is the item whose value goes through); `connections` are four numbers each (start, end, which
exit of the start, which entry of the end).  One that starts at a scope without exits leaves its
frame.  The x of vertices begins at the left end; y grows away from the middle between both bands,
from 0 at the lowest row.

    forward, backward: {y, low, high,     of the vertices, and of the frame
                        legs: [0 (not drawn) or [first track, lane, last track,]? dx, dy, ...]
                        orders?, above?, below?, free?}
    kept: [[target, source (-1: elsewhere), dx, dy, dx, dy, (dx, dy, width, height)?]]

Offsets of legs are from the middles of what they join, those of a copy from its reader.  Where
scopes are inside, `inner` has three numbers for each: its vertex, the vertex of its port that stays
level, and the width of its column.  What moves together is a unit (`units` of vertices, `lanes` of
connections).  `orders` are five numbers each: lower and upper unit, the scopes inside below and
above (-1: none), and what these can grow before the upper unit moves; `above` and `below` are what
each scope inside can grow before the frame does, and `free` how far each unit is from the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chainrule.explain.drawing import words
from chainrule.explain.drawing.bands import Builder, Flat
from chainrule.explain.drawing.figure import Band, Form, Item
from chainrule.explain.drawing.folding import FEW_BOXES
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.drawing.scene import Staging, Wishes
from chainrule.explain.reading.symbols import Indices
from chainrule.explain.report.layout_band import PageBand
from chainrule.explain.report.layout_looks import colours, item_data, label_data
from chainrule.explain.report.layout_nested import Layouts
from chainrule.explain.report.layout_open import opened_first
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


@without_collector
def drawing_data(
    graph: Graph, *, indices: Indices = "subscript", symbols: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """All that is drawn of a graph: JSON values only, the same each time."""
    return _Sheet(graph, Wishes(fold="none", indices=indices, symbols=symbols)).data()


class _Sheet:
    """The bands of one graph, and what belongs to all of them."""

    def __init__(self, graph: Graph, wishes: Wishes) -> None:
        staging = Staging(graph, wishes)
        self.looks = staging.looks
        self.flats, self.mirror = staging.bands(Builder(staging.units, staging.parameters))
        mirrored = [self.mirror.band] if self.mirror else []
        few = sum(len(flat.entries) for flat in (*self.flats, *mirrored)) <= FEW_BOXES
        mirrors = [self.mirror, *(None for _ in self.flats[1:])]
        self.bands = [
            PageBand(staging.units, self.looks, flat, f"scope {at}", mirror, few)
            for at, (flat, mirror) in enumerate(zip(self.flats, mirrors, strict=True))
        ]
        objective = staging.labels.full_text(staging.objective)
        drawn = [Band(band.items, ()) for band in self.bands]
        self.notes = words.notes(self.flats, drawn, self.mirror, objective, False)
        self.items: list[dict[str, Any]] = []
        self.saved: dict[Node, int] = {}

    def data(self) -> dict[str, Any]:
        """The whole of it."""
        layouts = Layouts()
        notes = iter(self.notes)
        bands: list[dict[str, Any]] = []
        backward = None
        for band in self.bands:
            note = next(notes) if band.items else ""
            bands.append(self._add(band.flat, band.items, note) | {"scopes": band.data(layouts)})
            if band.mirror is not None:
                backward = self._backward(band, band.mirror, next(notes))
        return {
            "items": self.items,
            "bands": bands,
            "backward": backward,
            "saved": [_nbytes(node) for node in self.saved],
            "layouts": layouts.all,
            "open": self._open(),
            "colours": colours(),
        }

    def _add(self, flat: Flat, items: Sequence[Item], note: str) -> dict[str, Any]:
        """The items of a band, added to those of all."""
        first = len(self.items)
        names = {entry.key: entry.name for entry in flat.entries}
        made: dict[str, str] = {}  # by circles, the first value that they lead to
        for source, target in flat.links:
            made.setdefault(source, names[target])
        for item, entry in zip(items, flat.entries, strict=True):
            makes = made.get(item.key, "") if entry.form is Form.CIRCLE else ""
            self.items.append(item_data(item, entry, self.looks, makes))
        return {
            "pass": str(flat.during.direction),
            "note": note,
            "first": first,
            "count": len(items),
        }

    def _backward(self, band: PageBand, mirror: Mirror, note: str) -> dict[str, Any]:
        """The backward band below the first one, and what it reads there."""
        found = self._add(mirror.band, band.mirrored, note)
        place = {item.key: at for at, item in enumerate(band.mirrored)}
        kept: list[list[Any]] = []
        for (source, target), nodes in mirror.saved.items():
            number = band.number_of[source]  # the first band's items are the first of all
            ids = [self.saved.setdefault(node, len(self.saved)) for node in nodes]
            kept.append([number, place[target], ids])
            if (look := band.copies.get((source, target))) is not None:
                kept[-1].append({"label": label_data(look.again), "tip": look.tip})
        return found | {"band": 0, "under": band.under, "kept": kept}

    def _open(self) -> list[str]:
        inside = {scope: count for band in self.bands for scope, count in band.inside().items()}
        folded = {scope: count for band in self.bands for scope, count in band.folded().items()}
        return opened_first((band.whole for band in self.bands), inside, folded)


def _nbytes(node: Node) -> int | None:
    nbytes = node.type.nbytes
    return nbytes if isinstance(nbytes, int) else None
