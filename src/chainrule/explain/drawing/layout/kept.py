"""The values that the backward band needs: short dashed arrows, or copies beside the operators.

Heights are those of the mirrored band: y grows downward from the middle of its row 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor

from chainrule.dataclass import dataclass, field, replace
from chainrule.explain.drawing.figure import SIDE, Item, Kept, Points, Rectangle
from chainrule.explain.drawing.layout.metrics import (
    DOWNWARD,
    PAD,
    TITLE,
    UPWARD,
    Along,
    Extent,
    across,
    along,
    extents_of,
)
from chainrule.explain.drawing.layout.obstacles import Obstacles, Point
from chainrule.explain.drawing.layout.routes import Room, clip, frames, routes
from chainrule.explain.drawing.layout.tracks import Pieces
from chainrule.explain.drawing.layout.whole import Whole

BETWEEN_BANDS = 116.0  # from the lowest box of a band to the highest of the next
LEAST_BETWEEN = 24.0  # where copies stand between bands
ASIDE, AWAY = 17.0, 10.0  # from an operator to a copy at one of its corners, across and along
CORNERS = ((1, -1), (-1, -1), (1, 1), (-1, 1))  # in this order: above right, above left, below
BESIDE = 8.0  # between copies in a line
STACK = 36.0  # from an operator to the middle of its line of copies, less half a copy
SPREAD = 0.95  # a line of copies is so much farther away as it is wider, that its arrows are free
SEEN = 100.0  # around operators, what can be in the way of copies
TRIES = 3  # then all copies stand in lines


@dataclass(frozen=True)
class Mirror:
    """The backward band before it has a size: what stands below which item of the grid.

    `links` are those of the grid that are drawn, backward; `kept` gives for each kept value the
    number below whose item it is read, and that of the item that it is (-1: of none on the grid).
    """

    whole: Whole
    pieces: Pieces
    forward: Mapping[int, Item]
    backward: Mapping[int, Item]
    links: Sequence[int]
    kept: Sequence[tuple[int, int, Kept]]
    hide_forward: bool


@dataclass
class Mirrored:
    """The backward band in pixels; `middle` is the y of the forward band's row 0."""

    room: Room
    forward: Along
    middle: float
    routes: dict[int, Points]
    copies: dict[int, Rectangle] = field(default_factory=dict)  # by place in `kept`
    arrows: dict[int, Points] = field(default_factory=dict)


def mirror(band: Mirror) -> Mirrored:
    """Copies stand at a free corner; where there is none, in a line for which the rows part."""
    lined: set[int] = set()
    for _ in range(TRIES):
        result = _measure(band, lined)
        crowded = _fit(band, result, lined)
        if not crowded:
            return result
        lined |= crowded
    lined |= {target for target, _, _ in band.kept}
    result = _measure(band, lined)
    _fit(band, result, lined)
    return result


def _copies_of(band: Mirror, lined: Iterable[int]) -> dict[int, list[int]]:
    """The places in `kept` of each operator whose copies stand in a line."""
    found: dict[int, list[int]] = {target: [] for target in sorted(lined)}
    for place, (target, _, _) in enumerate(band.kept):
        if target in found:
            found[target].append(place)
    return found


def _line(band: Mirror, places: Sequence[int]) -> tuple[float, float, float]:
    """Width and height of a line of copies, and its middle's distance from the operator."""
    copies = [band.kept[place][2].copy for place in places]
    width = sum(copy.width for copy in copies) + BESIDE * (len(copies) - 1)
    height = max(copy.height for copy in copies)
    return width, height, max(STACK + height / 2, SPREAD * width / 2 + BESIDE)


def _measure(band: Mirror, lined: set[int]) -> Mirrored:
    """The band with room for the given lines of copies."""
    cells = band.whole.cells
    sizes = [(number, item.width) for number, item in band.forward.items()]
    sizes += [(number, item.width) for number, item in band.backward.items()]
    extents = list(extents_of(band.whole, band.backward, is_downward=True))
    for target, places in _copies_of(band, lined).items():
        width, height, away = _line(band, places)
        half = band.backward[target].height / 2
        row = cells[target][1]
        extents.append(Extent(row, half, half + away + height / 2 + BESIDE))
        sizes.append((target, width))
    x = across(band.whole, band.pieces, sizes)
    forward = along(band.whole, extents_of(band.whole, band.forward), UPWARD)
    backward = along(band.whole, extents, DOWNWARD)
    room = Room(band.whole, band.pieces, x, backward, band.backward, frozenset(lined))
    lowest = (item.height / 2 for number, item in band.backward.items() if not cells[number][1])
    between = max(BETWEEN_BANDS + max(lowest, default=0.0), LEAST_BETWEEN - backward.bottom)
    middle = forward.bottom - between
    return Mirrored(room, forward, middle, routes(room, band.links))


def _fit(band: Mirror, result: Mirrored, lined: set[int]) -> set[int]:
    """Places all copies; returns the operators for whose copies there was no room."""
    for target, places in _copies_of(band, lined).items():
        _place_line(band, result, target, places)
    free = [place for place, (target, _, _) in enumerate(band.kept) if target not in lined]
    obstacles = _obstacles(band, result, {band.kept[place][0] for place in free})
    for frame, told in zip(frames(result.room).values(), band.whole.frames.values(), strict=True):
        obstacles.add_box(replace(frame, width=told.label_width + PAD, height=TITLE))
    crowded = set()
    rest = []
    for place in free:
        target, source, _ = band.kept[place]
        points = None if band.hide_forward else _direct(result, band, target, source)
        if points and obstacles.is_clear(
            *points, (_box(result.room, target), _above(band, result, source))
        ):
            obstacles.add_lines(points)
            result.arrows[place] = points
        else:
            rest.append(place)
    for frame in frames(result.room).values():
        obstacles.add_lines(_corner_points(frame))
        obstacles.add_lines(_corner_points(replace(frame, height=TITLE)))
    for place in rest:
        target, _, kept = band.kept[place]
        for box, points in _corners(result, target, kept.copy):
            if obstacles.has_room(box) and obstacles.is_clear(
                *points, (_box(result.room, target),)
            ):
                obstacles.add_box(box)
                obstacles.add_lines(points)
                result.copies[place], result.arrows[place] = box, points
                break
        else:
            crowded.add(target)
    return crowded


def _place_line(band: Mirror, result: Mirrored, target: int, places: Sequence[int]) -> None:
    """Copies side by side above their operator."""
    width, _, away = _line(band, places)
    x, y = result.room.middle(target)
    y -= band.backward[target].height / 2 + away
    left = x - width / 2
    for place in places:
        copy = band.kept[place][2].copy
        box = Rectangle(left, y - copy.height / 2, copy.width, copy.height)
        result.copies[place], result.arrows[place] = box, _arrow(result, target, copy, box)
        left += copy.width + BESIDE


def _arrow(result: Mirrored, target: int, copy: Item, box: Rectangle) -> tuple[Point, Point]:
    """From a copy to its operator, toward its middle."""
    centre = result.room.middle(target)
    start = clip(copy, box.centre, centre)
    return start, clip(result.room.shapes[target], centre, box.centre)


def _corners(
    result: Mirrored, target: int, copy: Item
) -> Iterator[tuple[Rectangle, tuple[Point, Point]]]:
    """The places at the corners of an operator, the best first."""
    item = result.room.shapes[target]
    x, y = result.room.middle(target)
    across = (item.width + copy.width) / 2 + ASIDE
    along = (item.height + copy.height) / 2 + AWAY
    for right, down in CORNERS:
        centre = x + right * across, y + down * along
        box = Rectangle(
            centre[0] - copy.width / 2, centre[1] - copy.height / 2, copy.width, copy.height
        )
        yield box, _arrow(result, target, copy, box)


def _direct(result: Mirrored, band: Mirror, target: int, source: int) -> tuple[Point, Point] | None:
    """From a value in row 0 of the forward band to an operator at most a column away."""
    if source < 0:
        return None
    (column, row), (from_column, from_row) = (band.whole.cells[one] for one in (target, source))
    if row or from_row or abs(column - from_column) > 1:
        return None
    end, start = result.room.middle(target), (result.room.middle(source)[0], result.middle)
    return _leaving(band.forward[source], start, end), clip(band.backward[target], end, start)


def _leaving(item: Item, centre: Point, toward: Point) -> Point:
    """Where an arrow that goes down leaves an item: below the words that stand below it."""
    if not item.below:
        return clip(item, centre, toward)
    way = item.height / 2 + item.below
    share = way / (toward[1] - centre[1])
    return centre[0] + (toward[0] - centre[0]) * share, centre[1] + way


def _corner_points(box: Rectangle) -> Iterator[Point]:
    """Around a rectangle."""
    right, low = box.x + box.width, box.y + box.height
    yield from ((box.x, box.y), (right, box.y), (right, low), (box.x, low), (box.x, box.y))


def _box(room: Room, number: int) -> Rectangle:
    """The box of an item of the backward band."""
    item = room.shapes[number]
    x, y = room.middle(number)
    return Rectangle(x - item.width / 2, y - item.height / 2, item.width, item.height + item.below)


def _above(band: Mirror, result: Mirrored, number: int) -> Rectangle:
    """The box of an item in row 0 of the forward band."""
    item = band.forward[number]
    x = result.room.middle(number)[0]
    y = result.middle
    return Rectangle(x - item.width / 2, y - item.height / 2, item.width, item.height + item.below)


def _obstacles(band: Mirror, result: Mirrored, targets: Iterable[int]) -> Obstacles:
    """All that is near the given operators: boxes of both bands, copies, arrows, frames."""
    reach = BETWEEN_BANDS + SEEN
    interest = []
    for target in targets:
        box = _box(result.room, target)
        size = 2 * reach
        interest.append(
            Rectangle(box.x - reach, box.y - reach, box.width + size, box.height + size)
        )
    found = Obstacles(interest)
    for number in band.backward:
        found.add_box(_box(result.room, number))
    if not band.hide_forward:
        for number in band.forward:
            if not band.whole.cells[number][1]:
                found.add_box(_above(band, result, number))
    for box in result.copies.values():
        found.add_box(box)
    for points in (*result.routes.values(), *result.arrows.values()):
        found.add_lines(points)
    if band.whole.unfolding:
        _keep_free(band, result.room, found)
    return found


def _keep_free(band: Mirror, room: Room, obstacles: Obstacles) -> None:
    """Where scopes unfold: above and below them as far as nothing else stands in their columns,
    and around the pieces of arrows, which become longer."""
    rows = room.along.rows
    columns: dict[int, list[int]] = {}
    for number in band.backward:
        columns.setdefault(band.whole.cells[number][0], []).append(number)
    for number in band.whole.unfolding & band.backward.keys():
        column, row = band.whole.cells[number]
        taken = [band.whole.cells[one][1] for one in columns[column]]
        half = (
            ASIDE
            + BESIDE
            + max(
                max(band.forward[one].width, band.backward[one].width) / 2
                for one in columns[column]
            )
        )
        low = max((rows[one] + SIDE / 2 for one in taken if one < row), default=-SEEN)
        high = min((rows[one] - SIDE / 2 for one in taken if one > row), default=rows[-1] + SEEN)
        x, y = room.middle(number)
        low, high = min(low, y - SIDE / 2), max(high, y + SIDE / 2)
        obstacles.add_box(Rectangle(x - half, low, 2 * half, high - low))
    for piece in room.pieces.all:
        x = room.across.track(piece.channel, piece.track)
        low, high = rows[floor(piece.low)] - SIDE, rows[min(ceil(piece.high), len(rows) - 1)] + SIDE
        obstacles.add_line((x, low), (x, high))
