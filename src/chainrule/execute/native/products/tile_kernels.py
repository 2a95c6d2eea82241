"""In LLVM's text: the functions that compute one tile of a product."""

from __future__ import annotations

from functools import partial

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, with_lanes
from chainrule.execute.native.plan_to_ir.masks import masked_load, masked_store
from chainrule.execute.native.products.kernels import I64, Kernels, call, choice, number
from chainrule.execute.native.products.narrow_reads import (
    PAIR,
    add_products_of_pairs,
    declare_products_of_pairs,
    load_everywhere,
    load_pair_everywhere,
)
from chainrule.execute.native.products.product_code import ONE, ZERO
from chainrule.execute.native.products.tile_ahead import LINE_NBYTES, STEPS, line_count
from chainrule.plan.products.tiles import BUNCH_COLUMNS

AHEAD = 8  # steps of the inner index by which a strip of B that runs across lines is fetched


class TileKernels(Kernels):
    """Those that compute one tile."""

    def tile(self, code: Code, last: Operand, is_wide: Operand, *operands: Operand) -> None:
        """Call what computes this tile: of a, b, c, the depth, alpha, beta, and what it fetches."""
        gemm, tiles = self.gemm, self.tiles
        if tiles.pairs:
            declare_products_of_pairs(self.module)
        names = [
            choice(code, is_wide, [self.tiling(width, one) for one in self.columns])
            for width in self.widths
        ]
        a, b, c, *factors = operands
        step = tiles.width if tiles.packs else gemm.lda
        along, across = (gemm.ldb, 1) if gemm.transb else (1 + tiles.pairs, gemm.ldb)
        by = (number(one) for one in (step, along, across, gemm.ldc))
        call(code, choice(code, last, names), a, b, c, *by, *factors)

    def tiling(self, width: int, columns: int) -> str:
        """The name of the function for tiles of this size, written if it is not there.

        `void(ptr a, ptr b, ptr c, i64 step, i64 along, i64 across, i64 ldc, i64 depth, T alpha,
        T beta)`: the next column of A is `step` elements on, the next row of B `along`, its next
        column `across`.  Where tiles fetch, also `ptr later, i64 further`: a line every STEPS, and
        how many bytes on the next one is.  Where there are windows, tables `ptr of_b, ptr of_a`:
        how many elements from `b` on each row of B is, and so for the columns of A if it is not
        packed.  In pairs, `step` and `along` are those of two steps; `depth` counts single ones.
        """
        packs, lanes, vector = self.tiles.packs, self.tiles.lanes, self.vector
        packs_strips, pairs = self.tiles.packs_strips, self.tiles.pairs
        streams, fetches = self.tiles.streams, self.tiles.fetches and not self.tiles.streams
        of_a, of_b = self.type if packs else self.of_a, self.type if packs_strips else self.of_b
        is_odd = pairs and not packs_strips and self.gemm.k % 2 == 1  # the last step is no pair
        reads = "packed" if packs_strips else "panel" if packs else "direct"
        reads += "_ahead" * self.tiles.fetches + "_windows" * bool(self.gemm.inner)
        reads += "_pairs" * pairs + "_odd" * is_odd
        kept = f"_a_{of_a}" * (of_a != self.type) + f"_b_{of_b}" * (of_b != self.type)
        name = f"@tile_{reads}_{width}_{columns}_{lanes}_{self.type}{kept}"
        if self.is_there(name):
            return name
        code, masks = Code(self.module), self.masks(width, lanes)
        a, b, c = (Operand(f"%{one}", "ptr") for one in "abc")
        strides = [Operand(f"%{one}", I64) for one in ("step", "along", "across", "ldc", "depth")]
        step, along, across, ldc, depth = strides
        if packs_strips:
            along, across = number(BUNCH_COLUMNS), ONE
        alpha, beta = Operand("%alpha", self.type), Operand("%beta", self.type)
        later, further = ends = Operand("%later", "ptr"), Operand("%further", I64)
        zero = constant(0.0, vector)
        ahead = code.binary("mul", along, number(AHEAD))
        further_on = code.binary("mul", step, depth)  # where the next block of these rows begins
        two = code.binary("mul", across, number(2))
        firsts = (code.binary("mul", across, number(column)) for column in range(0, columns, 3))
        threes = [code.address(b, one, of_b) for one in firsts]
        gathers, tables = bool(self.gemm.inner), (Operand("%of_b", "ptr"), Operand("%of_a", "ptr"))
        begins = [tables[0]] if gathers else threes
        count = len(begins)

        def one_step(_: Operand, carried: list[Operand], is_whole: bool = True) -> list[Operand]:
            left, rows, sums = carried[0], carried[1 : 1 + count], carried[1 + count :]
            nexts = [
                code.address(left, step, of_a),
                *(code.address(row, along, of_b) for row in rows),
            ]
            if gathers:
                nexts = [nexts[0], code.address(rows[0], ONE, I64)]
                further = code.load(rows[0], I64)
                rows = [code.address(one, further, of_b) for one in threes]
            if gathers and not packs:
                nexts[0] = code.address(left, ONE, I64)
                left = code.address(a, code.load(left, I64), of_a)
            shown = [None] * len(masks) if packs else masks  # behind packed rows there are zeros
            if pairs:
                vectors = self.read(code, left, with_lanes(PAIR, lanes), shown, PAIR)
            else:
                vectors = self.read(code, left, vector, shown, of_a)
            for line in range(line_count(width, of_a)) if streams else ():
                place = code.address(carried[0], further_on, of_a)
                code.fetch(code.address(place, number(line * LINE_NBYTES), "i8"))
            for row in () if packs_strips or gathers else (rows[0], rows[-1]):
                code.fetch(code.address(row, ahead, of_b))
            found = []
            for column in range(columns):
                base, place = rows[column // 3], (ZERO, across, two)[column % 3]
                place = code.address(base, place, of_b)
                if pairs:
                    factor = load_pair_everywhere(code, place, vectors[0].type, is_whole)
                else:
                    factor = load_everywhere(code, place, of_b, vector)
                for v, one in enumerate(vectors):
                    total = sums[column * len(masks) + v]
                    if pairs:
                        found.append(add_products_of_pairs(code, total, one, factor))
                    else:
                        found.append(code.fma(one, factor, total))
            return [*nexts, *found]

        lines = [self.moved(code, c, code.binary("mul", ldc, number(k))) for k in range(columns)]
        places = [
            self.moved(code, row, number(v * lanes)) for row in lines for v in range(len(masks))
        ]
        for place in places:
            code.fetch(place, writes=True)
        start = [
            tables[1] if gathers and not packs else a,
            *begins,
            *[zero] * (columns * len(masks)),
        ]

        whole = depth
        if pairs:  # of packed strips, also the one whose second row is zeros
            whole = code.binary("add", depth, ONE) if packs_strips else depth
            whole = code.binary("lshr", whole, ONE)

        def steps(index: Operand, carried: list[Operand]) -> list[Operand]:
            place, *rest = carried
            code.fetch(place)
            after = code.binary("add", index, number(STEPS))
            stop = code.call("llvm.smin.i64", I64, whole, after)
            rest = code.loop(index, stop, 1, rest, one_step)
            return [code.address(place, further, "i8"), *rest]

        if fetches:
            _, *found = code.loop(ZERO, whole, STEPS, [later, *start], steps)
        else:
            found, ends = code.loop(ZERO, whole, 1, start, one_step), tables if gathers else ()
        if is_odd:
            odd = code.binary("and", depth, ONE)
            found = code.loop(ZERO, odd, 1, found, partial(one_step, is_whole=False))
        sums = found[1 + count :]
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
        return self.written(code, name, [a, b, c, *strides, alpha, beta, *ends])
