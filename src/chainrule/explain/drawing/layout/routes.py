"""The points of every arrow: out of its source, along tracks and lanes, into its target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import cos, radians, sin, sqrt
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.figure import Form, Item, Points, Rectangle
from chainrule.explain.drawing.layout.grid import Course
from chainrule.explain.drawing.layout.metrics import Across, Along
from chainrule.explain.drawing.layout.scopes import TOP
from chainrule.explain.drawing.layout.tracks import UP, Piece, Pieces, is_one_line
from chainrule.explain.drawing.layout.whole import End, Stretch, Whole
from chainrule.graph.cached import cached_property

Point = tuple[float, float]
BEND = 16.0  # before a circle, arrows that come from a track turn toward its middle
LEAST_ANGLE, GREATEST_ANGLE = 24.0, 70.0  # of these, from the horizontal
SLOT = 12.0  # between arrows that enter a box at its left side, at most
CORNER = 6.0  # of a box, where no arrow enters
CLEARANCE = 6.0  # between diagonals and boxes
STEEPEST, FLATTEST = 1.6, 0.3  # of diagonals
FEW = 8  # pieces in a channel, where diagonals are tried


@dataclass(frozen=True)
class Room:
    """A band in pixels: y grows upward; `shapes` are the items that stand there, by number.

    No arrow runs diagonally from or to the numbers in `crowded`.
    """

    whole: Whole
    pieces: Pieces
    across: Across
    along: Along
    shapes: Mapping[int, Item]
    crowded: frozenset[int] = frozenset()

    def leaves(self, end: End) -> Point:
        """The place of a port from which a stretch goes, or the middle of an item."""
        return self._place(end, 1)

    def enters(self, end: End) -> Point:
        """The place of a port to which a stretch goes, or the middle of an item."""
        return self._place(end, 0)

    def _place(self, end: End, side: int) -> Point:
        height = self.along.rows[end.row]
        if end.inner == TOP:
            return self.across.centres[end.column], height
        return self.across.sides[end.inner][side], height

    def is_straight(self, place: int) -> bool:
        """Whether a stretch runs to the middle of its end in one line."""
        return place not in self.whole.bent and is_one_line(self.whole.stretches[place])

    @cached_property
    def numbers(self) -> dict[tuple[int, int], int]:
        """Which item is in each cell."""
        return {self.whole.cells[number]: number for number in self.shapes}

    @cached_property
    def framed(self) -> frozenset[tuple[int, int]]:
        """The cells that are taken by scopes."""
        return frozenset(
            (frame.column, row)
            for frame in self.whole.frames.values()
            for row in range(frame.low, frame.high + 1)
        )

    def middle(self, number: int) -> Point:
        """The middle of an item."""
        column, row = self.whole.cells[number]
        return self.across.centres[column], self.along.rows[row]


class Leg(NamedTuple):
    """The points of one stretch: from `start` along a row; up or down at `leaving` to the height
    `lane`, and at `arriving` to that of the first of `ends`; through these.  None: no such piece.
    """

    start: Point
    leaving: float | None
    lane: float
    arriving: float | None
    ends: tuple[Point, ...]


def routes(room: Room, links: Sequence[int]) -> dict[int, Points]:
    """The points of links, from the border of the source to that of the target."""
    parts = legs(room, sorted({place for link in links for place in room.whole.ways[link]}))
    return {
        link: _joined(_points(parts[place]) for place in room.whole.ways[link]) for link in links
    }


def legs(room: Room, drawn: Sequence[int]) -> dict[int, Leg]:
    """The legs of stretches, which are all that are drawn, in ascending order.

    Where scopes unfold, rows come apart, so no leg is diagonal.
    """
    entries = _entries(room, drawn)
    diagonal = frozenset() if room.whole.unfolding else _diagonals(room, drawn, entries)
    return {
        place: _diagonal(room, place) if place in diagonal else _leg(room, place, entries)
        for place in drawn
    }


def frames(room: Room) -> dict[str, Rectangle]:
    """The frames of groups by their keys; y is that of their lower sides, where y grows upward."""
    found = {}
    for number, frame in room.whole.frames.items():
        left, right = room.across.sides[number]
        low = room.along.rows[frame.low] - room.along.below[number]
        high = room.along.rows[frame.high] + room.along.above[number]
        found[frame.key] = Rectangle(left, low, right - left, high - low)
    return found


def _joined(parts: Iterable[Iterable[Point]]) -> Points:
    """One line; points in the middle of straight pieces are left out."""
    points: list[Point] = []
    for part in parts:
        for point in part:
            if points and _close(points[-1], point):
                continue
            if len(points) > 1 and _between(points[-2], points[-1], point):
                points.pop()
            points.append(point)
    return tuple(points)


def _close(one: Point, other: Point) -> bool:
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) < 1e-6


def _between(before: Point, point: Point, after: Point) -> bool:
    (x0, y0), (x1, y1), (x2, y2) = before, point, after
    return abs((x1 - x0) * (y2 - y1) - (y1 - y0) * (x2 - x1)) < 1e-6


def clip(item: Item, centre: Point, toward: Point) -> Point:
    """Where the line from the middle of an item leaves it."""
    dx, dy = toward[0] - centre[0], toward[1] - centre[1]
    if item.form is Form.CIRCLE:
        scale = _leaving_round(item, abs(dx), abs(dy))
    else:
        sides = ((item.width / 2, abs(dx)), (item.height / 2, abs(dy)))
        scale = min((half / way for half, way in sides if way), default=0.0)
    return centre[0] + dx * scale, centre[1] + dy * scale


def _leaving_round(item: Item, dx: float, dy: float) -> float:
    """How often (dx, dy) leads from the middle of an operator to its border."""
    flat, radius = flat_half(item), item.height / 2
    if dx * radius <= flat * dy:
        return radius / (dy or 1.0)
    square = dx * dx + dy * dy
    return (flat * dx + sqrt(flat * flat * dx * dx - square * (flat * flat - radius**2))) / square


def flat_half(item: Item) -> float:
    """Half of the straight top of an operator: one that is wider than high has round ends."""
    return (item.width - item.height) / 2


@dataclass(frozen=True)
class _Entry:
    """How a stretch enters its target: along `height` to `bend`, then to `border`."""

    height: float
    bend: float
    border: Point


def _entries(room: Room, drawn: Iterable[int]) -> dict[int, _Entry]:
    """For each stretch that comes into an item from above or below, its own place at the border."""
    arriving: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for place in drawn:
        number, item = room.pieces.of[place].arriving, room.whole.stretches[place].end.item
        if number >= 0 and item >= 0 and not room.is_straight(place):
            piece = room.pieces.all[number]
            at = room.across.track(piece.channel, piece.track)
            arriving.setdefault((item, piece.kind == UP), []).append((at, place))
    found = {}
    for (item, from_below), several in arriving.items():
        for slot, (_, place) in enumerate(sorted(several)):
            found[place] = _entry(room, item, slot, len(several), from_below)
    return found


def _entry(room: Room, number: int, slot: int, count: int, from_below: bool) -> _Entry:
    """The first slot is nearest to the middle of the left side."""
    item = room.shapes[number]
    x, y = room.middle(number)
    sign = -1 if from_below else 1
    if item.form is not Form.CIRCLE:
        step = min(SLOT, (item.height / 2 - CORNER) / count)
        height = y + sign * step * (slot + 1)
        return _Entry(height, x - item.width / 2, (x - item.width / 2, height))
    angle = 45.0
    if count > 1:
        angle = LEAST_ANGLE + (GREATEST_ANGLE - LEAST_ANGLE) * slot / (count - 1)
    across, up = cos(radians(angle)), sign * sin(radians(angle))
    x -= flat_half(item)  # the middle of the round end
    radius = item.height / 2
    outer = radius + BEND
    return _Entry(y + outer * up, x - outer * across, (x - radius * across, y + radius * up))


def _leg(room: Room, place: int, entries: Mapping[int, _Entry]) -> Leg:
    """The way of a stretch that is not diagonal."""
    stretch = room.whole.stretches[place]
    start, end = room.leaves(stretch.start), room.enters(stretch.end)
    if stretch.course is Course.ELBOW:
        source, target = (room.shapes[one.item] for one in (stretch.start, stretch.end))
        above = start[0], start[1] + source.height / 2
        return Leg(above, None, 0.0, start[0], (clip(target, end, (start[0], end[1])),))
    straight = room.is_straight(place)
    leaving, arriving = (
        _track(room, number) if number >= 0 else None for number in room.pieces.of[place]
    )
    lane = room.along.rows[stretch.lane] if leaving is not None else start[1]
    entry = entries.get(place)
    ends = (
        ((entry.bend, entry.height), entry.border)
        if entry
        else (_border(room, stretch.end, end, start if straight else (end[0] - 1, end[1])),)
    )
    toward = end if straight else (start[0] + 1, start[1])
    return Leg(_border(room, stretch.start, start, toward), leaving, lane, arriving, ends)


def _points(leg: Leg) -> Iterator[Point]:
    """From the start over the tracks to the end."""
    yield leg.start
    height = leg.start[1]
    if leg.leaving is not None:
        yield leg.leaving, height
        height = leg.lane
        yield leg.leaving, height
    if leg.arriving is not None:
        yield leg.arriving, height
        yield leg.arriving, leg.ends[0][1]
    yield from leg.ends


def _track(room: Room, number: int) -> float:
    piece = room.pieces.all[number]
    return room.across.track(piece.channel, piece.track)


def _border(room: Room, end: End, centre: Point, toward: Point) -> Point:
    return centre if end.item < 0 else clip(room.shapes[end.item], centre, toward)


def _diagonals(room: Room, drawn: Iterable[int], entries: Mapping[int, _Entry]) -> frozenset[int]:
    """The stretches that can go straight from middle to middle between neighbouring cells."""
    together = Counter(
        (room.whole.stretches[place].end.item, room.pieces.all[room.pieces.of[place][1]].kind)
        for place in entries
    )
    users = Counter(number for pair in room.pieces.of for number in pair)
    beside: dict[int, list[Piece]] = {}
    for piece in room.pieces.all:
        beside.setdefault(piece.channel, []).append(piece)
    found = set()
    for place in drawn:
        stretch = room.whole.stretches[place]
        leaving, arriving = room.pieces.of[place]
        if place not in entries or leaving >= 0 or stretch.start.item < 0:
            continue
        piece = room.pieces.all[arriving]
        alone = users[arriving] == 1 and together[stretch.end.item, piece.kind] == 1
        others = beside[piece.channel]
        if alone and len(others) <= FEW and _is_clear(room, stretch, piece, others):
            found.add(place)
    return frozenset(found)


def _is_clear(room: Room, stretch: Stretch, piece: Piece, others: Iterable[Piece]) -> bool:
    """Whether nothing is near the line from the start of a stretch to its end."""
    start, end = stretch.start, stretch.end
    if end.column - start.column != 1 or abs(end.row - start.row) != 1:
        return False
    if {start.item, end.item} & room.crowded:
        return False
    low, high = sorted((start.row, end.row))
    if any(one is not piece and one.low <= high and one.high >= low for one in others):
        return False
    (x0, y0), (x1, y1) = room.leaves(start), room.enters(end)
    if not FLATTEST < abs(y1 - y0) / (x1 - x0) < STEEPEST:
        return False
    corners = ((start.column, end.row), (end.column, start.row))
    if any(cell in room.framed for cell in corners):
        return False
    boxes = (room.numbers[cell] for cell in corners if cell in room.numbers)
    return not any(_hits(room, number, (x0, y0), (x1, y1)) for number in boxes)


def _hits(room: Room, number: int, start: Point, end: Point) -> bool:
    """Whether a diagonal comes too near to an item in one of the two other cells of its square."""
    item = room.shapes.get(number)
    if item is None:
        return False
    x, y = room.middle(number)
    (x0, y0), (x1, y1) = start, end
    reach = abs(y1 - y0) * (item.width / 2 + CLEARANCE) + (x1 - x0) * (item.height / 2 + CLEARANCE)
    return abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) < reach


def _diagonal(room: Room, place: int) -> Leg:
    stretch = room.whole.stretches[place]
    start, end = room.leaves(stretch.start), room.enters(stretch.end)
    border = _border(room, stretch.end, end, start)
    return Leg(_border(room, stretch.start, start, end), None, 0.0, None, (border,))
