"""From a graph to what a drawing shows: boxes with their looks, arrows, frames, and words."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping

from chainrule.control import cond_primitive
from chainrule.dataclass import dataclass, field, replace
from chainrule.explain.drawing import words as wordings
from chainrule.explain.drawing.bands import Builder, Flat
from chainrule.explain.drawing.figure import Band, Figure, Group, Item, Link
from chainrule.explain.drawing.folding import Folder, Folding, mirrored_key
from chainrule.explain.drawing.frames import frames
from chainrule.explain.drawing.labels import Labels
from chainrule.explain.drawing.lanes import Lanes
from chainrule.explain.drawing.looks import Look, Looks
from chainrule.explain.drawing.mirrored import BACKWARD, Mirror, Mirroring
from chainrule.explain.drawing.opened import Opened, opened, without_bodies
from chainrule.explain.drawing.units import Units
from chainrule.explain.reading.bodies import is_loop_or_choice
from chainrule.explain.reading.statements import FORWARD, read_apart
from chainrule.explain.reading.symbols import Indices, notation_of
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST_UNREAD = 4  # inputs that nothing reads: more of them (counters of layers) are not drawn


@dataclass(frozen=True)
class Wishes:
    """The options of a drawing; see `draw`."""

    phase: str = "both"
    detail: str = "names"
    expand: tuple[str, ...] = ()
    fold: str | tuple[str, ...] = "auto"
    shapes: bool = False
    nbytes: bool = False
    indices: Indices = "subscript"
    symbols: Mapping[str, str] | None = None
    bodies: bool = False  # of loops and choices
    lanes: Lanes | None = None


@dataclass(frozen=True)
class Scene:
    """A figure, the looks of its boxes and frames by key, and what the drawing says in words.

    `notes` are the words for each band that is drawn; `saved_nbytes` what each dashed arrow
    carries, by the keys of its source and target (None where sizes are named).  `lane_of` gives
    the frame of the lane of a box, where there are lanes: but for data, which are in all.
    """

    figure: Figure
    looks: Mapping[str, Look]
    notes: tuple[str, ...]
    title: str
    description: str
    saved_nbytes: Mapping[tuple[str, str], int | None]
    lane_of: Mapping[str, str] = field(default_factory=dict)

    def is_message(self, source: str, target: str) -> bool:
        """Whether an arrow goes from one lane to another."""
        lanes = {self.lane_of.get(source), self.lane_of.get(target)}
        return len(lanes - {None}) == 2

    @property
    def bands(self) -> list[Band]:
        """The passes that are drawn, in the order of `notes`."""
        figure = self.figure
        first = [] if figure.hide_forward else [figure.forward]
        return [band for band in (*first, figure.backward, *figure.further) if band.items]


@without_collector
def scene_of(graph: Graph, wishes: Wishes) -> Scene:
    """Everything that is drawn of a graph, without places."""
    return Staging(graph, wishes).scene()


class Staging:
    """Collects bands, folds them, and gives every box its look."""

    def __init__(self, graph: Graph, wishes: Wishes) -> None:
        self.wishes, self.reading = wishes, read_apart(graph)
        notation = notation_of(graph, wishes.indices, wishes.symbols)
        self.left_out = 0  # inputs that nothing reads
        self.opened = Opened(graph, (), {}, ())
        if wishes.bodies and any(map(is_loop_or_choice, graph.nodes)):
            self.opened = opened(self.reading, notation, wishes.expand, wishes.fold)
            self.reading = read_apart(self.opened.graph)
            symbols = {**(wishes.symbols or {}), **self.opened.symbols}
            notation = notation_of(self.opened.graph, wishes.indices, symbols)
        self.graph = graph
        self.units = Units(self.reading, wishes.detail, wishes.expand, wishes.lanes)
        self.labels = Labels(self.units, notation)
        hidden = wishes.phase == "backward"
        self.looks = Looks(self.labels, wishes.shapes, wishes.nbytes, hidden)
        self.objective = graph.gradients[0].of if graph.gradients else ""
        self.parameters = {
            one.wrt
            for one in graph.gradients
            if one.wrt in self.units.sources and one.value in graph.name_of
        }

    def scene(self) -> Scene:
        builder = Builder(self.units, self.parameters)
        bands, mirror = self.bands(builder)
        fold = without_bodies(self.reading, self.wishes.fold)
        folding = Folder(self.units, bands, mirror).folding(fold)
        made = [self._band(band, folding, at) for at, band in enumerate(bands)]
        figure = Figure(forward=made[0], further=tuple(made[1:]))
        saved: dict[tuple[str, str], int | None] = {}
        hidden = self.wishes.phase == "backward"
        if mirror is not None:
            box = folding.box_of
            saved = _saved(mirror, box)
            figure = replace(
                figure,
                backward=self._band(mirror.band, folding),
                under={box.get(k, k): box.get(v, v) for k, v in mirror.under.items()},
                kept=tuple(self.looks.kept(source, target) for source, target in saved),
                hide_forward=hidden,
            )
        title = f"Computational graph of {self.graph.name}"
        told = wordings.Told(self._closed(), self.wishes.lanes is not None, self.left_out)
        objective = self.labels.full_text(self.objective)
        return Scene(
            figure,
            self.looks.of,
            tuple(wordings.notes(bands, made, mirror, objective, hidden, told)),
            title,
            wordings.description(bands, mirror, folding, self.labels, title),
            saved,
            self._lanes(figure, builder),
        )

    def _lanes(self, figure: Figure, builder: Builder) -> dict[str, str]:
        """The lane of each box of the two passes: its outermost frame, or that of the box above."""
        found: dict[str, str] = {}
        if self.wishes.lanes is None:
            return found
        for lane in figure.forward.groups:
            stack = [lane]
            while stack:
                group = stack.pop()
                found |= dict.fromkeys(group.items, lane.key)
                stack += group.groups
        found |= {key: found[above] for key, above in figure.under.items() if above in found}
        for node in self.wishes.lanes.data:
            found.pop(builder.key_of.get(node, ""), None)
        return found

    def _closed(self) -> tuple[str, str]:
        """Of the program and of its derivatives, words on the first loop or choice not drawn."""
        first = {False: "", True: ""}
        for holder in self.opened.closed:
            statement = self.reading.statement_of.get(holder)
            is_derived = bool(holder.origin.transform)
            if statement is not None and not first[is_derived]:
                what = (
                    "branches of choices"
                    if holder.primitive is cond_primitive
                    else "bodies of loops"
                )
                words = f"the {what} are not drawn: expand={statement.name!r} draws them"
                first[is_derived] = words
        return first[False], first[True]

    def bands(self, builder: Builder) -> tuple[list[Flat], Mirror | None]:
        """The forward band and further ones; the backward band, where it is asked for."""
        by_pass: dict[object, list] = {}
        inside = {node: sketch for sketch in self.opened.sketches for node in sketch.nodes}
        for unit in self.units.all:
            by_pass.setdefault(inside.get(unit.value, unit.during), []).append(unit)
        read_later = {node for unit in self.units.all for node in unit.reads}
        unused = [node for node in self.units.sources if node not in read_later]
        members, lanes = by_pass.get(FORWARD, []), self.wishes.lanes
        if lanes is not None:
            members = sorted(members, key=lambda unit: lanes.lane(unit.nodes))
        if len(unused) > MOST_UNREAD:
            self.left_out, unused = len(unused), []
        forward = builder.band(FORWARD, members, unused)
        phase = self.wishes.phase
        if phase == "forward":
            return [forward, *self._bodies(builder, by_pass)], None
        mirroring = Mirroring(builder, forward, self.objective)
        mirror = mirroring.mirror(self.parameters)
        mirrored = set(mirroring.statements)
        further = []
        for during in self.reading.passes[1:]:
            members = [one for one in by_pass.get(during, []) if one.statement not in mirrored]
            if members:
                further.append(builder.band(during, members))
        further += self._bodies(builder, by_pass)
        return [forward, *further], mirror if mirror.band.entries else None

    def _bodies(self, builder: Builder, by_pass: Mapping[object, list]) -> Iterator[Flat]:
        """The bodies of the passes that are drawn."""
        unwanted = {"forward": True, "backward": False}.get(self.wishes.phase)
        for sketch in self.opened.sketches:
            members = by_pass.get(sketch, [])
            if members and sketch.is_derived is not unwanted:
                during = BACKWARD if sketch.is_derived else FORWARD
                yield builder.band(during, members, (), sketch.title, sketch.note)

    def _band(self, band: Flat, folding: Folding, place: int | None = None) -> Band:
        """One pass after folding: items and links in topological order; frames of the
        `place`-th band that is not mirrored."""
        box_of = folding.box_of
        items: dict[str, Item] = {}
        for entry in band.entries:
            key = box_of.get(entry.key, entry.key)
            if key == entry.key:
                items[key] = self.looks.item(entry)
            elif key in folding.bundles:
                if key not in items:
                    items[key] = self.looks.bundle(folding.bundles[key])
            elif key not in items:
                mirrored = key not in folding.folds
                fold = folding.folds[key.removeprefix(mirrored_key("")) if mirrored else key]
                items[key] = self.looks.fold(fold, mirrored=mirrored)
        links = {
            (a, b): None
            for source, target in band.links
            if (a := box_of.get(source, source)) != (b := box_of.get(target, target))
        }
        order: Iterable[str] = items
        if len(items) < len(band.entries):
            order = _topological(items, links)
        branches = folding.open_branches[place] if place is not None else []
        lanes = None if place else self.wishes.lanes
        groups = frames(band, branches, items, tuple(links), box_of, self.looks, lanes)
        if band.title:
            groups = (self._framed(band, place, items, groups),)
        return Band(tuple(items[one] for one in order), tuple(Link(*one) for one in links), groups)

    def _framed(
        self, band: Flat, place: int | None, items: Iterable[str], groups: tuple[Group, ...]
    ) -> Group:
        """A frame around all that is in no other one."""
        inner, stack = set[str](), [*groups]
        while stack:
            group = stack.pop()
            inner.update(group.items)
            stack += group.groups
        key = f"body {place}"
        width = self.looks.titled(key, band.title, band.note)
        return Group(key, tuple(one for one in items if one not in inner), groups, width)


def _saved(
    mirror: Mirror, box_of: Mapping[str, str]
) -> dict[tuple[str, str], int | None]:  # fmt: skip
    """The bytes of each dashed arrow after folding."""
    values: dict[tuple[str, str], dict[Node, None]] = {}
    for (source, target), nodes in mirror.saved.items():
        pair = box_of.get(source, source), box_of.get(target, target)
        values.setdefault(pair, {}).update(nodes)
    found: dict[tuple[str, str], int | None] = {}
    for pair, nodes in values.items():
        numbers = [n for node in nodes if isinstance(n := node.type.nbytes, int)]
        found[pair] = sum(numbers) if len(numbers) == len(nodes) else None
    return found


def _topological(keys: Collection[str], links: Iterable[tuple[str, str]]) -> list[str]:
    """The keys, sources of links before their targets, otherwise in the order given."""
    place = {key: at for at, key in enumerate(keys)}
    waits = dict.fromkeys(keys, 0)
    targets: dict[str, list[str]] = {}
    for source, target in links:
        waits[target] += 1
        targets.setdefault(source, []).append(target)
    ready = [(place[key], key) for key in keys if not waits[key]]
    heapq.heapify(ready)
    found = []
    while ready:
        _, key = heapq.heappop(ready)
        found.append(key)
        for target in targets.get(key, ()):
            waits[target] -= 1
            if not waits[target]:
                heapq.heappush(ready, (place[target], target))
    assert len(found) == len(place), "folded boxes read each other in a circle"
    return found
