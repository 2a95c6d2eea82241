"""A matrix product in tiles: parts of C that stay in registers while the inner index runs.

The names are those of `Gemm`: C (m, n) column by column.  A *panel* is as many rows of A and C as
fill a tile's vectors, a *strip* as many columns of B and C as a tile has.  Some panels of A, one
*stack*, are packed, and then multiplied with a *group* of strips, which are read where they lie;
that is one *cell*, and threads share the cells.  Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication" (2008), pack both matrices.

Measured on one core against OpenBLAS 0.3.30 (float32, AVX-512, best of many; BLAS' time over that
of the tiles): 256 x 784 x 256 1.12, its transposed 784 x 256 x 256 1.1, 256 x 1024 x 1024 1.13,
1024 x 256 x 1024 0.98, 512 x 784 x 2048 1.05, 512 x 2048 x 10 1.7, 64 x 64 x 64 0.95.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from chainrule.plan.contraction import Gemm

VECTORS = 2  # of a panel
# Columns, by the bytes of a vector: two vectors of each, two of A and one of B fill the registers.
COLUMNS = {64: 12, 32: 6}
DEEPEST = 256  # of the inner index at once: a panel of 32 KiB
STACKED = 8  # panels of a stack where B is too large for the second-level cache
LARGE = 2**19  # bytes of such a B
FEWEST_STRIPS = 4  # of a group, so that packing is worth it
# Panels are packed from so many strips and so many bytes of A on: what fits the first-level cache
# is read where it lies.
PACKED_STRIPS, PACKED_NBYTES = 3, 48 * 1024
PARTS_A_THREAD = 4  # so that a thread that is interrupted does not keep the others waiting
SHORTEST_PART = 4000.0  # nanoseconds
# Up to so many flops all strips are to be alike, so that one function serves them.
UNIFORM = 2e7


@dataclass(frozen=True)
class Tiles:
    """The shape of the tiles of a product, and how they are grouped.

    A tile is `vectors` of `lanes` rows times at most `columns` columns; `depth` is how much of
    the inner index is done at once; `packs` says whether the panels of A are copied first;
    `stack` is how many of them.  The strips are in `groups`.
    """

    lanes: int
    vectors: int
    columns: int
    depth: int
    packs: bool
    stack: int = 1
    groups: int = 1

    @property
    def width(self) -> int:
        """Rows of a panel."""
        return self.lanes * self.vectors

    @property
    def panel_size(self) -> int:
        """Elements of a packed panel: the inner index is rounded up to whole vectors."""
        return -(-self.depth // self.lanes) * self.lanes * self.width

    def panels(self, gemm: Gemm) -> int:
        """How many C has; the last may be narrower."""
        return -(-gemm.m // self.width)

    def stacks(self, gemm: Gemm) -> int:
        """How many C has."""
        return -(-self.panels(gemm) // self.stack)

    def strips(self, gemm: Gemm) -> int:
        """How many C has; their numbers of columns differ by at most one."""
        return -(-gemm.n // self.columns)

    def cells(self, gemm: Gemm) -> int:
        """How many there are in all rounds of the loops that do not accumulate."""
        return rounds(gemm) * self.groups * self.stacks(gemm)

    def packed_nbytes(self, itemsize: int) -> int:
        """What one thread needs for a stack."""
        return self.stack * self.panel_size * itemsize if self.packs else 0

    def parts(self, gemm: Gemm, nanoseconds: float, threads: int) -> int:
        """In how many parts so many threads share the cells."""
        worth = min(int(nanoseconds / SHORTEST_PART), PARTS_A_THREAD * threads)
        return max(1, min(self.cells(gemm), max(worth, threads)))


def rounds(gemm: Gemm) -> int:
    """Of the loops that do not accumulate."""
    return prod(loop.size for loop in gemm.loops if not loop.accumulates)


def tiles_for(gemm: Gemm, dtype: np.dtype, vector_nbytes: int, threads: int) -> Tiles | None:
    """The tiles of a product that so many threads share; None where BLAS or plain loops do it.

    That is for vectors of less than 32 bytes, for vectors instead of matrices, and for the
    smallest products.
    """
    dtype = np.dtype(dtype)
    if gemm.routine != "gemm" or vector_nbytes not in COLUMNS or dtype.char not in "fd":
        return None
    lanes, columns = vector_nbytes // dtype.itemsize, COLUMNS[vector_nbytes]
    if gemm.flops <= UNIFORM:
        columns = _alike(gemm.n, columns)
    tiles = Tiles(
        lanes=lanes,
        vectors=VECTORS if gemm.m > lanes else 1,
        columns=columns,
        depth=-(-gemm.k // -(-gemm.k // DEEPEST)),
        packs=gemm.transa
        or (
            gemm.n > columns * (PACKED_STRIPS - 1)
            and gemm.m * gemm.k * dtype.itemsize > PACKED_NBYTES
        ),
    )
    wanted = PARTS_A_THREAD * threads if threads > 1 else 1
    if tiles.packs and gemm.n * gemm.k * dtype.itemsize > LARGE:
        stack = tiles.cells(gemm) // wanted
        tiles = replace(tiles, stack=max(1, min(STACKED, stack)))
    groups = min(-(-wanted // tiles.cells(gemm)), tiles.strips(gemm) // FEWEST_STRIPS)
    return replace(tiles, groups=max(1, groups))


def _alike(n: int, most: int) -> int:
    """The columns of a strip: a number that divides n if one is large enough, else the most."""
    return next((one for one in range(most, most * 2 // 3 - 1, -1) if n % one == 0), most)
