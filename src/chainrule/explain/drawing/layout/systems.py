"""Folds a placement that is wider than a page into systems, as a score breaks its staves.

Each system is the next stretch of columns, forward pass above backward pass, below the one before.
An arrow that crosses a break ends in a short stub with the name of its value and goes on from such
a stub in the next system.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass, replace
from chainrule.explain.drawing.figure import Arrow, Placement, Points, Rectangle, Stub

MARGIN = 24.0  # pixels beside a folded picture
STUB = 26.0  # pixels that an arrow runs on beyond a break
SIGN = 58.0  # room for a stub and its name
BETWEEN_SYSTEMS = 44.0
WIDEST_GAP = 116.0  # pixels between what stands above each other: more says nothing
CLEAR = 3.0  # pixels between a break and a box
UNEVEN = 1.3  # times that a system may be wider or narrower than if all were alike
COST = 24.0  # pixels away from the middle of these that are worth one broken arrow less
ROUGH = 8.0  # pixels between places for a break that are compared


def in_systems(placement: Placement, most: float, further: int) -> Placement:
    """The placement in systems of at most `most` pixels; the last `further` bands by themselves.

    A single box that is wider stays whole.  `placement` itself where it is not wider.
    """
    if placement.width <= most:
        return placement
    spans = placement.spans
    first = len(spans) - further
    sheets = [(spans[0][0], spans[first - 1][1])] if first else []
    return _Folding(placement, most, [*sheets, *spans[first:]]).placement()


@dataclass(frozen=True)
class _System:
    """The columns between two breaks, and where they go: an x moves by `dx`, a y to `y_of` it."""

    left: float
    right: float
    dx: float
    y_of: Callable[[float], float]


class _Folding:
    """Collects what is in each system."""

    def __init__(
        self, placement: Placement, most: float, sheets: Sequence[tuple[float, float]]
    ) -> None:
        self.old, self.most, self.sheets = placement, most, sheets
        self.new: dict[str, dict[str, Rectangle]] = {"boxes": {}, "groups": {}, "mirrored": {}}
        self.arrows: list[Arrow] = []
        self.stubs: dict[Stub, None] = {}
        self.rest: list[Rectangle] = []
        self.spans: list[tuple[float, float]] = []
        self.right = 0.0

    def placement(self) -> Placement:
        """All sheets below each other."""
        ends = [(low + top) / 2 for (_, low), (top, _) in pairwise(self.sheets)]
        ranges = pairwise((-math.inf, *ends, math.inf))
        start, before = 0.0, 0.0
        for (top, low), (first, last) in zip(self.sheets, ranges, strict=True):
            start = self._sheet(first, last, start + top - before)
            before = low
        tail = self.old.height - before
        return replace(
            self.old,
            boxes=self.new["boxes"],
            groups=self.new["groups"],
            mirrored_groups=self.new["mirrored"],
            arrows=tuple(self.arrows),
            spans=tuple(self.spans),
            width=self.right,
            height=start + tail,
            rest=tuple(self.rest),
            stubs=tuple(self.stubs),
        )

    def _sheet(self, first: float, last: float, start: float) -> float:
        """One range of y, from `start` on; where it ends."""
        old = self.old

        def within(y: float) -> bool:
            return first <= y < last

        boxes = {key: one for key, one in old.boxes.items() if within(one.centre[1])}
        arrows = [one for one in old.arrows if within(one.points[0][1])]
        kinds = ("groups", old.groups), ("mirrored", old.mirrored_groups)
        frames = {name: {k: v for k, v in of.items() if within(v.centre[1])} for name, of in kinds}
        around = [one for of in frames.values() for one in of.values()]
        breaks = _breaks(boxes.values(), around, arrows, self.most)
        drawn = [(one, _broken(one.points, breaks)) for one in arrows]
        taken = _taken(boxes.values(), breaks, drawn, frames)
        systems: list[_System] = []
        y = start - BETWEEN_SYSTEMS
        for (left, right), ranges in zip(pairwise(breaks), taken, strict=True):
            margin = SIGN if left > breaks[0] else MARGIN
            widest = WIDEST_GAP if breaks[2:] else math.inf
            y_of, y = _squeezed(ranges, y + BETWEEN_SYSTEMS, widest)
            systems.append(_System(left, right, margin - left, y_of))
            beyond = SIGN if right < breaks[-1] else MARGIN
            self.right = max(self.right, margin + right - left + beyond)
        for key, box in boxes.items():
            self.new["boxes"][key] = _moved(box, systems[_at(box.centre[0], breaks)])
        for name, of in frames.items():
            for key, box in of.items():
                parts = [_moved(one, systems[at]) for at, one in _parts(box, breaks)]
                self.new[name][key] = parts[0]
                self.rest += parts[1:]
        for arrow, ways in drawn:
            self._arrow(arrow, ways, systems)
        self._add_spans(first, last, systems, start, y)
        return y

    def _add_spans(
        self, first: float, last: float, systems: list[_System], start: float, end: float
    ) -> None:
        spans = [one for one in self.old.spans if first <= (one[0] + one[1]) / 2 < last]
        if len(systems) == 1:
            y_of = systems[0].y_of
            self.spans += [(y_of(top), y_of(low)) for top, low in spans]
        else:
            self.spans += [(start, end)] * len(spans)

    def _arrow(self, arrow: Arrow, ways: list[tuple[int, Points]], systems: list[_System]) -> None:
        for place, (at, points) in enumerate(ways):
            system = systems[at]
            moved = [(x + system.dx, system.y_of(y)) for x, y in points]
            begins, ends = place == 0, place == len(ways) - 1
            if not begins:
                moved.insert(0, self._stub(arrow, moved[0], is_left=points[0][0] == system.left))
            if not ends:
                moved.append(self._stub(arrow, moved[-1], is_left=points[-1][0] == system.left))
            self.arrows.append(replace(arrow, points=tuple(moved), begins=begins, ends=ends))

    def _stub(
        self, arrow: Arrow, end: tuple[float, float], *, is_left: bool
    ) -> tuple[float, float]:
        """The outer end of a stub that begins at a break."""
        x, y = end[0] - STUB if is_left else end[0] + STUB, end[1]
        self.stubs[Stub(round(x), round(y), is_left, arrow.source, arrow.target)] = None
        return x, y


def _moved(box: Rectangle, system: _System) -> Rectangle:
    top, low = system.y_of(box.y), system.y_of(box.y + box.height)
    return Rectangle(box.x + system.dx, top, box.width, low - top, box.below)


def _at(x: float, breaks: Sequence[float]) -> int:
    """The system in which an x is."""
    return max(0, min(len(breaks) - 2, bisect_right(breaks, x) - 1))


def _breaks(
    boxes: Iterable[Rectangle],
    frames: Sequence[Rectangle],
    arrows: Sequence[Arrow],
    most: float,
) -> list[float]:
    """The left end, the x of the breaks, and the right end."""
    boxes = sorted(boxes, key=lambda one: one.x)
    ends = [x for arrow in arrows for x, _ in arrow.points]
    left = min([one.x for one in (*boxes, *frames)] + ends)
    right = max([one.x + one.width for one in (*boxes, *frames)] + ends)
    walls = _Sweep((one.x - CLEAR, one.x + one.width + CLEAR) for one in boxes)
    lines = _Sweep(
        (min(a[0], b[0]), max(a[0], b[0])) for one in arrows for a, b in pairwise(one.points)
    )
    found, room = [left], most - 2 * SIGN
    while right - found[-1] > (room if found[1:] else most - 2 * MARGIN):
        found.append(_break(*_where(found[-1], right, room), walls, lines))
    return [*found, right]


def _where(start: float, right: float, room: float) -> tuple[float, float]:
    """Between which x the next system ends: all are about as wide, and none more than needed."""
    count = math.ceil((right - start) / room)
    even = (right - start) / count
    end = start + min(room, even * UNEVEN)
    return max(min(start + even / UNEVEN, end), right - (count - 1) * room), end


class _Sweep:
    """Ranges of x, of which those near a place are asked for from left to right."""

    def __init__(self, ranges: Iterable[tuple[float, float]]) -> None:
        self.rest = sorted(ranges, reverse=True)
        self.near: list[tuple[float, float]] = []

    def between(self, start: float, end: float) -> list[tuple[float, float]]:
        """Those that have a part between the two."""
        while self.rest and self.rest[-1][0] < end:
            self.near.append(self.rest.pop())
        self.near = [one for one in self.near if one[1] > start]
        return self.near


def _break(first: float, end: float, walls: _Sweep, lines: _Sweep) -> float:
    """The x of a break between the two: through no box if it can be, and through few arrows."""
    boxes, arrows = walls.between(first, end), lines.between(first, end)

    def overhang(x: float) -> float:
        return sum(min(x - low, high - x) for low, high in boxes if low < x < high)

    middle = (first + end) / 2

    def worth(x: float) -> tuple[float, float]:
        crossed = sum(low < x < high for low, high in arrows)
        return -overhang(x), -abs(x - middle) - COST * crossed

    count = int((end - first) // ROUGH) + 1
    return max((end - ROUGH * place for place in range(count)), key=worth)


def _broken(points: Points, breaks: Sequence[float]) -> list[tuple[int, Points]]:
    """The pieces of a line, each with its system."""
    inner = breaks[1:-1]
    system = _at(_first_x(points), breaks)
    pieces: list[tuple[int, Points]] = []
    piece = [points[0]]
    for (x, y), (to_x, to_y) in pairwise(points):
        low, high = min(x, to_x), max(x, to_x)
        crossed = inner[bisect_right(inner, low) : bisect_left(inner, high)]
        for one in crossed if to_x > x else reversed(crossed):
            at = one, y + (to_y - y) * (one - x) / (to_x - x)
            pieces.append((system, (*piece, at)))
            system += 1 if to_x > x else -1
            piece = [at]
        piece.append((to_x, to_y))
    pieces.append((system, tuple(piece)))
    return pieces


def _first_x(points: Points) -> float:
    """An x at the beginning of a line that is on the side to which it goes."""
    (x, _), (to_x, _) = points[:2]
    return x + (to_x - x) * 1e-6


def _parts(box: Rectangle, breaks: Sequence[float]) -> Iterator[tuple[int, Rectangle]]:
    """What each system shows of a frame."""
    last = len(breaks) - 2
    for at in range(_at(box.x, breaks), _at(box.x + box.width, breaks) + 1):
        left, right = breaks[at : at + 2]
        low = box.x if at == 0 else max(box.x, left - STUB / 2)
        high = box.x + box.width if at == last else min(box.x + box.width, right + STUB / 2)
        if min(high, right) - max(low, left) > 1:
            yield at, Rectangle(low, box.y, high - low, box.height)


def _taken(
    boxes: Iterable[Rectangle],
    breaks: Sequence[float],
    drawn: Sequence[tuple[Arrow, list[tuple[int, Points]]]],
    frames: Mapping[str, Mapping[str, Rectangle]],
) -> list[list[tuple[float, float]]]:
    """The ranges of y that hold something, for each system: boxes, borders, ends and bends."""
    found: list[list[tuple[float, float]]] = [[] for _ in breaks[1:]]
    for box in boxes:
        found[_at(box.centre[0], breaks)].append((box.y, box.y + box.height + box.below))
    for _, ways in drawn:
        for at, points in ways:
            found[at] += ((y, y) for _, y in points)
    for of in frames.values():
        for box in of.values():
            for at, _ in _parts(box, breaks):
                found[at] += ((y, y) for y in (box.y, box.y + box.height))
    return found


def _squeezed(
    ranges: list[tuple[float, float]], start: float, widest: float
) -> tuple[Callable[[float], float], float]:
    """Where each y of a system goes that begins at `start`, with no gap over `widest`; its end."""
    marks: list[tuple[float, float]] = []  # y before and after, at the ends of what is taken
    old = new = 0.0
    for top, low in sorted(ranges):
        if not marks:
            old, new = top, start
        elif top > old:
            new += min(top - old, widest)
            old = top
        marks.append((old, new))
        if low > old:
            old, new = low, new + low - old
            marks.append((old, new))
    xs, ys = zip(*marks, strict=True) if marks else ((0.0,), (start,))

    def y_of(y: float) -> float:
        at = bisect_right(xs, y) - 1
        if at < 0:
            return ys[0] + y - xs[0]
        if at == len(xs) - 1:
            return ys[at] + y - xs[at]
        share = (y - xs[at]) / (xs[at + 1] - xs[at])
        return ys[at] + share * (ys[at + 1] - ys[at])

    return y_of, new if marks else start
