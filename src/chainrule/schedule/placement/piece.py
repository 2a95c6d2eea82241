"""Blocks whose lives hang together, and the sections: sets of them that are in use at once.

A section is a largest set of blocks in use at one moment: moments whose blocks are all in use at
another one, too, say nothing new.  What a search asks of blocks and sections is answered for all
of them at once, by NumPy: memberships (a block in a section) are listed section by section, and
`by_block` finds them block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """k blocks in s sections with m memberships; no section lies between blocks without one.

    `numbers`, `size` (k): which blocks, and their bytes; `first`, `stop` (k): the sections from
    first up to, not including, stop; `block_starts` (k) and `by_block` (m): the memberships of
    each block; `member`, `section` (m) and `section_starts` (s): block and section of each
    membership; `load` (s): the bytes of each section; `moments` (s): the sections' numbers in
    the piece that this one was cut from first of all.
    """

    numbers: Integers
    size: Integers
    first: Integers
    stop: Integers
    block_starts: Integers
    by_block: Integers
    member: Integers
    section: Integers
    section_starts: Integers
    load: Integers
    moments: Integers

    @property
    def nbytes_of_search(self) -> int:
        """About how much memory a search has in use that takes these blocks away one by one."""
        return 16 * len(self.numbers) * len(self.member)

    def without(self, block: int) -> Iterator[tuple[Piece, Integers]]:
        """What is left without one block, as pieces, the smallest first, each with the places of
        its blocks in this piece."""
        rest = np.delete(np.arange(len(self.numbers)), block)
        return pieces(
            self.numbers[rest], self.size[rest], self.first[rest], self.stop[rest], self.moments,
            rest,
        )  # fmt: skip


def pieces(
    numbers: Integers,
    size: Integers,
    first: Integers,
    stop: Integers,
    moments: Integers,
    places: Integers,
) -> Iterator[tuple[Piece, Integers]]:
    """Pieces of blocks in use from moment `first` up to, not including, `stop`, the smallest first.

    The blocks are sorted by `first`.  With each piece come the `places` of its blocks.
    """
    if not len(first):
        return
    reach = np.maximum.accumulate(stop)
    cuts = np.flatnonzero(first[1:] >= reach[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(first)]
    for start, end in sorted(pairwise(bounds), key=lambda b: b[1] - b[0]):
        part = slice(start, end)
        yield _piece(numbers[part], size[part], first[part], stop[part], moments), places[part]


def _piece(
    numbers: Integers, size: Integers, first: Integers, stop: Integers, moments: Integers
) -> Piece:
    """The sections end where a block ends and, since the last such moment, another has begun."""
    begun = np.cumsum(np.bincount(first, minlength=len(moments) + 1))
    ends = np.flatnonzero(np.bincount(stop))
    ends = ends[np.diff(begun[ends - 1], prepend=0) > 0]
    first, stop = np.searchsorted(ends, first, "right"), np.searchsorted(ends, stop, "right")
    lengths = stop - first
    block_ends = np.cumsum(lengths)
    block_starts = block_ends - lengths
    block = np.repeat(np.arange(len(first)), lengths)
    section = np.arange(len(block)) - (block_starts - first)[block]
    fewest_bits = np.int16 if len(ends) < 1 << 15 else np.int64  # numbers of 16 bits sort quickly
    by_section = np.argsort(section.astype(fewest_bits), kind="stable")
    by_block = np.empty_like(by_section)
    by_block[by_section] = np.arange(len(block))
    member, section = block[by_section], section[by_section]
    section_starts = np.searchsorted(section, np.arange(len(ends)))
    return Piece(
        numbers, size, first, stop, block_starts, by_block, member, section, section_starts,
        np.add.reduceat(size[member], section_starts), moments[ends - 1],
    )  # fmt: skip
