"""A matrix product in tiles: parts of C that stay in registers while the inner index runs.

The names are those of `Gemm`: C (m, n) column by column.  A *panel* is as many rows of A and C as
fill a tile's vectors, a *strip* as many columns of B and C as a tile has.  Some panels of A, one
*stack*, are packed, and then multiplied with a *group* of strips, which are read where they lie,
or packed where that would be slow, some at a time, a *bunch*; that is one *cell*, and threads share
the cells.  Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), pack
both matrices always.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.graph.dtypes import FLOAT32
from chainrule.plan.products.contraction import Gemm, Loop
from chainrule.plan.sharing import WORTH_SHARING, busiest, product_nanoseconds

# Columns of a tile, by the bytes of a vector and the number of vectors in a panel.  The sums, the
# vectors of A and one of B fill the registers.  The more vectors, the fewer loads and instructions
# for each product: what counts where another thread shares the core (decision 0012).
COLUMNS = {64: {1: 12, 2: 12, 3: 8, 4: 6}, 32: {1: 6, 2: 6}}
DEEPEST = 256  # of the inner index at once
STACKED = 8  # panels of a stack where B is too large for the second-level cache
LARGE = 2**19  # bytes of such a B
# Of a group, so that packing is worth it; and where nothing is packed.
FEWEST_COLUMNS, FEWEST_STRIPS = 40, 4
# Panels are packed from so many columns of C and so many bytes of A on: what fits the first-level
# cache is read where it lies.
PACKED_COLUMNS, PACKED_NBYTES = 25, 48 * 1024
# Strips are packed where so many panels read them, and where the rows of B are a multiple of so
# many bytes apart: then 256 of them do not fit into the first-level cache, which has few places
# for each of such addresses.
FEWEST_PANELS, FAR_NBYTES = 4, 256
# Of C, for pairs of bfloat16, where A would be packed only for that: with fewer it is widened where
# it lies.  x W of 1 to 4 rows takes 0.4 to 0.9 of the time so, of 8 rows 1.0 to 1.4 times (Zen 4).
PAIRED_COLUMNS = 7
# So many columns of C give every thread groups of strips: then few panels are one stack.  Products
# p^T g of 64 to 256 rows of p and 1024 to 4096 columns: 0.45 to 0.8 of the time (two threads of a
# Zen 3, float32).
WIDE = 512
# Where columns of a large C are so far apart, a tile's lines all want the same places of a cache;
# of some panels together, lines beside each other are written.  q k^T of 64 and 128 rows and
# 4096 keys: 0.8 to 0.93 of the time.
PAGE_NBYTES = 4096
# Columns of B so far apart have such an address in common, and a first-level cache has 8 places for
# it.  x W of 512 x 2048 x 10 and 2000 x 1024 x 16 numbers: 0.67 and 0.64 of the time with 12.
WAYS = 8
# Panels whose columns lie beside each other are packed so many together, by the bytes of a vector,
# also where B is small: lines beside each other are read one after another.  x W of 16 to 256 rows
# and weights of 128 to 1024 rows and columns that come from the third-level cache: 0.61 to 1.06 of
# the time of one by one, 0.93 of it in the mean; from a nearer one 0.96 (one core of a Zen 3).
BESIDE = {32: 4}
BESIDE_NBYTES = 2**18  # of an A for which that is worth it
# An A of more bytes than `FAR` comes from far away.  Where few columns of B read it, it is not
# packed, and all panels of a stack are read `STREAMED` of its columns at a time, which are `APART`
# or more bytes apart, and fetched ahead: else each panel reads a little of all columns.  x W of 4
# to 24 rows and weights of 4 to 8 MB: 0.71 to 0.85 of the time (float64 0.72 to 0.82; held to AVX2
# 0.44 to 0.98; on two threads 0.86 to 0.97), of 1 MB 1.1 to 1.3 (one core of a Zen 4).
FAR, STREAMED, APART = 3 * 2**20, 16, 512
# Bytes of an A that is near enough for every thread to read all of it.  In a loop of products of
# 32 x 64 x 256 and gates, 0.65 of the time where two threads share no cache (Zen 4).
NEAR_NBYTES = 2**17
WIDEST_PACKED = 8  # columns of a strip that is packed
# Packed side by side: whole vectors, and of float32 three cache lines.  An odd number of them, or
# twice one, spreads the rows over the places of the first-level cache.
BUNCH_COLUMNS = 48
# Bytes of such a bunch at most, by those of a vector, where the inner index is long.  p^T g of 256
# and 512 rows and columns, 256 to 1024 deep in float64: 1.10 to 1.20 times as fast as with twice as
# many, on one core of a Zen 3, and 1.09 to 1.15 on two; of 784 x 256 x 256, 0.95 to 0.97.
BUNCH_NBYTES = {32: 48 * 1024}
SHALLOWEST = 64  # depth of tiles that fetch ahead
PARTS_A_THREAD = 4  # so that a thread that is interrupted does not keep the others waiting
SHORTEST_PART = 4000.0  # nanoseconds
# Up to so many flops all strips are to be alike, so that one function serves them.
UNIFORM = 2e7

Narrow = Literal["", "a", "b", "ab"]


@dataclass(frozen=True)
class Tiles:
    """The shape of the tiles of a product, and how they are grouped.

    A tile is `vectors` of `lanes` rows times at most `columns` columns; `depth` is how much of
    the inner index is done at once; `packs` says whether the panels of A are copied first;
    `stack` is how many of them.  The strips are in `groups`, and with `packs_strips` copied, too:
    that is for a B whose columns lie side by side.  With `fetches` the tiles bring what is packed
    next into a cache, or of an A that is read where it lies what the next steps read.
    `narrow` names those of A and B that are bfloat16: they are widened to float32 where they are
    packed, or else where they are read.  With `pairs` they stay as they are, and steps of the inner
    index are done, and packed, two at a time.
    """

    lanes: int
    vectors: int
    columns: int
    depth: int
    packs: bool
    stack: int = 1
    groups: int = 1
    packs_strips: bool = False
    fetches: bool = False
    narrow: Narrow = ""
    pairs: bool = False

    @property
    def streams(self) -> bool:
        """Whether tiles read A where it lies, and fetch what the next steps read of it."""
        return self.fetches and not (self.packs or self.packs_strips)

    @property
    def width(self) -> int:
        """Rows of a panel."""
        return self.lanes * self.vectors

    @property
    def steps(self) -> int:
        """Of a tile: those of the inner index, or pairs of them."""
        return -(-self.depth // 2) if self.pairs else self.depth

    @property
    def panel_size(self) -> int:
        """Elements (or pairs) of a packed panel: the steps are rounded up to whole vectors."""
        return -(-self.steps // self.lanes) * self.lanes * self.width

    @property
    def bunch(self) -> int:
        """Strips of a bunch."""
        return BUNCH_COLUMNS // self.columns

    @property
    def bunch_size(self) -> int:
        """Elements (or pairs) of a packed bunch."""
        return self.steps * BUNCH_COLUMNS

    def panels(self, gemm: Gemm) -> int:
        """How many C has; the last may be narrower."""
        return -(-gemm.m // self.width)

    def stacks(self, gemm: Gemm) -> int:
        """How many C has."""
        return -(-self.panels(gemm) // self.stack)

    def strips(self, gemm: Gemm) -> int:
        """How many C has, in all that are multiplied with the same A; their numbers of columns
        differ by at most one."""
        return prod(loop.size for loop in further_columns(gemm)) * self.strips_together(gemm)

    def strips_together(self, gemm: Gemm) -> int:
        """How many strips lie side by side."""
        return -(-gemm.n // self.columns)

    def cells(self, gemm: Gemm) -> int:
        """How many there are in all rounds of the loops that do not accumulate."""
        return rounds(gemm) * self.groups * self.stacks(gemm)

    def packed_nbytes(self, itemsize: int) -> int:
        """What one thread needs for a stack and a bunch."""
        size = self.stack * self.panel_size if self.packs else 0
        return itemsize * (size + (self.bunch_size if self.packs_strips else 0))

    def parts(self, gemm: Gemm, nanoseconds: float, threads: int) -> int:
        """In how many parts so many threads share the cells: so that none waits long for another,
        and then as many as are worth it."""
        cells = max(self.cells(gemm), 1)
        worth = min(int(nanoseconds / SHORTEST_PART), PARTS_A_THREAD * threads)
        counts = range(min(threads, cells), min(cells, max(worth, threads)) + 1)
        return min(reversed(counts), key=lambda count: busiest(cells, count, threads))


def rounds(gemm: Gemm) -> int:
    """Of the loops in which A, or all, is another."""
    return prod(loop.size for loop in around(gemm))


def around(gemm: Gemm) -> list[Loop]:
    """The loops that neither accumulate nor are further columns."""
    batch = [loop for loop in gemm.loops if not loop.accumulates]
    return [loop for loop in batch if loop.a_stride] if gemm.inner else batch


def further_columns(gemm: Gemm) -> list[Loop]:
    """The loops that go on with the same A, as further columns: of products with windows."""
    return [loop for loop in gemm.loops if not (loop.accumulates or loop in around(gemm))]


def tiles_for(
    gemm: Gemm,
    dtype: np.dtype,
    vector_nbytes: int,
    threads: int,
    narrow: Narrow = "",
    multiplies_pairs: bool = False,
) -> Tiles | None:
    """The tiles of a product that so many threads share; None where BLAS or plain loops do it.

    That is for vectors of less than 32 bytes, for the smallest products, and for vectors instead of
    matrices, unless some of A and B are bfloat16 (`narrow`), which BLAS has no routine for.
    """
    dtype = np.dtype(dtype)
    routines = ("gemm", "gemv") if narrow else ("gemm",)
    if gemm.routine not in routines or vector_nbytes not in COLUMNS or dtype.char not in "fd":
        return None
    pairs = narrow == "ab" and multiplies_pairs and (gemm.transa or gemm.n >= PAIRED_COLUMNS)
    itemsize = FLOAT32.itemsize if pairs else dtype.itemsize  # of a pair, and of C
    lanes = vector_nbytes // itemsize
    vectors = min(-(-gemm.m // lanes), max(COLUMNS[vector_nbytes]))
    while True:
        if pairs:
            tiles = _in_pairs(gemm, lanes, vectors, threads)
        else:
            tiles = _of_numbers(gemm, lanes, vectors, threads, itemsize, narrow)
        if vectors == 1 or tiles.cells(gemm) >= threads:
            return tiles
        vectors = -(-vectors // 2)  # narrower panels, so that every thread has one


def _of_numbers(
    gemm: Gemm, lanes: int, vectors: int, threads: int, itemsize: int, narrow: Narrow
) -> Tiles:
    """The tiles with panels of so many vectors, by an instruction for each number."""
    most = COLUMNS[lanes * itemsize][vectors]
    apart = gemm.ldb * (2 if "b" in narrow else itemsize)
    if not gemm.transb and apart % PAGE_NBYTES == 0:
        most = min(most, WAYS)
    large = gemm.m * gemm.k * itemsize > PACKED_NBYTES
    tiles = Tiles(
        lanes=lanes,
        vectors=vectors,
        columns=_alike(gemm.n, most) if gemm.flops <= UNIFORM else most,
        depth=_evenly(gemm.k, DEEPEST),
        packs=gemm.transa or (gemm.n >= PACKED_COLUMNS and large),
        narrow=narrow,
    )
    if threads > 1 and _is_shared_by_columns(tiles, gemm, itemsize, threads):
        return replace(tiles, packs=False, stack=tiles.panels(gemm), groups=threads)
    wanted = PARTS_A_THREAD * threads if threads > 1 else 1
    tiles = _stacked(tiles, gemm, itemsize, threads, wanted)
    return _grouped(tiles, gemm, wanted, large)


def _in_pairs(gemm: Gemm, lanes: int, vectors: int, threads: int) -> Tiles:
    """The same of a product of bfloat16 by the instruction for pairs.

    Panels are packed always, and strips where columns lie side by side: else two steps of the inner
    index do not lie beside each other.
    """
    itemsize = FLOAT32.itemsize  # of a pair, and of C
    most = COLUMNS[lanes * itemsize][vectors]
    depth = _evenly(gemm.k, 2 * DEEPEST)
    large = gemm.m * gemm.k * itemsize // 2 > PACKED_NBYTES
    tiles = Tiles(
        lanes=lanes,
        vectors=vectors,
        columns=_alike(gemm.n, most) if gemm.flops <= UNIFORM else most,
        depth=depth + depth % 2,
        packs=True,
        packs_strips=gemm.transb,
        narrow="ab",
        pairs=True,
    )
    wanted = PARTS_A_THREAD * threads if threads > 1 else 1
    panels = tiles.panels(gemm)
    if gemm.transb or gemm.n * gemm.k * itemsize // 2 > LARGE:
        shared = panels // threads if gemm.transb else rounds(gemm) * panels // wanted
        shared = panels if gemm.n >= WIDE else shared
        stacks = -(-panels // max(1, min(STACKED, shared)))
        tiles = replace(tiles, stack=-(-panels // stacks))
    return _grouped(tiles, gemm, wanted, large)


def _grouped(tiles: Tiles, gemm: Gemm, wanted: int, large: bool) -> Tiles:
    """The tiles with groups of strips for so many cells; they fetch where there is more to pack."""
    is_more = tiles.packs_strips or (large and gemm.k > tiles.depth)
    fetches = tiles.fetches or (tiles.packs and tiles.steps >= SHALLOWEST and is_more)
    most = gemm.n // FEWEST_COLUMNS if tiles.packs else tiles.strips(gemm) // FEWEST_STRIPS
    if tiles.packs and tiles.cells(gemm) * most < wanted // PARTS_A_THREAD:
        most = gemm.n // PACKED_COLUMNS  # so that every thread has a group
    groups = max(1, min(-(-wanted // tiles.cells(gemm)), most))
    return replace(tiles, groups=groups, fetches=fetches)


def _stacked(tiles: Tiles, gemm: Gemm, itemsize: int, threads: int, wanted: int) -> Tiles:
    """The tiles, with as many panels in a stack as their use asks for, and strips packed or not.

    `wanted` is a number of cells.
    """
    is_wide = gemm.n >= WIDE
    if _comes_from_far(tiles, gemm, itemsize):
        stack = max(1, tiles.cells(gemm) // wanted)
        return replace(tiles, depth=_evenly(gemm.k, STREAMED), stack=stack, fetches=True)
    if not tiles.packs and not is_wide:
        return tiles
    panels = tiles.panels(gemm)
    apart = gemm.ldb * (2 if "b" in tiles.narrow else itemsize)
    packable = gemm.transb and tiles.columns <= WIDEST_PACKED and gemm.n > 1
    if packable and apart % FAR_NBYTES == 0 and not _reads_by_lane(tiles, itemsize):
        sharing = 1 if is_wide else threads
        stacks = -(-panels // max(1, min(STACKED, panels // sharing)))
        stack = -(-panels // stacks)
        if stack >= FEWEST_PANELS:
            deepest = BUNCH_COLUMNS * itemsize * DEEPEST
            nbytes = BUNCH_NBYTES.get(tiles.lanes * itemsize, deepest)
            depth = _evenly(gemm.k, min(nbytes // (BUNCH_COLUMNS * itemsize), DEEPEST))
            return replace(tiles, packs=True, stack=stack, packs_strips=True, depth=depth)
    if not tiles.packs:
        return tiles
    if gemm.n * gemm.k * itemsize > LARGE:
        return replace(tiles, stack=max(1, min(STACKED, tiles.cells(gemm) // wanted)))
    if gemm.ldc * itemsize >= PAGE_NBYTES and gemm.m * gemm.n * itemsize > LARGE:
        return replace(tiles, stack=max(1, min(FEWEST_PANELS, tiles.cells(gemm) // wanted)))
    if gemm.transa or gemm.m * gemm.k * itemsize < BESIDE_NBYTES:
        return tiles
    beside = BESIDE.get(tiles.lanes * itemsize, 1)
    return replace(tiles, stack=max(1, min(beside, tiles.cells(gemm) // wanted)))


def _is_shared_by_columns(tiles: Tiles, gemm: Gemm, itemsize: int, threads: int) -> bool:
    """Whether each thread computes some columns of C: an A that a cache of each holds is read where
    it lies, and what follows finds the thread's own rows of the array that C is."""
    if gemm.transa or gemm.loops or gemm.m * gemm.k * itemsize > NEAR_NBYTES:
        return False
    few = tiles.strips(gemm) >= 2 * threads and gemm.n <= PACKED_COLUMNS * threads
    return few and product_nanoseconds(gemm) > WORTH_SHARING


def _comes_from_far(tiles: Tiles, gemm: Gemm, itemsize: int) -> bool:
    """Whether a large A is read where it lies, and its columns lie far apart."""
    itemsize = 2 if "a" in tiles.narrow else itemsize
    if tiles.packs or gemm.inner or tiles.panels(gemm) == 1:
        return False
    return gemm.m * gemm.k * itemsize > FAR and gemm.lda * itemsize >= APART


def _reads_by_lane(tiles: Tiles, itemsize: int) -> bool:
    """Whether a part of a vector of B is read number by number: AVX2 has no masks of 16 bits."""
    return "b" in tiles.narrow and tiles.lanes * itemsize < 64


def _evenly(size: int, most: int) -> int:
    """The size of parts of which none has more than `most`, and all but the last as much."""
    return -(-size // -(-size // most))


def _alike(n: int, most: int) -> int:
    """The columns of a strip: a number that divides n if one is large enough, else the most."""
    return next((one for one in range(most, most * 2 // 3 - 1, -1) if n % one == 0), most)
