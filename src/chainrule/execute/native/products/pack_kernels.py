"""In LLVM's text: the functions that pack what the tiles of a product read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from chainrule.execute.native.plan_to_ir.emit import BITS, Code, Operand, with_lanes
from chainrule.execute.native.products.kernels import I64, Kernels, call, choice, iota, number
from chainrule.execute.native.products.narrow_reads import (
    NARROW,
    PAIR,
    load_pairs,
    load_pairs_of_row,
    load_vector,
)
from chainrule.execute.native.products.product_code import ONE, ZERO
from chainrule.execute.native.products.tile_ahead import LINE_NBYTES
from chainrule.plan.products.tiles import BUNCH_COLUMNS

ROWS_AHEAD = 8  # rows of a bunch by which it is fetched
SQUARE_NBYTES = 32  # of a row of the squares that are transposed: wider ones take long to compile
# Of the same rows, one after the other: rows a power of two apart want the same places of a cache,
# and none of these keeps a row's line until its next square.  x W^T of 16 and 64 rows and weights
# of 1024 rows and columns: 0.48 and 0.8 of the time in float32, 0.69 and 0.9 in float64 (Zen 4),
# 0.75 and 0.95 in float32 without AVX-512.
SQUARES = 8


class PackKernels(Kernels):
    """Those that pack panels of A, and bunches of strips of B."""

    def pack(self, code: Code, last: Operand, a: Operand, work: Operand, depth: Operand) -> None:
        """Call what packs this panel."""
        gemm, tiles = self.gemm, self.tiles
        names = [self.packing(w, tiles.width, tiles.lanes, gemm.transa) for w in self.widths]
        call(code, choice(code, last, names), a, number(gemm.lda), work, depth)

    def pack_bunch(
        self, code: Code, b: Operand, work: Operand, depth: Operand, columns: Operand
    ) -> None:
        """Call what packs so many columns of B."""
        call(code, self.bunching(), b, number(self.gemm.ldb), work, depth, columns)

    def packing(self, width: int, pitch: int, lanes: int, is_across: bool) -> str:
        """The name of the function that packs so many rows of A, or columns of B, written if it is
        not there.

        `void(ptr a, i64 lda, ptr work, i64 depth)`.  They lie side by side, and the next step of
        the inner index `pitch` elements on, or the next two with their numbers in pairs.  Behind
        them there are zeros, up to the end of a vector of so many lanes.  `is_across`: in A they
        lie `lda` apart, not side by side.
        """
        pairs, kept = self.tiles.pairs, self.of_a
        name = f"@pack{'_across' if is_across else ''}_{width}_{pitch}_{lanes}_{self.type}"
        name += "_pairs" * pairs + f"_{kept}" * (kept != self.type)
        if self.is_there(name):
            return name
        masks, code = self.masks(width, lanes), Code(self.module)
        a, work = Operand("%a", "ptr"), Operand("%work", "ptr")
        lda, depth = Operand("%lda", I64), Operand("%depth", I64)
        side = min(lanes, SQUARE_NBYTES * 8 // BITS[self.type])
        square = with_lanes(PAIR if pairs else self.type, side)
        taken = 2 * side if pairs else side  # steps of a square
        steps = iota(taken)

        def panel(index: Operand) -> Operand:
            if pairs:
                index = code.binary("lshr", index, ONE)
            return self.moved(code, work, code.binary("mul", index, number(pitch)))

        def along(index: Operand, _: list[Operand]) -> list[Operand]:
            column, place = code.address(a, code.binary("mul", index, lda), kept), panel(index)
            for v, value in enumerate(self.read(code, column, self.vector, masks, kept)):
                code.store(value, self.moved(code, place, number(v * lanes)))
            return []

        def square_at(row: Operand, index: Operand, mask: Operand | None, count: int) -> None:
            """Transpose a square, of which so many rows are there."""
            start = code.address(code.address(a, index, kept), code.binary("mul", row, lda), kept)
            place = self.moved(code, panel(index), row)
            rows = [Operand("zeroinitializer", square)] * side
            for k in range(count):
                line = code.address(start, code.binary("mul", lda, number(k)), kept)
                code.fetch(code.address(line, number(LINE_NBYTES), "i8"))
                if pairs:
                    rows[k] = load_pairs_of_row(code, line, side, mask)
                else:
                    rows[k] = load_vector(code, line, kept, square, mask)
            for k, value in enumerate(transposed(code, rows)):
                code.store(value, self.moved(code, place, number(k * pitch)))

        def across(
            stop: Operand, is_whole: bool, index: Operand, _: list[Operand]
        ) -> list[Operand]:
            end = code.binary("add", index, number(SQUARES * taken))
            end = code.call("llvm.smin.i64", I64, end, stop)

            def squares(row: Operand, count: int) -> None:
                """Those of these rows."""

                def one(step: Operand, _: list[Operand]) -> list[Operand]:
                    left = code.binary("sub", depth, step)
                    mask = code.compare("icmp ult", steps, code.splat(left, steps.type))
                    square_at(row, step, None if is_whole else mask, count)
                    return []

                code.loop(index, end, taken, [], one)

            def side_by_side(row: Operand, _: list[Operand]) -> list[Operand]:
                squares(row, side)
                return []

            whole = width // side * side
            code.loop(ZERO, number(whole), side, [], side_by_side)
            for begin in range(whole, len(masks) * lanes, side):
                squares(number(begin), max(0, width - begin))
            return []

        if is_across and kept == NARROW and not pairs:
            whole = code.binary("and", depth, number(-taken))
            code.loop(ZERO, whole, SQUARES * taken, [], partial(across, whole, True))
            code.loop(whole, depth, taken, [], partial(across, depth, False))
        elif is_across:
            code.loop(ZERO, depth, SQUARES * taken, [], partial(across, depth, False))
        elif pairs:
            self.pair_rows(code, a, lda, depth, panel, masks)
        else:
            code.loop(ZERO, depth, 1, [], along)
        return self.written(code, name, [a, lda, work, depth])

    def pair_rows(
        self,
        code: Code,
        matrix: Operand,
        apart: Operand,
        depth: Operand,
        place: Callable[[Operand], Operand],
        masks: Sequence[Operand | None],
    ) -> None:
        """Pack rows of bfloat16 two and two, from `place(index of the first)` on; behind an odd
        number of them, zeros."""
        lanes = self.tiles.lanes

        def rows(count: int, index: Operand, _: list[Operand]) -> list[Operand]:
            first = code.address(matrix, code.binary("mul", index, apart), NARROW)
            lines = [first, code.address(first, apart, NARROW)][:count]
            later = code.address(first, code.binary("mul", apart, number(ROWS_AHEAD)), NARROW)
            into = place(index)
            for v, mask in enumerate(masks):
                begin = number(v * lanes)
                code.fetch(code.address(later, begin, NARROW))
                both = [code.address(one, begin, NARROW) for one in lines]
                code.store(load_pairs(code, both, lanes, mask), code.address(into, begin, PAIR))
            return []

        even = code.binary("and", depth, number(-2))
        code.loop(ZERO, even, 2, [], partial(rows, 2))
        code.loop(even, depth, 1, [], partial(rows, 1))

    def bunching(self) -> str:
        """The name of the function that packs columns of B, written if it is not there.

        `void(ptr b, i64 ldb, ptr work, i64 depth, i64 columns)`.  Every row, or pair of rows,
        becomes one of BUNCH_COLUMNS; behind the columns that are there, there are zeros.
        """
        code, lanes, pairs, kept = Code(self.module), self.tiles.lanes, self.tiles.pairs, self.of_b
        name = f"@pack_bunch_{lanes}_{self.type}" + "_pairs" * pairs
        name += f"_{kept}" * (kept != self.type)
        if self.is_there(name):
            return name
        b, work = Operand("%b", "ptr"), Operand("%work", "ptr")
        ldb, depth, columns = (Operand(f"%{one}", I64) for one in ("ldb", "depth", "columns"))
        places, line = iota(lanes), LINE_NBYTES * 8 // BITS[kept]
        masks = list[Operand | None]()
        for begin in range(0, BUNCH_COLUMNS, lanes):
            left = code.binary("sub", columns, number(begin))
            masks.append(code.compare("icmp slt", places, code.splat(left, places.type)))

        def bunch(index: Operand) -> Operand:
            if pairs:
                index = code.binary("lshr", index, ONE)
            return self.moved(code, work, code.binary("mul", index, number(BUNCH_COLUMNS)))

        def row(index: Operand, _: list[Operand]) -> list[Operand]:
            lies = code.address(b, code.binary("mul", index, ldb), kept)
            place = bunch(index)
            later = code.address(lies, code.binary("mul", ldb, number(ROWS_AHEAD)), kept)
            for begin in range(0, BUNCH_COLUMNS, line):
                code.fetch(code.address(later, number(begin), kept))
            for v, value in enumerate(self.read(code, lies, self.vector, masks, kept)):
                code.store(value, self.moved(code, place, number(v * lanes)))
            return []

        if pairs:
            self.pair_rows(code, b, ldb, depth, bunch, masks)
        else:
            code.loop(ZERO, depth, 1, [], row)
        return self.written(code, name, [b, ldb, work, depth, columns])


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
