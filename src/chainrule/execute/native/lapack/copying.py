"""Copies of matrices between layouts and dtypes in LLVM's text, in blocks."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant, count
from chainrule.primitives.routines import Block, Copy, Numbers, Permute, Swap, Unit

TOGETHER = 8  # rows of a source that is transposed: a line of it is then read once
ZERO, ONE = count(0), count(1)


@dataclass(frozen=True)
class Place:
    """A matrix of this call in memory: where its first element is, and its steps and type."""

    pointer: Operand
    block: Block
    type: str

    @property
    def transposed(self) -> Place:
        """The same memory as the transposed matrix."""
        return Place(self.pointer, self.block.transposed, self.type)


Element = Callable[[Operand, Operand], None]  # what is done at a row and a column


class Copying:
    """Writes copies into one function; `place(block)` says where a block is."""

    def __init__(self, code: Code, place: Callable[[Block], Place]) -> None:
        self.code, self.place = code, place

    def copy(self, step: Copy) -> None:
        """See `Copy`."""
        source, into = self.place(step.source), self.place(step.into)
        code = self.code

        def element(row: Operand, column: Operand) -> None:
            value = self.read(source, row, column, into.type)
            if step.part != "all":
                order = "icmp sle" if step.part == "lower" else "icmp sge"
                kept = code.compare(order, column, row)
                value = code.select(kept, value, constant(0.0, into.type))
            code.store(value, self.at(into, row, column))

        if into.block.along == 1:
            self.each(step.rows, step.columns, source.block.along == 1, element)
        else:
            by_rows = source.block.down == 1
            self.each(step.columns, step.rows, by_rows, lambda j, i: element(i, j))

    def each(self, outer: int, inner: int, is_alike: bool, element: Element) -> None:
        """All elements, `inner` the faster axis of what is written; of what is read, too, where
        they are alike, else in blocks."""
        code = self.code
        if is_alike or min(outer, inner) <= TOGETHER:
            self.loop(
                ZERO,
                count(outer),
                lambda i: self.loop(ZERO, count(inner), lambda j: element(i, j)),
            )
            return

        def block(first: Operand, kept: list[Operand]) -> list[Operand]:
            end = code.binary("add nsw", first, count(TOGETHER))
            end = code.call("llvm.smin.i64", "i64", end, count(inner))
            self.loop(ZERO, count(outer), lambda i: self.loop(first, end, lambda j: element(i, j)))
            return kept

        # one round more than whole blocks: the loop goes on while first < inner
        code.loop(ZERO, count(inner), TOGETHER, [], block)

    def unit(self, step: Unit) -> None:
        """See `Unit`."""
        into, code = self.place(step.into), self.code

        def element(row: Operand, column: Operand) -> None:
            one, zero = constant(1.0, into.type), constant(0.0, into.type)
            value = code.select(code.compare("icmp eq", row, column), one, zero)
            code.store(value, self.at(into, row, column))

        self.each(step.size, step.size, True, element)

    def numbers(self, step: Numbers) -> None:
        """See `Numbers`."""
        into, code = self.place(step.into), self.code

        def one(row: Operand) -> None:
            code.store(code.convert("sitofp", row, into.type), self.at(into, row, ZERO))

        self.loop(ZERO, count(step.rows), one)

    def swap(self, step: Swap) -> None:
        """See `Swap`."""
        pivots, rows, code = self.place(Block(step.pivots)), self.place(step.rows), self.code

        def one(row: Operand) -> None:
            pivot = code.load(self.at(pivots, row, ZERO), "i32")
            other = code.binary("sub", code.convert("sext", pivot, "i64"), ONE)

            def element(column: Operand) -> None:
                here, there = self.at(rows, row, column), self.at(rows, other, column)
                x, y = code.load(here, rows.type), code.load(there, rows.type)
                code.store(y, here)
                code.store(x, there)

            self.loop(ZERO, count(step.columns), element)

        self.loop(ZERO, count(step.count), one)

    def permute(self, step: Permute) -> None:
        """See `Permute`."""
        source, order, into = (self.place(one) for one in (step.source, step.order, step.into))
        code = self.code

        def one(row: Operand) -> None:
            found = code.load(self.at(order, row, ZERO), order.type)
            other = code.convert("fptosi", found, "i64")
            read, written = (row, other) if step.back else (other, row)

            def element(column: Operand) -> None:
                value = self.read(source, read, column, into.type)
                code.store(value, self.at(into, written, column))

            self.loop(ZERO, count(step.columns), element)

        self.loop(ZERO, count(step.rows), one)

    def read(self, source: Place, row: Operand, column: Operand, type_: str) -> Operand:
        """An element, in another float type."""
        value = self.code.load(self.at(source, row, column), source.type)
        narrower = type_ == "float"
        return self.code.convert("fptrunc" if narrower else "fpext", value, type_)

    def at(self, place: Place, row: Operand, column: Operand) -> Operand:
        """Where an element is."""
        code = self.code
        offset = code.binary("mul nsw", row, count(place.block.down))
        across = code.binary("mul nsw", column, count(place.block.along))
        return code.address(place.pointer, code.binary("add nsw", offset, across), place.type)

    def loop(self, first: Operand, after: Operand, body: Callable[[Operand], None]) -> None:
        """`body` for every index from `first` on."""

        def one(index: Operand, kept: list[Operand]) -> list[Operand]:
            body(index)
            return kept

        self.code.loop(first, after, 1, [], one)
