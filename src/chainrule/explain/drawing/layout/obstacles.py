"""What is in the way of a small box or a short line, looked up in squares of the plane."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from chainrule.explain.drawing.figure import Rectangle

Point = tuple[float, float]
Line = tuple[Point, Point]
SQUARE = 128.0  # the side of a square, in pixels
BOX_GAP = 6.0  # between boxes, and between a box and a line for which it has to make room
LINE_GAP = 3.0  # between a line and a box that it passes


class Obstacles:
    """Boxes and lines near the rectangles of `interest`; what is elsewhere is not kept."""

    def __init__(self, interest: Iterable[Rectangle]) -> None:
        squares = sorted({square for one in interest for square in _squares(one)})
        self._boxes: dict[tuple[int, int], list[Rectangle]] = {one: [] for one in squares}
        self._lines: dict[tuple[int, int], list[Line]] = {one: [] for one in squares}
        self._across: dict[int, list[int]] = {}
        self._down: dict[int, list[int]] = {}
        for column, row in squares:
            self._across.setdefault(row, []).append(column)
            self._down.setdefault(column, []).append(row)

    def add_box(self, box: Rectangle) -> None:
        """A box that is in the way."""
        for square in _squares(box):
            if square in self._boxes:
                self._boxes[square].append(box)

    def add_line(self, start: Point, end: Point) -> None:
        """A line that is in the way: of any length if it is level or upright, else short."""
        for square in self._along(start, end):
            self._lines[square].append((start, end))

    def add_lines(self, points: Iterable[Point]) -> None:
        """The lines from point to point."""
        before = None
        for point in points:
            if before is not None:
                self.add_line(before, point)
            before = point

    def has_room(self, box: Rectangle) -> bool:
        """Whether no box and no line is in or near `box`."""
        near = _grown(box, BOX_GAP)
        for square in _squares(near):
            if any(overlap(near, one) for one in self._boxes.get(square, ())):
                return False
            if any(crosses_box(*line, near) for line in self._lines.get(square, ())):
                return False
        return True

    def is_clear(self, start: Point, end: Point, ignored: Iterable[Rectangle]) -> bool:
        """Whether a short line meets no other line, and no box but those that are ignored."""
        skipped = set(ignored)
        for square in self._along(start, end):
            for box in self._boxes[square]:
                if box not in skipped and crosses_box(start, end, _grown(box, LINE_GAP)):
                    return False
            if any(cross((start, end), line) for line in self._lines[square]):
                return False
        return True

    def _along(self, start: Point, end: Point) -> Iterator[tuple[int, int]]:
        """The squares of interest that the bounding box of a line touches."""
        left, right = sorted((int(start[0] // SQUARE), int(end[0] // SQUARE)))
        top, bottom = sorted((int(start[1] // SQUARE), int(end[1] // SQUARE)))
        if right - left <= bottom - top:
            for column in range(left, right + 1):
                rows = self._down.get(column, [])
                yield from ((column, row) for row in _within(rows, top, bottom))
        else:
            for row in range(top, bottom + 1):
                columns = self._across.get(row, [])
                yield from ((column, row) for column in _within(columns, left, right))


def _within(ascending: list[int], least: int, greatest: int) -> list[int]:
    return ascending[bisect_left(ascending, least) : bisect_right(ascending, greatest)]


def _squares(box: Rectangle) -> Iterator[tuple[int, int]]:
    for column in range(int(box.x // SQUARE), int((box.x + box.width) // SQUARE) + 1):
        for row in range(int(box.y // SQUARE), int((box.y + box.height) // SQUARE) + 1):
            yield column, row


def _grown(box: Rectangle, by: float) -> Rectangle:
    return Rectangle(box.x - by, box.y - by, box.width + 2 * by, box.height + 2 * by)


def overlap(one: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles have inner points in common."""
    across = one.x < other.x + other.width and other.x < one.x + one.width
    return across and one.y < other.y + other.height and other.y < one.y + one.height


def crosses_box(start: Point, end: Point, box: Rectangle) -> bool:
    """Whether a line has points inside a rectangle."""
    enters, leaves = 0.0, 1.0
    for position, way, least, size in (
        (start[0], end[0] - start[0], box.x, box.width),
        (start[1], end[1] - start[1], box.y, box.height),
    ):
        if abs(way) < 1e-9:
            if not least < position < least + size:
                return False
            continue
        first, last = sorted(((least - position) / way, (least + size - position) / way))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters < leaves


def cross(one: Line, other: Line) -> bool:
    """Whether two lines cross between their ends."""
    (a, b), (c, d) = one, other
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _side(start: Point, end: Point, point: Point) -> float:
    return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])
