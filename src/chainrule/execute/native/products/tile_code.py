"""Matrix products in LLVM's text: tiles of C in registers (`plan.products.tiles`), no BLAS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import (
    AT_LEVEL_0,
    UNOPTIMISED,
    Code,
    Module,
    Operand,
    constant,
)
from chainrule.execute.native.products.kernels import I64, number
from chainrule.execute.native.products.narrow_reads import memory_types
from chainrule.execute.native.products.pack_kernels import PackKernels
from chainrule.execute.native.products.product_code import ONE, TYPES, ZERO, moved, offset
from chainrule.execute.native.products.tile_ahead import STEPS, Region, line_count
from chainrule.execute.native.products.tile_kernels import TileKernels
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import BUNCH_COLUMNS, Tiles, around

Bounds = tuple[Operand, Operand]  # the first index, and the one after the last
SMALL_TILE = 1024  # multiplications in a column of a tile: loops around smaller ones are felt
ROWS_PACKED = 16  # steps of the inner index that are packed of all panels before more are


@dataclass(frozen=True)
class Block:
    """What a cell does at once: its panels and strips, and a part of the inner index.

    The matrices begin with the first panel and strip of the product, and with this part, which
    has `depth` steps from `begin` on; it may be the last one.
    """

    panels: Bounds
    strips: Bounds
    a: Operand
    b: Operand
    c: Operand
    begin: Operand
    depth: Operand
    beta: Operand
    is_last: Operand


def emit_tiled_product(
    module: Module, name: str, gemm: Gemm, tiles: Tiles, dtype: np.dtype, parts: int
) -> None:
    """`void @name(ptr x, ptr y, ptr out, T alpha, T beta, ptr work, i64 part, i64 parts)`.

    out = alpha x y + beta out; beta = 0 does not read out.  `work` is this thread's memory of
    `tiles.packed_nbytes`.  The call does share `part` of 0 ... `parts` - 1.  Every element is
    summed in one order, whatever the number of parts: so are the bits.
    """
    TiledProduct(Code(module), gemm, tiles, TYPES[np.dtype(dtype)]).write(name, parts)


class TiledProduct:
    """What the methods below write to and about."""

    def __init__(self, code: Code, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        self.code, self.gemm, self.tiles, self.type = code, gemm, tiles, type_
        self.types = memory_types(tiles.narrow, type_)
        self.of_a, self.of_b, _ = self.types
        self.packs = PackKernels(code.module, gemm, tiles, type_)
        self.computes = TileKernels(code.module, gemm, tiles, type_)
        self.batch = around(gemm)
        self.inner = [loop for loop in gemm.loops if loop.accumulates]
        self.work, self.alpha, self.beta = (
            Operand(f"%{name}", kind)
            for name, kind in (("work", "ptr"), ("alpha", type_), ("beta", type_))
        )

    def write(self, name: str, parts: int) -> None:
        """The whole function."""
        code, cells = self.code, self.tiles.cells(self.gemm)
        x, y, out = (Operand(f"%{one}", "ptr") for one in ("x", "y", "out"))
        part, count = Operand("%part", I64), Operand("%parts", I64)
        a, b = (x, y) if self.gemm.a_is_x else (y, x)
        bounds = self.share(cells, part, count) if parts > 1 else (ZERO, number(cells))
        self.each(*bounds, lambda cell: self.cell((a, b, out), cell))
        code.do("ret void")
        parameters = x, y, out, self.alpha, self.beta, self.work, part, count
        is_small = self.gemm.k * self.tiles.width < SMALL_TILE
        level = UNOPTIMISED if is_small else AT_LEVEL_0
        code.function(name, parameters, attributes=f"nounwind {level}")

    def cell(self, where: Sequence[Operand], index: Operand) -> None:
        """One stack of panels of one round, times one group of strips."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        stack, rest = self.split(index, tiles.stacks(gemm))
        group, turn = self.split(rest, tiles.groups)
        matrices = offset(code, where, self.batch, turn, self.types)
        first = code.binary("mul", stack, number(tiles.stack))
        after = code.binary("add", first, number(tiles.stack))
        panels = first, self.least(after, number(tiles.panels(gemm)))
        strips = self.share(tiles.strips(gemm), group, number(tiles.groups))
        blocks = -(-gemm.k // tiles.depth)

        def block(index: Operand) -> None:
            place, turn = self.split(index, blocks)
            begin = code.binary("mul", place, number(tiles.depth))
            depth = self.least(code.binary("sub", number(gemm.k), begin), number(tiles.depth))
            a, b, c = offset(code, matrices, self.inner, turn, self.types)
            a, b = self.inward(a, b, begin)
            is_first = code.compare("icmp eq", index, ZERO)
            beta = code.select(is_first, self.beta, constant(1.0, self.type))
            is_last = code.compare("icmp eq", place, number(blocks - 1))
            self.block(Block(panels, strips, a, b, c, begin, depth, beta, is_last))

        self.each(ZERO, number(blocks * prod(loop.size for loop in self.inner)), block)

    def inward(self, a: Operand, b: Operand, steps: Operand) -> tuple[Operand, Operand]:
        """So many steps of the inner index on in A and B."""
        gemm, code = self.gemm, self.code
        a = moved(code, a, steps, 1 if gemm.transa else gemm.lda, self.of_a)
        return a, moved(code, b, steps, gemm.ldb if gemm.transb else 1, self.of_b)

    def block(self, one: Block) -> None:
        """Pack, then all tiles."""
        code, gemm, tiles = self.code, self.gemm, self.tiles

        def pack_rows(begin: Operand, _: list[Operand]) -> list[Operand]:
            left = code.binary("sub", one.depth, begin)
            self.pack(one, begin, self.least(left, number(ROWS_PACKED)))
            return []

        if tiles.packs and tiles.stack > 1 and not gemm.transa:
            code.loop(ZERO, one.depth, ROWS_PACKED, [], pack_rows)
        elif tiles.packs:
            self.pack(one, ZERO, one.depth)
        if tiles.packs_strips:
            assert gemm.transb, "columns lie side by side"
            code.loop(*one.strips, tiles.bunch, [], lambda first, _: self.bunch(one, first))
            return
        later = self.next_block(one) if tiles.fetches and not tiles.streams else None

        def strip(index: Operand) -> None:
            left = self.column(one.b, index, 1 if gemm.transb else gemm.ldb, self.of_b)
            turn = code.binary("sub", index, one.strips[0])
            self.strip(one, index, left, turn, later, self.of_a)

        self.each(*one.strips, strip)

    def pack(self, one: Block, begin: Operand, count: Operand) -> None:
        """So many steps of the inner index, of all panels."""

        def of_panel(panel: Operand) -> None:
            lies, packed, is_last = self.panel(one, panel)
            lies = moved(self.code, lies, begin, self.gemm.lda, self.of_a)
            step = self.code.binary("lshr", begin, ONE) if self.tiles.pairs else begin
            packed = moved(self.code, packed, step, self.tiles.width, self.type)
            self.packs.pack(self.code, is_last, lies, packed, count)

        self.each(*one.panels, of_panel)

    def panel(self, one: Block, panel: Operand) -> tuple[Operand, Operand, Operand]:
        """Where the panel lies in A, where it is packed, and whether it is the last."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        lies = moved(code, one.a, panel, self.apart, self.of_a)
        place = code.binary("sub", panel, one.panels[0])
        packed = moved(code, self.work, place, tiles.panel_size, self.type)
        return lies, packed, code.compare("icmp eq", panel, number(tiles.panels(gemm) - 1))

    @property
    def apart(self) -> int:
        """Elements of A from one panel to the next."""
        return self.tiles.width * (self.gemm.lda if self.gemm.transa else 1)

    def first_column(self, strip: Operand) -> Operand:
        """Of a strip."""
        code = self.code
        # The first are wider by one.
        low, wide = divmod(self.gemm.n, self.tiles.strips_together(self.gemm))
        before = code.binary("mul", strip, number(low))
        return code.binary("add", before, self.least(strip, number(wide)))

    def column(self, base: Operand, strip: Operand, stride: int, type_: str) -> Operand:
        """Where a strip begins in a matrix whose columns are so many elements apart."""
        return moved(self.code, base, self.first_column(strip), stride, type_)

    def bunch(self, one: Block, first: Operand) -> list[Operand]:
        """Pack some strips, then their tiles, which fetch the bunch that follows."""
        code, tiles = self.code, self.tiles
        after = self.least(code.binary("add", first, number(tiles.bunch)), one.strips[1])
        begin, end = self.first_column(first), self.first_column(after)
        packed = moved(code, self.work, number(tiles.stack), tiles.panel_size, self.type)
        lies, beyond = (moved(code, one.b, place, 1, self.of_b) for place in (begin, end))
        self.packs.pack_bunch(code, lies, packed, one.depth, code.binary("sub", end, begin))
        later = None
        if tiles.fetches:
            rows = tiles.steps // STEPS  # of one tile
            later = Region(
                begin=beyond,
                stride=self.gemm.ldb,
                lines=line_count(BUNCH_COLUMNS, self.of_b),
                rows=tiles.depth,
                at_once=rows * tiles.stack,
                across=rows * self.gemm.ldb,
                is_none=code.compare("icmp eq", after, one.strips[1]),
            )

        def strip(index: Operand) -> None:
            place = code.binary("sub", self.first_column(index), begin)
            left = moved(code, packed, place, 1, self.type)
            self.strip(one, index, left, code.binary("sub", index, first), later, self.of_b)

        self.each(first, after, strip)
        return []

    def next_block(self, one: Block) -> Region:
        """What of A is packed after this block: the tiles of each panel fetch its own part."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        a = moved(code, one.a, one.panels[0], self.apart, self.of_a)
        a = moved(code, a, number(tiles.depth), 1 if gemm.transa else gemm.lda, self.of_a)
        length, rows = (tiles.depth, tiles.width) if gemm.transa else (tiles.width, tiles.depth)
        return Region(
            begin=a,
            stride=gemm.lda,
            lines=line_count(length, self.of_a),
            rows=rows,
            at_once=tiles.steps // STEPS,
            across=self.apart,
            is_none=one.is_last,
        )

    def strip(
        self,
        one: Block,
        index: Operand,
        left: Operand,
        turn: Operand,
        later: Region | None,
        of_later: str,
    ) -> None:
        """All tiles of a strip of B, which lies at `left`; the `turn`-th of those that fetch
        `later`, which is of this type."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        above = self.column(one.c, index, gemm.ldc, self.type)
        is_wide = code.compare("icmp ult", index, number(gemm.n % tiles.strips_together(gemm)))
        ahead = None if later is None else later.share(code, of_later, turn, self.work)

        def tile(panel: Operand) -> None:
            lies, packed, is_last = self.panel(one, panel)
            source = packed if tiles.packs else lies
            corner = moved(code, above, panel, tiles.width, self.type)
            operands = [source, left, corner, one.depth, self.alpha, one.beta]
            if ahead is not None:
                place = code.binary("sub", panel, one.panels[0])
                operands += ahead.of_panel(code, place, of_later)
            self.computes.tile(code, is_last, is_wide, *operands)

        self.each(*one.panels, tile)

    def share(self, whole: int, index: Operand, count: Operand) -> Bounds:
        """Where share `index` of `count` begins, and where the next."""
        if count == ONE:
            return ZERO, number(whole)
        code = self.code
        both = (code.binary("mul", one, number(whole)) for one in (index, self.next(index)))
        first, after = (code.binary("udiv", one, count) for one in both)
        return first, after

    def next(self, index: Operand) -> Operand:
        """index + 1."""
        return self.code.binary("add", index, ONE)

    def least(self, x: Operand, y: Operand) -> Operand:
        """The smaller one."""
        return self.code.call("llvm.umin.i64", I64, x, y)

    def split(self, index: Operand, size: int) -> tuple[Operand, Operand]:
        """The remainder and the quotient."""
        if size == 1:
            return ZERO, index
        code = self.code
        return code.binary("urem", index, number(size)), code.binary("udiv", index, number(size))

    def each(self, first: Operand, after: Operand, body: Callable[[Operand], None]) -> None:
        """`body` for every index from `first` on; no loop around one round."""

        def one(index: Operand, _: list[Operand]) -> list[Operand]:
            body(index)
            return []

        if (first, after) == (ZERO, ONE):
            body(ZERO)
        else:
            self.code.loop(first, after, 1, [], one)
