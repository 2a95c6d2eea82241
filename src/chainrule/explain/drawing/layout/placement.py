"""Where everything in a figure stands: its bands below each other, in pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from chainrule.explain.drawing.figure import (
    Arrow,
    Band,
    Figure,
    Item,
    Kept,
    Placement,
    Points,
    Rectangle,
)
from chainrule.explain.drawing.layout.kept import Mirror, Mirrored, mirror
from chainrule.explain.drawing.layout.metrics import UPWARD, across, along, extents_of
from chainrule.explain.drawing.layout.routes import Room, frames, routes
from chainrule.explain.drawing.layout.tracks import pieces_of
from chainrule.explain.drawing.layout.whole import assemble

MARGIN_ACROSS, MARGIN_ALONG = 30.0, 52.0
BETWEEN_PASSES = 80.0  # between a band and a further one

Height = Callable[[float], float]  # from the y of a band to that of the picture


def place(figure: Figure) -> Placement:
    """Lays out a figure: the forward band, the backward band as its mirror image, further bands.

    Arrows of the forward band and of further ones go to the right and up, or straight; only those
    from items `beside` may go down, and those that close a ring of groups go back to the left.
    Arrows of one source share their ways where they can; in the backward band, arrows to one
    target.  Takes time nearly in proportion to the number of items and links.
    """
    sheet = _Sheet()
    _draw_first(figure, sheet)
    for band in figure.further:
        room, points = _lay_out(band)
        top = sheet.bottom + (BETWEEN_PASSES if sheet.spans else 0.0)
        sheet.add_band(band, room, points, top)
    return sheet.placement()


@dataclass
class _Sheet:
    """What is on the picture so far; y grows downward."""

    boxes: dict[str, Rectangle] = field(default_factory=dict)
    groups: dict[str, Rectangle] = field(default_factory=dict)
    mirrored: dict[str, Rectangle] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    copies: list[Kept] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)

    @property
    def bottom(self) -> float:
        """The end of the last band."""
        return self.spans[-1][1] if self.spans else 0.0

    def add_band(self, band: Band, room: Room, points: Mapping[int, Points], top: float) -> None:
        """A band that is drawn upward, below what is there."""
        base = top + room.along.top
        self._add_items(room, lambda y: base - y)
        self.groups |= {
            key: Rectangle(one.x, base - one.y - one.height, one.width, one.height)
            for key, one in frames(room).items()
        }
        self.spans.append((top, base - room.along.bottom))
        for number, link in enumerate(band.links):
            way = tuple((x, base - y) for x, y in points[number])
            self.arrows.append(Arrow(link.source, link.target, way))

    def add_mirrored(self, figure: Figure, band: Mirror, found: Mirrored, base: float) -> None:
        """The backward band, which is drawn downward; `base` is the y of its row 0."""
        room = found.room
        self._add_items(room, lambda y: base + y)
        self.mirrored = {
            key: Rectangle(one.x, base + one.y, one.width, one.height)
            for key, one in frames(room).items()
        }
        for link, number in zip(figure.backward.links, band.links, strict=True):
            way = tuple((x, base + y) for x, y in reversed(found.routes[number]))
            self.arrows.append(Arrow(link.source, link.target, way))
        for number, (_, _, kept) in enumerate(band.kept):
            way = tuple((x, base + y) for x, y in found.arrows[number])
            source = kept.source
            if number in found.copies:
                box = found.copies[number]
                self.boxes[kept.copy.key] = Rectangle(box.x, base + box.y, box.width, box.height)
                self.copies.append(kept)
                source = kept.copy.key
            self.arrows.append(Arrow(source, kept.target, way, kept=True))
        highest = min((box.y for box in found.copies.values()), default=0.0)
        top = base + min(room.along.bottom, highest)
        self.spans.append((top, base + room.along.top))

    def _add_items(self, room: Room, height: Height) -> None:
        for number, item in room.shapes.items():
            x, y = room.middle(number)
            left, top = x - item.width / 2, height(y) - item.height / 2
            self.boxes[item.key] = Rectangle(left, top, item.width, item.height, item.below)

    def placement(self) -> Placement:
        """All of it, moved so that there is a margin around."""
        if not self.spans:
            return Placement({}, {}, (), (), (), 2 * MARGIN_ACROSS, 2 * MARGIN_ALONG)
        boxes = [*self.boxes.values(), *self.groups.values(), *self.mirrored.values()]
        points = [point for arrow in self.arrows for point in arrow.points]
        left = min([one.x for one in boxes] + [x for x, _ in points])
        right = max([one.x + one.width for one in boxes] + [x for x, _ in points])
        top = min([one.y for one in boxes] + [y for _, y in points])
        low = max([one.y + one.height + one.below for one in boxes] + [y for _, y in points])
        dx, dy = MARGIN_ACROSS - left, MARGIN_ALONG - top
        return Placement(
            _moved(self.boxes, dx, dy),
            _moved(self.groups, dx, dy),
            tuple(
                Arrow(
                    one.source, one.target, tuple((x + dx, y + dy) for x, y in one.points), one.kept
                )
                for one in self.arrows
            ),
            tuple(self.copies),
            tuple((first + dy, last + dy) for first, last in self.spans),
            right + dx + MARGIN_ACROSS,
            low + dy + MARGIN_ALONG,
            _moved(self.mirrored, dx, dy),
        )


def _moved(boxes: Mapping[str, Rectangle], dx: float, dy: float) -> dict[str, Rectangle]:
    return {key: replace(one, x=one.x + dx, y=one.y + dy) for key, one in boxes.items()}


def _numbers(items: Iterable[Item]) -> dict[str, int]:
    return {item.key: number for number, item in enumerate(items)}


def _lay_out(band: Band) -> tuple[Room, dict[int, Points]]:
    """A band that nothing mirrors, and the points of its links."""
    number_of = _numbers(band.items)
    links = [(number_of[link.source], number_of[link.target]) for link in band.links]
    whole = assemble(band.items, links, band.groups)
    pieces = pieces_of(whole.stretches, whole.columns)
    shapes = dict(enumerate(band.items))
    x = across(whole, pieces, ((number, item.width) for number, item in shapes.items()))
    room = Room(whole, pieces, x, along(whole, extents_of(whole, shapes), UPWARD), shapes)
    return room, routes(room, range(len(links)))


def _draw_first(figure: Figure, sheet: _Sheet) -> None:
    """The forward band and its mirror image, or either of them."""
    if not figure.backward.items:
        if figure.forward.items and not figure.hide_forward:
            sheet.add_band(figure.forward, *_lay_out(figure.forward), 0.0)
        return
    band = _mirror(figure)
    found = mirror(band)
    if figure.hide_forward:
        sheet.add_mirrored(figure, band, found, 0.0)
        return
    room = Room(band.whole, band.pieces, found.room.across, found.forward, band.forward)
    sheet.add_band(figure.forward, room, routes(room, range(len(figure.forward.links))), 0.0)
    sheet.add_mirrored(figure, band, found, found.forward.top - found.middle)


def _mirror(figure: Figure) -> Mirror:
    """Both bands on one grid; it has ways also for links that only the backward band has."""
    items, under = figure.forward.items, figure.under
    number_of = _numbers(items)
    links = [(number_of[one.source], number_of[one.target]) for one in figure.forward.links]
    place_of = {link: place for place, link in enumerate(links)}
    mirrored = []
    for one in figure.backward.links:
        link = number_of[under[one.target]], number_of[under[one.source]]
        mirrored.append(place_of.setdefault(link, len(links)))
        if mirrored[-1] == len(links):
            links.append(link)
    whole = assemble(items, links, figure.forward.groups)
    return Mirror(
        whole,
        pieces_of(whole.stretches, whole.columns),
        dict(enumerate(items)),
        {number_of[under[item.key]]: item for item in figure.backward.items},
        mirrored,
        tuple((number_of[under[one.target]], number_of[one.source], one) for one in figure.kept),
        figure.hide_forward,
    )
