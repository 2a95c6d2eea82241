"""Matrix products in LLVM's text: tiles of C in registers (`plan.tiles`), no BLAS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from chainrule.plan.contraction import Gemm
from chainrule.plan.tiles import Tiles
from chainrule.run.native.emit import UNOPTIMISED, Code, Module, Operand, constant
from chainrule.run.native.products import ONE, TYPES, ZERO, Matrices, moved, offset
from chainrule.run.native.tile_kernels import I64, Kernels, number

Bounds = tuple[Operand, Operand]  # the first index, and the one after the last
ROWS_PACKED = 16  # steps of the inner index that are packed of all panels before more are


def emit_tiled_product(
    module: Module, name: str, gemm: Gemm, tiles: Tiles, dtype: np.dtype, parts: int
) -> None:
    """`void @name(ptr x, ptr y, ptr out, T alpha, T beta, ptr work, i64 part, i64 parts)`.

    out = alpha x y + beta out; beta = 0 does not read out.  `work` is this thread's memory of
    `tiles.packed_nbytes`.  The call does share `part` of 0 ... `parts` - 1.  Every element is
    summed in one order, whatever the number of parts: so are the bits.
    """
    _TiledProduct(Code(module), gemm, tiles, TYPES[np.dtype(dtype)]).write(name, parts)


class _TiledProduct:
    """What the methods below write to and about."""

    def __init__(self, code: Code, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        self.code, self.gemm, self.tiles, self.type = code, gemm, tiles, type_
        self.kernels = Kernels(code.module, gemm, tiles, type_)
        self.batch = [loop for loop in gemm.loops if not loop.accumulates]
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
        code.function(name, parameters, attributes=f"nounwind {UNOPTIMISED}")

    def cell(self, where: Sequence[Operand], index: Operand) -> None:
        """One stack of panels of one round, times one group of strips."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        stack, rest = self.split(index, tiles.stacks(gemm))
        group, turn = self.split(rest, tiles.groups)
        matrices = offset(code, where, self.batch, turn, self.type)
        first = code.binary("mul", stack, number(tiles.stack))
        after = code.binary("add", first, number(tiles.stack))
        panels = first, self.least(after, number(tiles.panels(gemm)))
        strips = self.share(tiles.strips(gemm), group, number(tiles.groups))
        blocks = -(-gemm.k // tiles.depth)

        def block(index: Operand) -> None:
            place, turn = self.split(index, blocks)
            begin = code.binary("mul", place, number(tiles.depth))
            depth = self.least(code.binary("sub", number(gemm.k), begin), number(tiles.depth))
            a, b, c = offset(code, matrices, self.inner, turn, self.type)
            a = moved(code, a, begin, 1 if gemm.transa else gemm.lda, self.type)
            b = moved(code, b, begin, gemm.ldb if gemm.transb else 1, self.type)
            is_first = code.compare("icmp eq", index, ZERO)
            beta = code.select(is_first, self.beta, constant(1.0, self.type))
            self.block(panels, strips, (a, b, c), depth, beta)

        self.each(ZERO, number(blocks * prod(loop.size for loop in self.inner)), block)

    def block(
        self, panels: Bounds, strips: Bounds, where: Matrices, depth: Operand, beta: Operand
    ) -> None:
        """The part of the inner index that is done at once: pack, then all tiles of the cell."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        a, b, c = where
        low, wide = divmod(gemm.n, tiles.strips(gemm))  # the first strips are wider by one

        def rows(panel: Operand) -> tuple[Operand, Operand, Operand]:
            """Where the panel lies in A, where it is packed, and whether it is the last."""
            begin = code.binary("mul", panel, number(tiles.width))
            lies = moved(code, a, begin, gemm.lda if gemm.transa else 1, self.type)
            place = code.binary("sub", panel, panels[0])
            packed = moved(code, self.work, place, tiles.panel_size, self.type)
            return lies, packed, code.compare("icmp eq", panel, number(tiles.panels(gemm) - 1))

        def pack(begin: Operand, count: Operand) -> None:
            def of_panel(panel: Operand) -> None:
                lies, packed, is_last = rows(panel)
                lies = moved(code, lies, begin, gemm.lda, self.type)
                packed = moved(code, packed, begin, tiles.width, self.type)
                self.kernels.pack(code, is_last, lies, packed, count)

            self.each(*panels, of_panel)

        def pack_rows(begin: Operand, _: list[Operand]) -> list[Operand]:
            left = code.binary("sub", depth, begin)
            pack(begin, self.least(left, number(ROWS_PACKED)))
            return []

        def strip(index: Operand) -> None:
            before = code.binary("mul", index, number(low))
            column = code.binary("add", before, self.least(index, number(wide)))
            left = moved(code, b, column, 1 if gemm.transb else gemm.ldb, self.type)
            above = moved(code, c, column, gemm.ldc, self.type)
            is_wide = code.compare("icmp ult", index, number(wide))
            if tiles.packs_strips:
                lies = left
                left = moved(code, self.work, number(tiles.stack), tiles.panel_size, self.type)
                self.kernels.pack_strip(code, is_wide, lies, left, depth)

            def tile(panel: Operand) -> None:
                lies, packed, is_last = rows(panel)
                source = packed if tiles.packs else lies
                corner = moved(code, above, panel, tiles.width, self.type)
                factors = depth, self.alpha, beta
                self.kernels.tile(code, is_last, is_wide, source, left, corner, *factors)

            self.each(*panels, tile)

        if tiles.packs and tiles.stack > 1 and not gemm.transa:
            code.loop(ZERO, depth, ROWS_PACKED, [], pack_rows)
        elif tiles.packs:
            pack(ZERO, depth)
        self.each(*strips, strip)

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
