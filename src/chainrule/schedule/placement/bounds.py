"""Lowest offsets: what follows from them for other blocks, and whether all can still fit."""

from __future__ import annotations

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.schedule.placement.piece import Integers, Piece

NEVER = 1 << 62


@dataclass(frozen=True, eq=False, slots=True)
class Fit:
    """Nothing contradicts: the raised `lowest` offsets (k), and the bytes that each section then
    needs at least, its `height` (s)."""

    lowest: Integers
    height: Integers


@dataclass(frozen=True, slots=True)
class Misfit:
    """The blocks of this section do not fit into the capacity."""

    section: int


def tightened(
    piece: Piece, lowest: Integers, capacity: int, alignment: Integers | None = None
) -> Fit | Misfit:
    """The lowest offsets, raised where another block must come first (Carlier and Pinson 1989:
    one machine with release dates; here a section is the machine, and its bytes are the time).

    Whichever block of a section lies lowest, all the others lie above it: it begins at most at the
    capacity less the section's load.  A block that cannot begin so low is above the end of one
    that can.  With an `alignment` of each block, by number, offsets are raised to a multiple of it.
    """
    step = None if alignment is None else alignment[piece.numbers]
    member, section, starts = piece.member, piece.section, piece.section_starts
    latest, size = (capacity - piece.load)[section], piece.size[member]
    while True:
        if step is not None:
            lowest = -(-lowest // step) * step
        too_high = lowest + piece.size > capacity
        if too_high.any():
            return Misfit(int(piece.first[np.argmax(too_high)]))
        at = lowest[member]
        may_be_lowest = at <= latest
        ends = np.minimum.reduceat(np.where(may_be_lowest, at + size, NEVER), starts)
        above = np.where(may_be_lowest, 0, ends[section])
        raised = np.maximum.reduceat(above[piece.by_block], piece.block_starts)
        np.maximum(raised, lowest, out=raised)
        if np.array_equal(raised, lowest):
            break
        lowest = raised
    height = _heights(piece, at, size, capacity)
    highest = int(np.argmax(height))
    return Misfit(highest) if height[highest] > capacity else Fit(lowest, height)


def _heights(piece: Piece, at: Integers, size: Integers, capacity: int) -> Integers:
    """Where each section ends if its blocks lie one above the other, the lowest first."""
    order = np.argsort(piece.section * (capacity + 1) + at)
    size = size[order]
    ends = np.cumsum(size)
    last = np.append(piece.section_starts[1:], len(ends)) - 1
    return np.maximum.reduceat(
        at[order] + ends[last][piece.section] - ends + size, piece.section_starts
    )
