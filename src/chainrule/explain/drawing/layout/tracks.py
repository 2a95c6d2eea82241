"""Vertical pieces of arrows in the channels between columns, each on a track that is free."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.layout.grid import Course
from chainrule.explain.drawing.layout.whole import Stretch

DOWN, UP, BACK = range(3)  # in this order from left to right; BACK are the last pieces of loops
BEFORE_END = 0.25  # of a row: by so much a piece that ends at an item stays away from its middle
AROUND = 0.4  # of a row: so far from its middle the ports of a scope in it can be
BEYOND = 0.45  # of a row: a piece that stays in it is after those that leave it


@dataclass
class Piece:
    """From row `start` to rows on the way to `reach`; channel c is before column c."""

    channel: int
    kind: int
    start: float
    reach: float
    track: int = -1

    @property
    def low(self) -> float:
        """The lower end, in rows."""
        return min(self.start, self.reach)

    @property
    def high(self) -> float:
        """The upper end, in rows."""
        return max(self.start, self.reach)


class Verticals(NamedTuple):
    """The pieces of one stretch: to its lane, and from there to its end (-1: none)."""

    leaving: int = -1
    arriving: int = -1


class Want(NamedTuple):
    """A piece that a stretch needs, of the value that comes from `source`."""

    source: int
    channel: int
    kind: int
    start: float
    reach: float


Wants = tuple[Want | None, Want | None]  # the leaving and the arriving piece of a stretch


@dataclass(frozen=True)
class Pieces:
    """All pieces, those of every stretch, and how many tracks each channel needs."""

    all: tuple[Piece, ...]
    of: tuple[Verticals, ...]
    tracks: tuple[int, ...]


def pieces_of(stretches: Sequence[Stretch], columns: int) -> Pieces:
    """The pieces of a whole band."""
    return gathered(map(wants, stretches), columns)


def gathered(wanted: Iterable[Wants], columns: int) -> Pieces:
    """Pieces of one source that begin at the same point are one piece."""
    found: list[Piece] = []
    known: dict[tuple[int, int, int, float], int] = {}

    def place(want: Want | None) -> int:
        if want is None:
            return -1
        source, channel, kind, start, reach = want
        number = known.setdefault((channel, source, kind, start), len(found))
        if number == len(found):
            found.append(Piece(channel, kind, start, reach))
        extreme = max if kind == UP else min
        found[number].reach = extreme(found[number].reach, reach)
        return number

    of = tuple(Verticals(place(leaving), place(arriving)) for leaving, arriving in wanted)
    channels: list[list[Piece]] = [[] for _ in range(columns)]
    for one in found:
        channels[one.channel].append(one)
    return Pieces(tuple(found), of, tuple(map(_assign, channels)))


def is_one_line(stretch: Stretch) -> bool:
    """Whether a stretch needs no vertical piece in a channel."""
    if stretch.course is Course.LANE:
        near = stretch.end.column - stretch.start.column == 1
        return stretch.start.row == stretch.end.row and (near or stretch.lane == stretch.end.row)
    return stretch.course is not Course.LOOP


class Port(Enum):
    """What an end of a stretch is, of a scope that may be unfolded: no port of it; one that stays
    in its row; or one that can be above or below its row."""

    NONE = 0
    LEVEL = 1
    LOOSE = 2


def wants(stretch: Stretch, leaves: Port = Port.NONE, enters: Port = Port.NONE) -> Wants:
    """The pieces that a stretch needs; they pass all places where a loose port can be."""
    source, start, end, course, lane = stretch
    if course is Course.LOOP:
        before = end.row - AROUND if enters is Port.LOOSE else _before(end.item, end.row, lane)
        return (
            _want(source, start.column + 1, (start.row, leaves), (lane, Port.NONE)),
            Want(source, end.column, BACK, lane, before),
        )
    if course is not Course.LANE:
        return None, None
    near = end.column - start.column == 1
    leaving = arriving = None
    if near:
        lane = start.row
    elif start.row != lane or leaves is Port.LOOSE:
        leaving = _want(source, start.column + 1, (start.row, leaves), (lane, Port.NONE))
        leaves = Port.NONE
    if lane != end.row or Port.LOOSE in (leaves, enters):
        arriving = _want(source, end.column, (lane, leaves), (end.row, enters), end.item)
    return leaving, arriving


def _want(
    source: int, channel: int, start: tuple[int, Port], end: tuple[int, Port], item: int = -1
) -> Want:
    """A piece from a row to another one, or between a loose port and the same row.

    What comes to a row, but not from below, comes after what leaves it: BACK.
    """
    (row, leaves), (goal, enters) = start, end
    if row == goal:
        kind = UP if enters is Port.LOOSE else BACK
        first, last = row - BEYOND, row + BEYOND
        return Want(source, channel, kind, *((first, last) if kind == UP else (last, first)))
    kind, sign = (UP, 1) if row < goal else (DOWN, -1)
    first = row - sign * AROUND if leaves is Port.LOOSE else row
    last = goal if enters is Port.LEVEL else _before(item, goal, row)
    if enters is Port.LOOSE:
        last = goal + sign * AROUND
    if kind == DOWN and enters is not Port.NONE:
        kind = BACK
    return Want(source, channel, kind, first, last)


def _before(item: int, row: int, lane: int) -> float:
    """At a port a piece ends at its row, at an item before that."""
    if item < 0:
        return row
    return row - BEFORE_END if lane < row else row + BEFORE_END


def _assign(pieces: Sequence[Piece]) -> int:
    """Gives tracks to the pieces of a channel, and returns how many there are.

    What begins in a row comes left of what ends in it, so that their horizontal parts do not
    meet: of pieces that go up, those that begin higher are left; of those that go down, right.
    """
    count = _stack([one for one in pieces if one.kind == DOWN], 0, 1)
    count = _stack([one for one in pieces if one.kind == UP], count, -1)
    for piece in sorted((one for one in pieces if one.kind == BACK), key=lambda one: one.start):
        piece.track = count
        count += 1
    return count


def _stack(pieces: list[Piece], first: int, sign: int) -> int:
    """The next track right of all earlier pieces that a piece overlaps.

    `starts` and `tracks` keep, of the earlier pieces, those that no later one surpasses in track.
    """
    count = first
    starts: list[float] = []  # times sign, ascending
    tracks: list[int] = []  # descending
    for piece in sorted(pieces, key=lambda one: (sign * one.start, -sign * one.reach)):
        beyond = bisect_left(starts, sign * piece.reach)
        piece.track = tracks[beyond] + 1 if beyond < len(starts) else first
        count = max(count, piece.track + 1)
        while tracks and tracks[-1] <= piece.track:
            tracks.pop()
            starts.pop()
        starts.append(sign * piece.start)
        tracks.append(piece.track)
    return count
