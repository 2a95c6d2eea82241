"""Products with windows in LLVM's text: tiles that read the windows where they lie, by a table."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand
from chainrule.execute.native.products.kernels import I64, call, choice, number
from chainrule.execute.native.products.narrow_reads import load_number, load_vector
from chainrule.execute.native.products.product_code import TYPES, moved, offset
from chainrule.execute.native.products.tile_code import Block, TiledProduct
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import Tiles, further_columns
from chainrule.plan.products.windowed import table


def emit_windowed_product(
    module: Module, name: str, gemm: Gemm, tiles: Tiles, dtype: np.dtype, parts: int
) -> None:
    """As `emit_tiled_product`, of a product with `inner` axes."""
    _WindowedProduct(Code(module), gemm, tiles, TYPES[np.dtype(dtype)]).write(name, parts)


class _WindowedProduct(TiledProduct):
    """B is read by its table; A, too, or it is packed by its table, or whole rows at once."""

    def __init__(self, code: Code, gemm: Gemm, tiles: Tiles, type_: str) -> None:
        super().__init__(code, gemm, tiles, type_)
        self.further = further_columns(gemm)
        steps = table(gemm.inner, "a")
        self.is_run = tiles.packs and gemm.lda != 1 and steps == list(range(gemm.k))
        self.table_a = "" if self.is_run else _table(code.module, steps)
        self.table_b = _table(code.module, table(gemm.inner, "b"))

    def inward(self, a: Operand, b: Operand, steps: Operand) -> tuple[Operand, Operand]:
        """The tables say where it goes on."""
        return a, b

    def block(self, one: Block) -> None:
        """Pack the panels, then all tiles of one strip after another."""
        if self.tiles.packs:
            self.each(*one.panels, lambda panel: self.pack_panel(one, panel))
        self.each(*one.strips, lambda index: self.tiles_of(one, index))

    def pack_panel(self, one: Block, panel: Operand) -> None:
        """This part of the inner index, of one panel."""
        code = self.code
        lies, packed, is_last = self.panel(one, panel)
        if self.is_run:
            lies = moved(code, lies, one.begin, 1, self.of_a)
            self.packs.pack(code, is_last, lies, packed, one.depth)
            return
        places = self.from_step(self.table_a, one.begin)
        names = [self.packing(width) for width in self.packs.widths]
        lda = number(self.gemm.lda)
        call(code, choice(code, is_last, names), lies, lda, packed, one.depth, places)

    def tiles_of(self, one: Block, index: Operand) -> None:
        """All tiles of a strip."""
        code, gemm, tiles = self.code, self.gemm, self.tiles
        together = tiles.strips_together(gemm)
        strip, turn = self.split(index, together)
        _, b, c = offset(code, (one.a, one.b, one.c), self.further, turn, self.types)
        left = self.column(b, strip, gemm.ldb, self.of_b)
        above = self.column(c, strip, gemm.ldc, self.type)
        is_wide = code.compare("icmp ult", strip, number(gemm.n % together))
        tables = self.table_b, self.table_a or self.table_b
        places = [self.from_step(table, one.begin) for table in tables]

        def tile(panel: Operand) -> None:
            lies, packed, is_last = self.panel(one, panel)
            corner = moved(code, above, panel, tiles.width, self.type)
            source = packed if tiles.packs else lies
            operands = source, left, corner, one.depth, self.alpha, one.beta, *places
            self.computes.tile(code, is_last, is_wide, *operands)

        self.each(*one.panels, tile)

    def from_step(self, table: str, begin: Operand) -> Operand:
        """A table from this step of the inner index on."""
        return self.code.address(Operand(table, "ptr"), begin, I64)

    def packing(self, width: int) -> str:
        """The name of the function that packs so many rows of A by a table, written if it is not
        there.

        `void(ptr a, i64 lda, ptr work, i64 depth, ptr table)`, as `Kernels.packing`: the rows are
        `lda` apart, side by side or one by one, and each step where the table says.
        """
        lanes, pitch = self.tiles.lanes, self.tiles.width
        code, is_beside = Code(self.code.module), self.gemm.lda == 1
        name = f"@pack_by_table_{'beside_' * is_beside}{width}_{pitch}_{lanes}_{self.type}"
        name += f"_{self.of_a}" * (self.of_a != self.type)
        a, work, places = (Operand(f"%{one}", "ptr") for one in ("a", "work", "table"))
        lda, depth = Operand("%lda", I64), Operand("%depth", I64)
        vector = self.packs.vector

        def step(index: Operand, _: list[Operand]) -> list[Operand]:
            further = code.load(code.address(places, index, I64), I64)
            lies = code.address(a, further, self.of_a)
            place = code.address(work, code.binary("mul", index, number(pitch)), self.type)
            for v, mask in enumerate(self.packs.masks(width, lanes)):
                first = v * lanes
                if is_beside:
                    here = code.address(lies, number(first), self.of_a)
                    value = load_vector(code, here, self.of_a, vector, mask)
                else:
                    value = Operand("zeroinitializer", vector)
                    for lane in range(min(lanes, width - first)):
                        row = moved(code, lies, lda, first + lane, self.of_a)
                        one = load_number(code, row, self.of_a)
                        text = f"insertelement {vector} {value.text}, {self.type} {one.text}"
                        value = code.emit(f"{text}, i32 {lane}", vector)
                code.store(value, code.address(place, number(first), self.type))
            return []

        code.loop(number(0), depth, 1, [], step)
        return self.packs.written(code, name, [a, lda, work, depth, places])


def _table(module: Module, steps: list[int]) -> str:
    """The name of a constant array of the module, written if it is not there."""
    numbers = ", ".join(f"i64 {one}" for one in steps)
    name = f"@steps_{sha256(numbers.encode()).hexdigest()[:16]}"
    module.declare(f"{name} = internal constant [{len(steps)} x i64] [{numbers}]")
    return name
