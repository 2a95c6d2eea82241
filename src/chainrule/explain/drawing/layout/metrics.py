"""From columns and rows to pixels: each as large as what stands in it, with room between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.figure import Item
from chainrule.explain.drawing.layout.scopes import TOP
from chainrule.explain.drawing.layout.tracks import Pieces
from chainrule.explain.drawing.layout.whole import Frame, Whole

COLUMN_GAP = 36.0  # with squares of 52 pixels: the network of a textbook, with biases, fits a page
PORT_GAP = 30.0  # beside the border of a frame
ROW_GAP = 44.0  # between rows of items: 96 apart
LANE_GAP = 22.0  # between a row of items and one of lanes
LANES_GAP = 12.0  # between rows of lanes
CLOSE_GAP = 12.0  # between items and beside them, where no arrow runs
TRACK_GAP = 8.0
BEFORE_TRACKS = 12.0
AFTER_TRACKS = 24.0  # where arrows bend into their targets
PAD = 14.0  # between a frame and what is in it
TITLE = 20.0


@dataclass(frozen=True)
class Titles:
    """The room for the titles of frames, above their last rows and below their first."""

    above: float = 0.0
    below: float = 0.0


UPWARD, DOWNWARD = Titles(above=TITLE), Titles(below=TITLE)  # titles are always at the top


@dataclass(frozen=True)
class Across:
    """The x of the middle of columns and of the first tracks in the channels before them; and the
    left and right ends of scopes."""

    centres: Sequence[float]
    first_tracks: Sequence[float]
    sides: Mapping[int, tuple[float, float]]

    def track(self, channel: int, track: int) -> float:
        """The x of a track."""
        return self.first_tracks[channel] + track * TRACK_GAP


@dataclass(frozen=True)
class Along:
    """The height y of rows, growing upward from 0 at the lowest; what frames reach above and below
    their first and last rows; and the range that all of it takes."""

    rows: Sequence[float]
    above: Mapping[int, float]
    below: Mapping[int, float]
    top: float
    bottom: float


@dataclass(frozen=True)
class Extent:
    """What an item takes above and below the middle of its row."""

    row: int
    above: float
    below: float


def across(whole: Whole, pieces: Pieces, sizes: Iterable[tuple[int, float]]) -> Across:
    """Columns as wide as the widest of `sizes` (item, width) and of the scopes that stand there;
    channels as their tracks need."""
    widths = [0.0] * whole.columns
    for number, width in sizes:
        column = whole.cells[number][0]
        widths[column] = max(widths[column], width)
    centres, tracks = [0.0] * whole.columns, [0.0] * whole.columns
    wide = {}
    for number in reversed(whole.frames):
        frame = whole.frames[number]
        gaps = _gaps(whole, frame.columns, pieces.tracks, PORT_GAP)
        gaps[-2] += max(frame.label_width + 2 * PAD - _sum(frame.columns, widths, gaps), 0.0)
        wide[number] = _set_out(frame.columns, pieces.tracks, widths, gaps, (centres, tracks))
        widths[frame.column] = max(widths[frame.column], wide[number])
    gaps = _gaps(whole, whole.top, pieces.tracks, COLUMN_GAP)
    sides = {TOP: (0.0, _set_out(whole.top, pieces.tracks, widths, gaps, (centres, tracks)))}
    for number, frame in whole.frames.items():
        left = centres[frame.column] - wide[number] / 2
        sides[number] = left, left + wide[number]
        for column in (*frame.columns, frame.columns.stop):
            centres[column] += left
            tracks[column] += left
    return Across(centres, tracks, sides)


def _need(count: int) -> float:
    """The width of a channel with so many tracks."""
    return BEFORE_TRACKS + (count - 1) * TRACK_GAP + AFTER_TRACKS if count else 0.0


def _gaps(whole: Whole, columns: range, counts: Sequence[int], outermost: float) -> list[float]:
    """The widths of the channels of a scope; `outermost` is the least of those beside ports."""
    last = len(columns)
    gaps = []
    for place, column in enumerate((*columns, columns.stop)):
        least = outermost if place in (1, last - 1) else COLUMN_GAP
        least = least if whole.stretches else CLOSE_GAP
        gaps.append(max(least if 0 < place < last else 0.0, _need(counts[column])))
    return gaps


def _sum(columns: range, widths: Sequence[float], gaps: Sequence[float]) -> float:
    return sum(gaps) + sum(widths[column] for column in columns)


def _set_out(
    columns: range,
    counts: Sequence[int],
    widths: Sequence[float],
    gaps: Sequence[float],
    into: tuple[list[float], list[float]],
) -> float:
    """Writes the middles of a scope's columns, and its first tracks, counted from its left end.

    Returns its width.
    """
    centres, tracks = into
    x = 0.0
    for column, gap in zip((*columns, columns.stop), gaps, strict=True):
        tracks[column] = x + BEFORE_TRACKS + max(gap - _need(counts[column]), 0.0) / 2
        x += gap
        if column < columns.stop:
            centres[column] = x + widths[column] / 2
            x += widths[column]
    return x


def along(whole: Whole, extents: Iterable[Extent], titles: Titles) -> Along:
    """Rows as high as the highest of `extents`; rows of lanes alone take little."""
    above, below = [0.0] * whole.rows, [0.0] * whole.rows
    filled = [False] * whole.rows
    for one in extents:
        filled[one.row] = True
        above[one.row] = max(above[one.row], one.above)
        below[one.row] = max(below[one.row], one.below)
    tops, bottoms = _frames(whole.frames, above, below, titles)
    rows = [0.0]
    for lower, upper in pairwise(range(whole.rows)):
        count = filled[lower] + filled[upper]
        gap = (LANES_GAP, LANE_GAP, ROW_GAP)[count] if whole.stretches else CLOSE_GAP
        rows.append(rows[-1] + above[lower] + gap + below[upper])
    return Along(rows, tops, bottoms, rows[-1] + above[-1], -below[0])


def _frames(
    frames: dict[int, Frame], above: list[float], below: list[float], titles: Titles
) -> tuple[dict[int, float], dict[int, float]]:
    """What frames reach above and below: the items of their rows and the frames inside them.  The
    rows grow with them."""
    tops: dict[int, float] = {}
    bottoms: dict[int, float] = {}
    around = {column: number for number, frame in frames.items() for column in frame.columns}
    within: dict[tuple[int, int, bool], float] = {}  # what inner frames reach: of a frame, in a row
    of_items = [*above], [*below]
    for number in reversed(frames):
        frame, outer = frames[number], around.get(frames[number].column, TOP)
        for row, reached, rows, items, title, is_top in (
            (frame.high, tops, above, of_items[0], titles.above, True),
            (frame.low, bottoms, below, of_items[1], titles.below, False),
        ):
            inner = within.get((number, row, is_top), 0.0)
            found = reached[number] = max(items[row], inner) + PAD + title
            key = outer, row, is_top
            within[key] = max(within.get(key, 0.0), found)
            rows[row] = max(rows[row], found)
    return tops, bottoms


def extents_of(
    whole: Whole, shapes: Mapping[int, Item], *, is_downward: bool = False
) -> Iterable[Extent]:
    """What the items of a band take, by number; where its rows grow downward, words below an item
    are on the side of the next row."""
    for number, item in shapes.items():
        half = item.height / 2
        ends = (half + item.below, half) if is_downward else (half, half + item.below)
        yield Extent(whole.cells[number][1], *ends)
