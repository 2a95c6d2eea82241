"""Matrix products in LLVM's text: tiles of C in registers (`plan.tiles`), no BLAS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from chainrule.plan.contraction import Gemm
from chainrule.plan.tiles import Tiles
from chainrule.run.native.emit import (
    BITS,
    UNOPTIMISED,
    Code,
    Module,
    Operand,
    constant,
    with_lanes,
)
from chainrule.run.native.points import masked_load, masked_store
from chainrule.run.native.products import ONE, TYPES, ZERO, Matrices, moved, offset

Bounds = tuple[Operand, Operand]  # the first index, and the one after the last
AHEAD = 8  # steps of the inner index by which a strip of B that runs across lines is fetched
SQUARE_NBYTES = 32  # of a row of the squares that are transposed: wider ones take long to compile
I64 = "i64"


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

        def pack(panel: Operand) -> None:
            lies, packed, is_last = rows(panel)
            self.kernels.pack(code, is_last, lies, packed, depth)

        def strip(index: Operand) -> None:
            before = code.binary("mul", index, number(low))
            column = code.binary("add", before, self.least(index, number(wide)))
            left = moved(code, b, column, 1 if gemm.transb else gemm.ldb, self.type)
            above = moved(code, c, column, gemm.ldc, self.type)
            is_wide = code.compare("icmp ult", index, number(wide))

            def tile(panel: Operand) -> None:
                lies, packed, is_last = rows(panel)
                source = packed if tiles.packs else lies
                corner = moved(code, above, panel, tiles.width, self.type)
                factors = depth, self.alpha, beta
                self.kernels.tile(code, is_last, is_wide, source, left, corner, *factors)

            self.each(*panels, tile)

        if tiles.packs:
            self.each(*panels, pack)
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


class Kernels:
    """The functions that do one panel or one tile, for the shapes that a product has.

    They take what lies between elements as arguments, so that all products of a module share them.
    """

    def __init__(self, module: Module, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        self.module, self.gemm, self.tiles, self.type = module, gemm, tiles, type_
        self.vector = with_lanes(type_, tiles.lanes)
        edge = gemm.m % tiles.width  # rows of the last panel; 0: it is like the others
        self.widths = ([edge] if edge else []) + ([tiles.width] if gemm.m >= tiles.width else [])

    def pack(self, code: Code, last: Operand, a: Operand, work: Operand, depth: Operand) -> None:
        """Call what packs this panel."""
        names = [self.packing(width) for width in self.widths]
        call(code, choice(code, last, names), a, number(self.gemm.lda), work, depth)

    def tile(self, code: Code, last: Operand, is_wide: Operand, *operands: Operand) -> None:
        """Call what computes this tile: of a, b, c, the depth, alpha and beta."""
        gemm, tiles = self.gemm, self.tiles
        low, wide = divmod(gemm.n, tiles.strips(gemm))
        columns = [low + 1, low] if wide else [low]
        names = [
            choice(code, is_wide, [self.tiling(width, one) for one in columns])
            for width in self.widths
        ]
        a, b, c, *factors = operands
        step = tiles.width if tiles.packs else gemm.lda
        along, across = (gemm.ldb, 1) if gemm.transb else (1, gemm.ldb)
        by = (number(one) for one in (step, along, across, gemm.ldc))
        call(code, choice(code, last, names), a, b, c, *by, *factors)

    def masks(self, width: int) -> list[Operand | None]:
        """For every vector of a panel of so many rows, which lanes it has; None: all."""
        lanes, found = self.tiles.lanes, list[Operand | None]()
        for begin in range(0, width, lanes):
            here = min(width - begin, lanes)
            bits = ", ".join(f"i1 {'true' if lane < here else 'false'}" for lane in range(lanes))
            found.append(None if here == lanes else Operand(f"<{bits}>", f"<{lanes} x i1>"))
        return found

    def tiling(self, width: int, columns: int) -> str:
        """The name of the function for tiles of this size, written if it is not there.

        `void(ptr a, ptr b, ptr c, i64 step, i64 along, i64 across, i64 ldc, i64 depth, T alpha,
        T beta)`: the next column of A is `step` elements on, the next row of B `along`, its next
        column `across`.
        """
        packs, lanes, vector = self.tiles.packs, self.tiles.lanes, self.vector
        name = f"@tile{'' if packs else '_direct'}_{width}_{columns}_{lanes}_{self.type}"
        code, masks = Code(self.module), self.masks(width)
        a, b, c = (Operand(f"%{one}", "ptr") for one in "abc")
        strides = [Operand(f"%{one}", I64) for one in ("step", "along", "across", "ldc", "depth")]
        step, along, across, ldc, depth = strides
        alpha, beta = Operand("%alpha", self.type), Operand("%beta", self.type)
        zero = constant(0.0, vector)
        ahead = code.binary("mul", along, number(AHEAD))
        two = code.binary("mul", across, number(2))
        firsts = (code.binary("mul", across, number(column)) for column in range(0, columns, 3))
        threes = [self.moved(code, b, one) for one in firsts]

        def one_step(_: Operand, carried: list[Operand]) -> list[Operand]:
            left, rows, sums = carried[0], carried[1 : 1 + len(threes)], carried[1 + len(threes) :]
            vectors = [self.read(code, left, v, masks, packs) for v in range(len(masks))]
            for row in (rows[0], rows[-1]):
                where = self.moved(code, row, ahead)
                fetch(code, where, "0")
            found = []
            for column in range(columns):
                base, place = rows[column // 3], (ZERO, across, two)[column % 3]
                factor = code.load(self.moved(code, base, place), self.type)
                for v, one in enumerate(vectors):
                    total = sums[column * len(masks) + v]
                    found.append(code.fma(one, code.splat(factor, vector), total))
            return [
                self.moved(code, left, step),
                *(self.moved(code, r, along) for r in rows),
                *found,
            ]

        lines = [self.moved(code, c, code.binary("mul", ldc, number(k))) for k in range(columns)]
        places = [
            self.moved(code, row, number(v * lanes)) for row in lines for v in range(len(masks))
        ]
        for place in places:
            fetch(code, place, "1")
        start = [a, *threes, *[zero] * (columns * len(masks))]
        sums = code.loop(ZERO, depth, 1, start, one_step)[1 + len(threes) :]
        scale, other = code.splat(alpha, vector), code.splat(beta, vector)
        reads = code.compare("fcmp une", other, zero)
        for place, found, mask in zip(places, sums, masks * columns, strict=True):
            shown = reads if mask is None else code.binary("and", reads, mask)
            before = masked_load(code, place, vector, shown)
            value = code.fma(other, before, code.binary("fmul", scale, found))
            if mask is None:
                code.store(value, place)
            else:
                masked_store(code, value, place, mask)
        return self.written(code, name, [a, b, c, *strides, alpha, beta])

    def moved(self, code: Code, base: Operand, index: Operand) -> Operand:
        """base + index elements."""
        return code.address(base, index, self.type)

    def read(
        self, code: Code, base: Operand, v: int, masks: list[Operand | None], whole: bool
    ) -> Operand:
        """Vector `v` from `base` on; what the mask hides is not read, unless all is there."""
        place, mask = self.moved(code, base, number(v * self.tiles.lanes)), masks[v]
        if mask is None or whole:
            return code.load(place, self.vector)
        return masked_load(code, place, self.vector, mask)

    def packing(self, width: int) -> str:
        """The name of the function that packs a panel of so many rows, written if it is not there.

        `void(ptr a, i64 lda, ptr work, i64 depth)`.  Behind the rows that the panel has there are
        zeros, up to the end of a vector.
        """
        tiles, masks, code = self.tiles, self.masks(width), Code(self.module)
        name = f"@pack{'_across' if self.gemm.transa else ''}"
        name += f"_{width}_{tiles.width}_{tiles.lanes}_{self.type}"
        a, work = Operand("%a", "ptr"), Operand("%work", "ptr")
        lda, depth = Operand("%lda", I64), Operand("%depth", I64)
        side = min(tiles.lanes, SQUARE_NBYTES * 8 // BITS[self.type])
        square = with_lanes(self.type, side)

        def panel(index: Operand) -> Operand:
            return self.moved(code, work, code.binary("mul", index, number(tiles.width)))

        def along(index: Operand, _: list[Operand]) -> list[Operand]:
            column, place = self.moved(code, a, code.binary("mul", index, lda)), panel(index)
            for v in range(len(masks)):
                value = self.read(code, column, v, masks, whole=False)
                code.store(value, self.moved(code, place, number(v * tiles.lanes)))
            return []

        def across(index: Operand, _: list[Operand]) -> list[Operand]:
            left = code.binary("sub", depth, index)
            mask = code.compare("icmp ult", iota(side), code.splat(left, iota(side).type))
            start, place = self.moved(code, a, index), panel(index)
            for begin in range(0, len(masks) * tiles.lanes, side):
                rows = [constant(0.0, square)] * side
                for k in range(min(side, width - begin)):
                    line = code.binary("mul", lda, number(begin + k))
                    rows[k] = masked_load(code, self.moved(code, start, line), square, mask)
                for k, value in enumerate(transposed(code, rows)):
                    here = number(k * tiles.width + begin)
                    code.store(value, self.moved(code, place, here))
            return []

        if self.gemm.transa:
            code.loop(ZERO, depth, side, [], across)
        else:
            code.loop(ZERO, depth, 1, [], along)
        return self.written(code, name, [a, lda, work, depth])

    def written(self, code: Code, name: str, parameters: list[Operand]) -> str:
        """The name of the function that was written, which is there once."""
        code.do("ret void")
        code.function(name[1:], parameters, attributes="noinline nounwind")
        text = self.module.functions.pop().replace("define ", "define internal ", 1)
        if text not in self.module.functions:
            self.module.functions.append(text)
        return name


def fetch(code: Code, place: Operand, writes: str) -> None:
    """Bring a line into the first-level cache; `writes` is "1" where it will be written."""
    code.run("llvm.prefetch.p0", place, *(Operand(one, "i32") for one in (writes, "3", "1")))


def transposed(code: Code, rows: list[Operand]) -> list[Operand]:
    """The columns of the square that these vectors are the rows of."""
    vectors, size = list(rows), len(rows)
    step = 1
    while step < size:
        low = [j if not j & step else size + j - step for j in range(size)]
        high = [j + step if not j & step else size + j for j in range(size)]
        for i in range(size):
            if not i & step:
                pair = vectors[i], vectors[i + step]
                vectors[i], vectors[i + step] = (shuffled(code, *pair, to) for to in (low, high))
        step *= 2
    return vectors


def shuffled(code: Code, x: Operand, y: Operand, lanes: list[int]) -> Operand:
    """Lanes of x and, counted on, of y."""
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return code.emit(
        f"shufflevector {x.type} {x.text}, {y.type} {y.text}, <{len(lanes)} x i32> <{mask}>", x.type
    )


def iota(lanes: int) -> Operand:
    """0, 1, 2, ... as a vector."""
    return Operand(f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>", f"<{lanes} x i64>")


def number(value: int) -> Operand:
    """An `i64` constant."""
    return constant(value, I64)


def choice(code: Code, condition: Operand, names: list[str]) -> str:
    """The first of two functions where the condition holds, else the last."""
    if len(names) == 1:
        return names[0]
    return code.select(condition, *(Operand(name, "ptr") for name in names)).text


def call(code: Code, function: str, *operands: Operand) -> None:
    """Call a function of this module, or by its address."""
    arguments = ", ".join(f"{one.type} {one.text}" for one in operands)
    code.do(f"call void {function}({arguments})")
