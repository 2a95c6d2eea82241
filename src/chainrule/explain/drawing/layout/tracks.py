"""Vertical pieces of arrows in the channels between columns, each on a track that is free."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chainrule.explain.drawing.layout.grid import Course
from chainrule.explain.drawing.layout.whole import Stretch

DOWN, UP, BACK = range(3)  # in this order from left to right; BACK are the last pieces of loops
BEFORE_END = 0.25  # of a row: by so much a piece that ends at an item stays away from its middle


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


@dataclass(frozen=True)
class Pieces:
    """All pieces, those of every stretch, and how many tracks each channel needs."""

    all: tuple[Piece, ...]
    of: tuple[Verticals, ...]
    tracks: tuple[int, ...]


def pieces_of(stretches: Sequence[Stretch], columns: int) -> Pieces:
    """Pieces of one source that begin at the same point are one piece."""
    found: list[Piece] = []
    known: dict[tuple[int, int, int, int], int] = {}

    def piece(source: int, channel: int, kind: int, start: int, reach: float) -> int:
        place = known.setdefault((channel, source, kind, start), len(found))
        if place == len(found):
            found.append(Piece(channel, kind, start, reach))
        extreme = max if kind == UP else min
        found[place].reach = extreme(found[place].reach, reach)
        return place

    of = tuple(_verticals(stretch, piece) for stretch in stretches)
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


def _verticals(stretch: Stretch, piece: Callable[[int, int, int, int, float], int]) -> Verticals:
    """The pieces that a stretch needs; they are made by `piece`."""
    if is_one_line(stretch):
        return Verticals()
    source, start, end, _, lane = stretch
    if stretch.course is Course.LOOP:
        return Verticals(
            piece(source, start.column + 1, UP, start.row, lane),
            piece(source, end.column, BACK, lane, _before(end.item, end.row, lane)),
        )
    near = end.column - start.column == 1
    lane = start.row if near else lane
    leaving = arriving = -1
    if start.row != lane:
        leaving = piece(source, start.column + 1, UP, start.row, lane)
    if lane != end.row:
        kind = UP if lane < end.row else DOWN
        arriving = piece(source, end.column, kind, lane, _before(end.item, end.row, lane))
    return Verticals(leaving, arriving)


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
