"""Products with 3 x 3 windows in fewer multiplications: Winograd's method, on squares of 4 x 4.

Two outputs of a filter of three numbers take four multiplications instead of six,

    y0 = m0 + m1 + m2,  y1 = m1 - m2 + m3,  where
    m0 = (x0 - x2) w0,              m1 = (x1 + x2) (w0 + w1 + w2) / 2,
    m3 = (x3 - x1) w2,              m2 = (x2 - x1) (w0 - w1 + w2) / 2,

and so along both axes 16 instead of 36 for a square of 2 x 2 outputs: Lavin and Gray, "Fast
Algorithms for Convolutional Neural Networks" (2016), F(2 x 2, 3 x 3).  The 16 are matrix products
over the channels.  Three outputs that add up over two positions (the gradient of the filter) take
the same four: F(3 x 3, 2 x 2).  What y0 and y1 read is what they read anyway, so zeros, NaN and
infinity reach no other outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.dtypes import FLOAT32
from chainrule.plan.products.contraction import Axis, Operand, axes_by_role
from chainrule.plan.products.tiles import COLUMNS, PARTS_A_THREAD, Tiles
from chainrule.plan.products.windowed import overlaps
from chainrule.plan.sharing import busiest

POINTS = 4  # of an axis of a square
FEWEST_CHANNELS, MOST_CHANNELS = 32, 512
FEWEST_SQUARES, SHORTEST = 144, 6  # of all; positions along an axis
# Squares that are transformed at once: whole rows of them.
MOST_SQUARES, TRANSFORMED_NBYTES = 128, 2**20
FEW_SQUARES = 20.0  # what a product for one more costs, as squares of it
LINE = 16  # elements of a line of a cache
GAP = LINE  # between planes, so that they lie at different places
FEWEST_TOGETHER = 16  # channels of a part of a gradient of the kernel
STRIPS = 4  # of columns, whose sums are turned into outputs together
# Channels that are added up one after another, so that errors of rounding stay those of other ways.
DEEPEST = 128
NUMBERS = 4  # in the table of a row of squares


@dataclass(frozen=True)
class Around:
    """An axis of images, or whatever else has windows of its own."""

    size: int
    x: int
    outer: int


@dataclass(frozen=True)
class Winograd:
    """A product with windows of x: with a `kernel` (rows, channels, 3, 3) it makes the `outer`
    array (rows, height, width), or `adds_up` that array's products with x to such a kernel.

    Strides are in elements; those of positions along a row of x and of the outer array are 1.
    """

    adds_up: bool
    x_is_first: bool
    rows: int
    channels: int
    height: int
    width: int
    x_channel: int
    x_down: int
    outer_row: int
    outer_down: int
    kernel_row: int
    kernel_channel: int
    kernel_down: int
    kernel_across: int
    around: tuple[Around, ...]
    vector_nbytes: int

    @property
    def across(self) -> int:
        """Squares side by side."""
        return -(-self.width // 2)

    @property
    def down(self) -> int:
        """Rows of squares of one image."""
        return -(-self.height // 2)

    @property
    def square_rows(self) -> int:
        """Rows of squares of all images."""
        return self.down * prod(one.size for one in self.around)

    @property
    def at_once(self) -> int:
        """Rows of squares of a block: as many as fill whole vectors, and a cache."""
        lanes = self.vector_nbytes // FLOAT32.itemsize
        room = TRANSFORMED_NBYTES // (POINTS**2 * self.channels * FLOAT32.itemsize)
        most = max(min(MOST_SQUARES, room) // self.across, 1)

        def cost(rows: int) -> float:
            squares = rows * self.across
            return (-(-squares // lanes) * lanes + FEW_SQUARES) / squares

        return min(range(1, min(most, self.square_rows) + 1), key=cost)

    @property
    def blocks(self) -> int:
        """Of all rows of squares."""
        return -(-self.square_rows // self.at_once)

    @property
    def squares(self) -> int:
        """Of a block."""
        return self.at_once * self.across

    @property
    def pitch(self) -> int:
        """Elements from one channel of transformed squares to the next: an odd number of lines,
        which spreads channels over the places of a cache."""
        return (-(-self.squares // LINE) // 2 * 2 + 1) * LINE

    @property
    def lanes(self) -> int:
        """Squares of a row that are transformed together: those that waste fewest."""
        most = self.vector_nbytes // FLOAT32.itemsize
        return min((most, most // 2), key=lambda one: (-(-self.across // one) * one, -one))

    @property
    def tiles(self) -> Tiles:
        """Of the 16 products of a block."""
        lanes = self.vector_nbytes // FLOAT32.itemsize
        by_vectors = COLUMNS[self.vector_nbytes]
        rows, depth = self.rows, self.squares
        if not self.adds_up:
            rows = self.squares
            depth = -(-self.channels // -(-self.channels // DEEPEST))
        vectors = min(-(-rows // lanes), max(by_vectors))
        columns = by_vectors[vectors]
        return Tiles(lanes=lanes, vectors=vectors, columns=columns, depth=depth, packs=self.adds_up)

    # memory, in elements: a plane for each of the 16 products

    @property
    def data_plane(self) -> int:
        """Squares of x, transformed."""
        return self.channels * self.pitch + GAP

    @property
    def kernel_plane(self) -> int:
        """The kernel, transformed."""
        return self.rows * self.channels + GAP

    @property
    def sums_plane(self) -> int:
        """The sums of some strips."""
        return STRIPS * self.tiles.columns * self.pitch + GAP

    @property
    def outer_plane(self) -> int:
        """Squares of the outer array, transformed."""
        return self.rows * self.pitch + GAP

    @property
    def table_size(self) -> int:
        """For each row of squares of a block where it lies, in numbers of eight bytes."""
        return NUMBERS * self.at_once

    @property
    def shared_nbytes(self) -> int:
        """Of what all threads read, or add up to."""
        return FLOAT32.itemsize * POINTS**2 * self.kernel_plane

    @property
    def own_nbytes(self) -> int:
        """What each thread needs for a block."""
        if self.adds_up:
            packed = self.tiles.panel_size * -(-self.rows // self.tiles.width)
            floats = POINTS * (self.data_plane + self.outer_plane) + packed
        else:
            floats = POINTS**2 * (self.data_plane + self.sums_plane)
        return 8 * self.table_size + FLOAT32.itemsize * (floats + GAP)

    def phases(self, threads: int) -> tuple[tuple[str, int], ...]:
        """What is done one after another, and in how many parts."""
        each = PARTS_A_THREAD * threads if threads > 1 else 1
        if not self.adds_up:
            kernels = min(each, self.rows)
            return ("kernel", kernels), ("outer", min(each, self.blocks))
        # Each part reads both arrays whole, which threads do at the same time.
        parts = threads if threads <= 2 else POINTS
        if threads > POINTS:
            parts *= min(-(-threads // POINTS), self.channels // FEWEST_TOGETHER)
        return ("sums", parts), ("kernel", min(each, self.channels))

    def busiest(self, threads: int) -> float:
        """What of the longer phase the thread does that does most."""
        parts = dict(self.phases(threads))
        if self.adds_up:
            return busiest(parts["sums"], parts["sums"], threads)
        return busiest(self.blocks, parts["outer"], threads)

    @property
    def multiplications(self) -> int:
        """Of all products."""
        return POINTS**2 * self.square_rows * self.across * self.channels * self.rows


def winograd(
    x: Operand, y: Operand, out: Operand, sizes: Mapping[int, int], dtype: np.dtype, vectors: int
) -> Winograd | None:
    """The product where one of x and y has 3 x 3 windows that begin everywhere, and there is enough
    to do; None for others.

    `vectors` is the width of the processor's, in bytes.
    """
    if vectors not in COLUMNS or np.dtype(dtype) != FLOAT32:
        return None
    return _winograd(x, y, out, tuple(sizes.items()), vectors)


@lru_cache(maxsize=1024)
def _winograd(
    x: Operand, y: Operand, out: Operand, sizes: tuple[tuple[int, int], ...], vectors: int
) -> Winograd | None:
    known = dict(sizes)
    seen = [overlaps(one, known) for one in (x, y)]
    if 0 in known.values() or seen.count(True) != 1:
        return None
    batch, x_only, y_only, inner = axes_by_role({"x": x, "y": y, "out": out}, known)
    x_is_first = seen[0]
    shown, other = (x_only, y_only) if x_is_first else (y_only, x_only)
    a, b = ("y", "x") if x_is_first else ("x", "y")  # of the other operand, of the windows
    if batch or len(other) != 1:
        return None
    (row,) = other
    for adds_up in (False, True):
        positions, places = (inner, shown) if adds_up else (shown, inner)
        pairs = _pairs(positions, places, b)
        channels = [one for one in places if all(one is not place for _, place in pairs)]
        if len(pairs) == 2 and len(channels) == 1:
            break
    else:
        return None
    (down, place_down), (across, place_across) = pairs
    (channel,) = channels
    around = [one for one in positions if one is not down and one is not across]
    outer, kernel = (a, "out") if adds_up else ("out", a)
    side_by_side = [getattr(across, b), getattr(across, outer)]
    side_by_side += [row.out] if adds_up else []
    if any(one != 1 for one in side_by_side) or not getattr(channel, b):
        return None
    found = Winograd(
        adds_up=adds_up,
        x_is_first=x_is_first,
        rows=row.size,
        channels=channel.size,
        height=down.size,
        width=across.size,
        x_channel=getattr(channel, b),
        x_down=getattr(down, b),
        outer_row=getattr(row, outer),
        outer_down=getattr(down, outer),
        kernel_row=getattr(row, kernel),
        kernel_channel=getattr(channel, kernel),
        kernel_down=getattr(place_down, kernel),
        kernel_across=getattr(place_across, kernel),
        around=tuple(Around(one.size, getattr(one, b), getattr(one, outer)) for one in around),
        vector_nbytes=vectors,
    )
    images = prod(one.size for one in found.around)
    return found if pays(row.size, channel.size, images, down.size, across.size) else None


def _pairs(positions: Sequence[Axis], places: Sequence[Axis], b: str) -> list[tuple[Axis, Axis]]:
    """The axes of positions with those of places in a window that lie alike, the farthest first."""
    found = [
        (position, place)
        for place in places
        for position in positions
        if place.size == 3 < position.size and getattr(place, b) > 0
        if getattr(place, b) == getattr(position, b)
    ]
    return sorted(found, key=lambda pair: -getattr(pair[0], b))


def pays(rows: int, channels: int, images: int, height: int, width: int) -> bool:
    """Whether there are so many rows of the kernel and channels that transforming squares of so
    many positions is little beside the products."""
    fits = all(FEWEST_CHANNELS <= n <= MOST_CHANNELS for n in (rows, channels))
    fits = fits and min(height, width) >= SHORTEST
    return fits and images * -(-height // 2) * -(-width // 2) >= FEWEST_SQUARES
