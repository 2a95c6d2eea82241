"""In LLVM's text: the functions that compute one tile of a product, or pack what tiles read."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Module,
    Operand,
    constant,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import masked_load, masked_store
from chainrule.execute.native.products.product_code import ONE, ZERO
from chainrule.execute.native.products.tile_ahead import LINE_NBYTES, STEPS
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import BUNCH_COLUMNS, Tiles

AHEAD = 8  # steps of the inner index by which a strip of B that runs across lines is fetched
ROWS_AHEAD = 8  # rows of a bunch by which it is fetched
SQUARE_NBYTES = 32  # of a row of the squares that are transposed: wider ones take long to compile
I64 = "i64"


class Kernels:
    """The functions that do one panel or one tile, for the shapes that a product has.

    They take what lies between elements as arguments, so that all products of a module share them.
    """

    def __init__(self, module: Module, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        self.module, self.gemm, self.tiles, self.type = module, gemm, tiles, type_
        self.vector = with_lanes(type_, tiles.lanes)
        edge = gemm.m % tiles.width  # rows of the last panel; 0: it is like the others
        self.widths = ([edge] if edge else []) + ([tiles.width] if gemm.m >= tiles.width else [])
        low, wide = divmod(gemm.n, tiles.strips_together(gemm))
        self.columns = [low + 1, low] if wide else [low]  # of the first strips, and of the others

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

    def tile(self, code: Code, last: Operand, is_wide: Operand, *operands: Operand) -> None:
        """Call what computes this tile: of a, b, c, the depth, alpha, beta, and what it fetches."""
        gemm, tiles = self.gemm, self.tiles
        names = [
            choice(code, is_wide, [self.tiling(width, one) for one in self.columns])
            for width in self.widths
        ]
        a, b, c, *factors = operands
        step = tiles.width if tiles.packs else gemm.lda
        along, across = (gemm.ldb, 1) if gemm.transb else (1, gemm.ldb)
        by = (number(one) for one in (step, along, across, gemm.ldc))
        call(code, choice(code, last, names), a, b, c, *by, *factors)

    def masks(self, width: int, lanes: int) -> list[Operand | None]:
        """For every vector of so many rows, which lanes it has; None: all."""
        found = list[Operand | None]()
        for begin in range(0, width, lanes):
            here = min(width - begin, lanes)
            bits = ", ".join(f"i1 {'true' if lane < here else 'false'}" for lane in range(lanes))
            found.append(None if here == lanes else Operand(f"<{bits}>", f"<{lanes} x i1>"))
        return found

    def tiling(self, width: int, columns: int) -> str:
        """The name of the function for tiles of this size, written if it is not there.

        `void(ptr a, ptr b, ptr c, i64 step, i64 along, i64 across, i64 ldc, i64 depth, T alpha,
        T beta)`: the next column of A is `step` elements on, the next row of B `along`, its next
        column `across`.  Where tiles fetch, also `ptr later, i64 further`: a line every STEPS, and
        how many elements on the next one is.  Where there are windows, tables `ptr of_b, ptr of_a`:
        how many elements from `b` on each row of B is, and so for the columns of A if it is not
        packed.
        """
        packs, lanes, vector = self.tiles.packs, self.tiles.lanes, self.vector
        packs_strips = self.tiles.packs_strips
        reads = "packed" if packs_strips else "panel" if packs else "direct"
        reads += "_ahead" * self.tiles.fetches + "_windows" * bool(self.gemm.inner)
        name = f"@tile_{reads}_{width}_{columns}_{lanes}_{self.type}"
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
        two = code.binary("mul", across, number(2))
        firsts = (code.binary("mul", across, number(column)) for column in range(0, columns, 3))
        threes = [self.moved(code, b, one) for one in firsts]
        gathers, tables = bool(self.gemm.inner), (Operand("%of_b", "ptr"), Operand("%of_a", "ptr"))
        begins = [tables[0]] if gathers else threes
        count = len(begins)

        def one_step(_: Operand, carried: list[Operand]) -> list[Operand]:
            left, rows, sums = carried[0], carried[1 : 1 + count], carried[1 + count :]
            nexts = [self.moved(code, left, step), *(self.moved(code, r, along) for r in rows)]
            if gathers:
                nexts = [nexts[0], code.address(rows[0], ONE, I64)]
                further = code.load(rows[0], I64)
                rows = [self.moved(code, one, further) for one in threes]
            if gathers and not packs:
                nexts[0] = code.address(left, ONE, I64)
                left = self.moved(code, a, code.load(left, I64))
            shown = [None] * len(masks) if packs else masks  # behind packed rows there are zeros
            vectors = self.read(code, left, lanes, shown)
            for row in () if packs_strips or gathers else (rows[0], rows[-1]):
                code.fetch(self.moved(code, row, ahead))
            found = []
            for column in range(columns):
                base, place = rows[column // 3], (ZERO, across, two)[column % 3]
                factor = code.load(self.moved(code, base, place), self.type)
                for v, one in enumerate(vectors):
                    total = sums[column * len(masks) + v]
                    found.append(code.fma(one, code.splat(factor, vector), total))
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

        def steps(index: Operand, carried: list[Operand]) -> list[Operand]:
            place, *rest = carried
            code.fetch(place)
            after = code.binary("add", index, number(STEPS))
            stop = code.call("llvm.smin.i64", I64, depth, after)
            rest = code.loop(index, stop, 1, rest, one_step)
            return [self.moved(code, place, further), *rest]

        if self.tiles.fetches:
            _, *found = code.loop(ZERO, depth, STEPS, [later, *start], steps)
        else:
            found, ends = code.loop(ZERO, depth, 1, start, one_step), tables if gathers else ()
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

    def moved(self, code: Code, base: Operand, index: Operand) -> Operand:
        """base + index elements."""
        return code.address(base, index, self.type)

    def read(
        self, code: Code, base: Operand, lanes: int, masks: Sequence[Operand | None]
    ) -> list[Operand]:
        """The vectors from `base` on; what a mask hides is not read."""
        vector, found = with_lanes(self.type, lanes), list[Operand]()
        for v, mask in enumerate(masks):
            place = self.moved(code, base, number(v * lanes))
            whole = mask is None
            found.append(
                code.load(place, vector) if whole else masked_load(code, place, vector, mask)
            )
        return found

    def packing(self, width: int, pitch: int, lanes: int, is_across: bool) -> str:
        """The name of the function that packs so many rows of A, or columns of B, written if it is
        not there.

        `void(ptr a, i64 lda, ptr work, i64 depth)`.  They lie side by side, and the next step of
        the inner index `pitch` elements on.  Behind them there are zeros, up to the end of a
        vector of so many lanes.  `is_across`: in A they lie `lda` apart, not side by side.
        """
        name = f"@pack{'_across' if is_across else ''}_{width}_{pitch}_{lanes}_{self.type}"
        if self.is_there(name):
            return name
        masks, code = self.masks(width, lanes), Code(self.module)
        a, work = Operand("%a", "ptr"), Operand("%work", "ptr")
        lda, depth = Operand("%lda", I64), Operand("%depth", I64)
        side = min(lanes, SQUARE_NBYTES * 8 // BITS[self.type])
        square = with_lanes(self.type, side)

        def panel(index: Operand) -> Operand:
            return self.moved(code, work, code.binary("mul", index, number(pitch)))

        def along(index: Operand, _: list[Operand]) -> list[Operand]:
            column, place = self.moved(code, a, code.binary("mul", index, lda)), panel(index)
            for v, value in enumerate(self.read(code, column, lanes, masks)):
                code.store(value, self.moved(code, place, number(v * lanes)))
            return []

        def square_at(row: Operand, index: Operand, mask: Operand, count: int) -> None:
            """Transpose a square, of which so many rows are there."""
            start = self.moved(code, self.moved(code, a, index), code.binary("mul", row, lda))
            place = self.moved(code, panel(index), row)
            rows = [constant(0.0, square)] * side
            for k in range(count):
                line = self.moved(code, start, code.binary("mul", lda, number(k)))
                code.fetch(code.address(line, number(LINE_NBYTES), "i8"))
                rows[k] = masked_load(code, line, square, mask)
            for k, value in enumerate(transposed(code, rows)):
                code.store(value, self.moved(code, place, number(k * pitch)))

        def across(index: Operand, _: list[Operand]) -> list[Operand]:
            left = code.binary("sub", depth, index)
            mask = code.compare("icmp ult", iota(side), code.splat(left, iota(side).type))

            def one(row: Operand, _: list[Operand]) -> list[Operand]:
                square_at(row, index, mask, side)
                return []

            whole = width // side * side
            code.loop(ZERO, number(whole), side, [], one)
            for begin in range(whole, len(masks) * lanes, side):
                square_at(number(begin), index, mask, max(0, width - begin))
            return []

        if is_across:
            code.loop(ZERO, depth, side, [], across)
        else:
            code.loop(ZERO, depth, 1, [], along)
        return self.written(code, name, [a, lda, work, depth])

    def bunching(self) -> str:
        """The name of the function that packs columns of B, written if it is not there.

        `void(ptr b, i64 ldb, ptr work, i64 depth, i64 columns)`.  Every row becomes one of
        BUNCH_COLUMNS; behind the columns that are there, there are zeros.
        """
        code, lanes = Code(self.module), self.tiles.lanes
        name = f"@pack_bunch_{lanes}_{self.type}"
        if self.is_there(name):
            return name
        b, work = Operand("%b", "ptr"), Operand("%work", "ptr")
        ldb, depth, columns = (Operand(f"%{one}", I64) for one in ("ldb", "depth", "columns"))
        places, line = iota(lanes), LINE_NBYTES * 8 // BITS[self.type]
        masks = list[Operand | None]()
        for begin in range(0, BUNCH_COLUMNS, lanes):
            left = code.binary("sub", columns, number(begin))
            masks.append(code.compare("icmp slt", places, code.splat(left, places.type)))

        def row(index: Operand, _: list[Operand]) -> list[Operand]:
            lies = self.moved(code, b, code.binary("mul", index, ldb))
            place = self.moved(code, work, code.binary("mul", index, number(BUNCH_COLUMNS)))
            later = self.moved(code, lies, code.binary("mul", ldb, number(ROWS_AHEAD)))
            for begin in range(0, BUNCH_COLUMNS, line):
                code.fetch(self.moved(code, later, number(begin)))
            for v, value in enumerate(self.read(code, lies, lanes, masks)):
                code.store(value, self.moved(code, place, number(v * lanes)))
            return []

        code.loop(ZERO, depth, 1, [], row)
        return self.written(code, name, [b, ldb, work, depth, columns])

    def written(self, code: Code, name: str, parameters: list[Operand]) -> str:
        """The name of the function that was written, which is there once."""
        code.do("ret void")
        code.function(name[1:], parameters, attributes="noinline nounwind")
        _texts[name] = self.module.functions.pop().replace("define ", "define internal ", 1)
        self.is_there(name)
        return name

    def is_there(self, name: str) -> bool:
        """Whether the function was written before, for any module; then it is in this one."""
        text = _texts.get(name)
        if text is not None and text not in self.module.functions:
            self.module.functions.append(text)
        return text is not None


_texts: dict[str, str] = {}  # of the functions, by their names, which say all that they depend on


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
