"""Products with 3 x 3 windows in LLVM's text, by Winograd's method (`plan.products.winograd`)."""

from __future__ import annotations

from chainrule.execute.native.plan_to_ir.emit import AT_LEVEL_0, Code, Module, Operand, constant
from chainrule.execute.native.products.kernels import I64, call, number
from chainrule.execute.native.products.product_code import ZERO, moved
from chainrule.execute.native.products.tile_code import Bounds, TiledProduct
from chainrule.execute.native.products.winograd_transforms import (
    OUTER,
    OUTER_ROWS,
    TYPE,
    X_LAST,
    Transforms,
    X,
)
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.winograd import NUMBERS, POINTS, STRIPS, Winograd


def emit_winograd(module: Module, name: str, one: Winograd, phase: str, parts: int) -> None:
    """`void @name(ptr x, ptr y, ptr out, T alpha, T beta, ptr shared, ptr own, i64 part, i64
    parts)`: a part of a phase of out = alpha x y + beta out.

    `shared` is memory of `shared_nbytes` for all threads, `own` of `own_nbytes` for this one.
    Every element is summed in one order, whatever the number of parts: so are the bits.
    """
    _WinogradCode(Code(module), one, parts).emit(name, phase)


class _WinogradCode(TiledProduct):
    """What the methods below write to and about; the tiles are those of each of the 16 products."""

    def __init__(self, code: Code, one: Winograd, parts: int) -> None:
        super().__init__(code, _gemm(one), one.tiles, TYPE)
        self.one, self.part_count = one, parts
        self.transforms = Transforms(code.module, one)
        self.x, self.y, self.out, self.shared, self.table = (
            Operand(f"%{name}", "ptr") for name in ("x", "y", "out", "shared", "own")
        )
        self.part, self.parts = Operand("%part", I64), Operand("%parts", I64)
        self.data, self.other = (self.x, self.y) if one.x_is_first else (self.y, self.x)

    def emit(self, name: str, phase: str) -> None:
        """The function of a phase."""
        phases = {
            ("kernel", False): self.turn_kernel,
            ("outer", False): self.outer,
            ("sums", True): self.sums,
            ("kernel", True): self.kernel_sums,
        }
        phases[phase, self.one.adds_up]()
        arrays = self.x, self.y, self.out, self.alpha, self.beta, self.shared, self.table
        self.code.do("ret void")
        attributes = f"nounwind {AT_LEVEL_0}"
        self.code.function(name, [*arrays, self.part, self.parts], attributes=attributes)

    def mine(self, whole: int) -> Bounds:
        """This part's share."""
        if self.part_count == 1:
            return ZERO, number(whole)
        return self.share(whole, self.part, self.parts)

    def turn_kernel(self) -> None:
        """A share of the kernel's rows, transformed."""
        name = self.transforms.kernels()
        call(self.code, name, self.other, self.shared, *self.mine(self.one.rows))

    def kernel_sums(self) -> None:
        """A share of the kernel's channels, from the sums of their products."""
        name, bounds = self.transforms.kernel_sums(), self.mine(self.one.channels)
        call(self.code, name, self.shared, self.out, *bounds, self.alpha, self.beta)

    def outer(self) -> None:
        """A share of the blocks: squares of x, and strip by strip their products and outputs."""
        code, one = self.code, self.one
        squares, sums = self.planes(one.data_plane, POINTS**2)
        strips = self.tiles.strips_together(self.gemm)

        def block(index: Operand) -> None:
            rows = self.tabulate(index)
            channels = number(one.channels)
            name = self.transforms.data(range(POINTS))
            call(code, name, self.data, squares, self.table, rows, channels)

            def group(turn: Operand) -> None:
                first = code.binary("mul", turn, number(STRIPS))
                after = self.least(code.binary("add", first, number(STRIPS)), number(strips))
                begin, end = self.first_column(first), self.first_column(after)

                def product(k: Operand) -> None:
                    a = moved(code, squares, k, one.data_plane, TYPE)
                    b = moved(code, self.shared, k, one.kernel_plane, TYPE)
                    b = moved(code, b, begin, one.channels, TYPE)
                    c = moved(code, sums, k, one.sums_plane, TYPE)
                    for start in range(0, one.channels, one.tiles.depth):
                        depth = min(one.tiles.depth, one.channels - start)
                        further = moved(code, a, number(start), one.pitch, TYPE)
                        right = moved(code, b, number(start), 1, TYPE)
                        beta = constant(1.0 if start else 0.0, TYPE)
                        self.multiply((first, after), further, right, c, number(depth), beta)

                self.each(ZERO, number(POINTS**2), product)
                out = moved(code, self.out, begin, one.outer_row, TYPE)
                count = code.binary("sub", end, begin)
                name = self.transforms.outputs()
                call(code, name, sums, out, self.table, rows, count, self.alpha, self.beta)

            self.each(ZERO, number(-(-strips // STRIPS)), group)

        self.each(*self.mine(one.blocks), block)

    def sums(self) -> None:
        """A share of the products that blocks add up to: lines of points, and some channels."""
        code, one = self.code, self.one
        squares, rest = self.planes(one.data_plane, POINTS)
        cotangents, packed = rest, moved(code, rest, number(POINTS), one.outer_plane, TYPE)
        splits = min(self.part_count, POINTS)
        groups = self.part_count // splits
        turn, group = (ZERO, ZERO) if self.part_count == 1 else self.split(self.part, splits)
        lines = self.share(POINTS, turn, number(splits))
        bounds = self.share(self.tiles.strips_together(self.gemm), group, number(groups))
        begin, end = (self.first_column(one) for one in bounds)
        channels = code.binary("sub", end, begin)
        x = moved(code, self.data, begin, one.x_channel, TYPE)
        of_data = [self.transforms.data([point]) for point in range(POINTS)]
        of_outer = [self.transforms.cotangents(point) for point in range(POINTS)]

        def block(index: Operand) -> None:
            rows = self.tabulate(index)
            depth = code.binary("mul", rows, number(one.across))
            is_first = code.compare("icmp eq", index, ZERO)
            beta = code.select(is_first, constant(0.0, TYPE), constant(1.0, TYPE))

            def line(point: Operand) -> None:
                name = self.of_point(point, of_data)
                call(code, name, x, squares, self.table, rows, channels)
                name = self.of_point(point, of_outer)
                call(code, name, self.other, cotangents, self.table, rows)
                into = moved(code, self.shared, point, POINTS * one.kernel_plane, TYPE)
                into = moved(code, into, begin, one.rows, TYPE)

                def product(k: Operand) -> None:
                    a = moved(code, cotangents, k, one.outer_plane, TYPE)
                    b = moved(code, squares, k, one.data_plane, TYPE)
                    c = moved(code, into, k, one.kernel_plane, TYPE)

                    def pack(panel: Operand) -> None:
                        lies, to, is_last = self.place(panel, a, packed)
                        self.packs.pack(code, is_last, lies, to, depth)

                    self.each(ZERO, number(self.tiles.panels(self.gemm)), pack)
                    self.multiply(bounds, packed, b, c, depth, beta)

                self.each(ZERO, number(POINTS), product)

            self.each(*lines, line)

        self.each(ZERO, number(one.blocks), block)

    def of_point(self, point: Operand, names: list[str]) -> str:
        """The function of a line of points."""
        code, found = self.code, Operand(names[0], "ptr")
        for k, name in enumerate(names[1:], start=1):
            is_this = code.compare("icmp eq", point, number(k))
            found = code.select(is_this, Operand(name, "ptr"), found)
        return found.text

    def planes(self, size: int, count: int) -> tuple[Operand, Operand]:
        """Where this thread's planes of squares of x lie, and what is behind them."""
        squares = moved(self.code, self.table, number(self.one.table_size), 2, TYPE)
        return squares, moved(self.code, squares, number(count), size, TYPE)

    def place(self, panel: Operand, a: Operand, packed: Operand) -> tuple[Operand, ...]:
        """Where a panel of A lies, where it is packed, and whether it is the last."""
        code, tiles = self.code, self.tiles
        is_last = code.compare("icmp eq", panel, number(tiles.panels(self.gemm) - 1))
        lies = moved(code, a, panel, self.apart, TYPE)
        return lies, moved(code, packed, panel, tiles.panel_size, TYPE), is_last

    def multiply(
        self, strips: Bounds, a: Operand, b: Operand, c: Operand, depth: Operand, beta: Operand
    ) -> None:
        """All tiles of these strips, of which the first is at `b` and `c`; `a` is packed if tiles
        pack it."""
        code, gemm = self.code, self.gemm
        begin = self.first_column(strips[0])
        wide = number(gemm.n % self.tiles.strips_together(gemm))

        def strip(index: Operand) -> None:
            column = code.binary("sub", self.first_column(index), begin)
            left = moved(code, b, column, gemm.ldb, TYPE)
            above = moved(code, c, column, gemm.ldc, TYPE)
            is_wide = code.compare("icmp ult", index, wide)

            def tile(panel: Operand) -> None:
                lies, packed, is_last = self.place(panel, a, a)
                source = packed if self.tiles.packs else lies
                corner = moved(code, above, panel, self.tiles.width, TYPE)
                operands = source, left, corner, depth, constant(1.0, TYPE), beta
                self.computes.tile(code, is_last, is_wide, *operands)

            self.each(ZERO, number(self.tiles.panels(gemm)), tile)

        self.each(*strips, strip)

    def tabulate(self, block: Operand) -> Operand:
        """Write where each row of squares of a block lies; how many there are."""
        code, one = self.code, self.one
        first = code.binary("mul", block, number(one.at_once))
        left = code.binary("sub", number(one.square_rows), first)
        count = self.least(left, number(one.at_once))

        def row(turn: Operand) -> None:
            down, rest = self.split(code.binary("add", first, turn), one.down)
            x = outer = ZERO
            for axis in reversed(one.around):
                place, rest = self.split(rest, axis.size)
                x = code.binary("add", x, code.binary("mul", place, number(axis.x)))
                outer = code.binary("add", outer, code.binary("mul", place, number(axis.outer)))
            line = code.binary("mul", down, number(2))
            last = code.binary("add", line, number(POINTS - 1))
            last = self.least(last, number(one.height + 1))
            rows = code.binary("sub", number(one.height), line)
            entries = {
                X: code.binary("add", x, code.binary("mul", line, number(one.x_down))),
                X_LAST: code.binary("add", x, code.binary("mul", last, number(one.x_down))),
                OUTER: code.binary("add", outer, code.binary("mul", line, number(one.outer_down))),
                OUTER_ROWS: self.least(rows, number(2)),
            }
            place = code.binary("mul", turn, number(NUMBERS))
            for which, value in entries.items():
                at = code.binary("add", place, number(which))
                code.store(value, code.address(self.table, at, I64))

        self.each(ZERO, count, row)
        return count


def _gemm(one: Winograd) -> Gemm:
    """Each of the 16 products of a block."""
    if one.adds_up:
        m, n, k = one.rows, one.channels, one.squares
        lda, ldb, ldc = one.pitch, one.pitch, one.rows
    else:
        m, n, k = one.squares, one.rows, one.channels
        lda, ldb, ldc = one.pitch, one.channels, one.pitch
    return Gemm(m, n, k, one.adds_up, False, lda, ldb, ldc, a_is_x=True)
