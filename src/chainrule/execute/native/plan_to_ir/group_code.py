"""The last sweep over several rows at once: what they add to, and what all read, stays near."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.emit import Code, Operand, count
from chainrule.execute.native.plan_to_ir.emit_instances import Places
from chainrule.execute.native.plan_to_ir.quotients import Divisor
from chainrule.execute.native.plan_to_ir.row_scalars import RowScalars, row_scalars
from chainrule.execute.native.plan_to_ir.sweep_code import SweepCode
from chainrule.plan.loops.sweeps import Sweep

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.nest_code import NestCode

Z = Operand("0", "i64")
BLOCK = 64  # vectors: a page of each array that all rows of the group read or add to
SLOTS = Operand("%kept", "ptr")


class GroupCode:
    """Goes over blocks of columns, there over the rows of a group in their order, and there over
    the columns of the block.

    The sweeps before were over one row after another: `keep` puts what the last needs of a row
    into slots of 8 bytes on the stack, `run` emits the sweep, and `reserve` makes the slots, when
    their number is known.  Each row adds to what the row before it left: the order is that of
    rows one by one.
    """

    def __init__(self, nest: NestCode, sweep: Sweep) -> None:
        self.owner, self.code, self.sweep = nest, nest.code, sweep
        self.columns, self.width = nest.nest.columns, nest.layout.width
        self.row = RowScalars()
        self.slots: dict[Operand, int] = {}

    def keep(self, number: Operand) -> None:
        """Keep what is known of the row at hand, the `number`-th of its group."""
        self.row = row_scalars(self.owner, self.sweep)
        found = [
            *(x for one, x in self.row.values.items() if not one.uniform),
            *(x for by in self.row.divisors.values() for x in by),
            *self.row.indices.values(),
        ]
        registers = dict.fromkeys(x for x in found if x.text[0] == "%")
        self.slots = {x: place for place, x in enumerate(registers)}
        for x in self.slots:
            kept = self.code.convert("zext", x, "i8") if x.type == "i1" else x
            self.code.store(kept, self._slot(x, number))

    def reserve(self, rows: int) -> None:
        """Memory for the slots, where the function begins."""
        self.code.lines.insert(0, f"  {SLOTS.text} = alloca i64, i64 {rows * len(self.slots)}")

    def run(self, first: Operand, rows: Operand) -> None:
        """Emit the sweep over `rows` rows from the `first` on."""
        self.first, self.rows = first, rows
        self._columns([])

    def _columns(self, digits: list[Operand]) -> None:
        """Loops over all column axes, the last one by blocks."""
        code, size = self.code, self.columns[len(digits)]
        if len(digits) < len(self.columns) - 1:
            _loop(code, Z, count(size), 1, lambda index: self._columns([*digits, index]))
            return
        step = max(self.width, 1)
        whole = size // step * step

        def one_block(start: Operand) -> None:
            last = code.binary("add nsw", start, count(BLOCK * step))
            within = code.compare("icmp slt", last, count(whole))
            stop = code.select(within, last, count(whole))
            self._each_row(lambda writer: writer.vectors(digits, start, stop))

        _loop(code, Z, count(whole), BLOCK * step, one_block)
        if whole < size:
            self._each_row(lambda writer: writer.rest(digits, whole, []))

    def _each_row(self, emit: Callable[[SweepCode], object]) -> None:
        """`emit` for the rows in their order, with what writes a row's vectors."""

        def one_row(number: Operand) -> None:
            owner, code = self.owner, self.code
            row = code.binary("add nsw", self.first, number)
            zeros = [Z] * len(self.columns)
            owner.places = Places(code, owner.pointers, [row], zeros)
            writer = SweepCode(owner, self.sweep, [], [], self.width)
            writer.row = self._kept(number).splat(code, self.width)
            emit(writer)

        _loop(self.code, Z, self.rows, 1, one_row)

    def _kept(self, number: Operand) -> RowScalars:
        """What was kept of a row, and what is the same for all."""
        loaded = {x: self._loaded(x, number) for x in self.slots}

        def known(x: Operand) -> Operand:
            return loaded.get(x, x)

        row = self.row
        return RowScalars(
            {one: known(x) for one, x in row.values.items()},
            {one: Divisor(*map(known, by)) for one, by in row.divisors.items()},
            {index: known(x) for index, x in row.indices.items()},
        )

    def _loaded(self, x: Operand, number: Operand) -> Operand:
        code, slot = self.code, self._slot(x, number)
        if x.type == "i1":
            return code.convert("trunc", code.load(slot, "i8"), "i1")
        return code.load(slot, x.type)

    def _slot(self, x: Operand, number: Operand) -> Operand:
        """Where the `number`-th row of the group has a scalar."""
        begin = self.code.binary("mul nsw", number, count(len(self.slots)))
        place = self.code.binary("add nsw", begin, count(self.slots[x]))
        return self.code.address(SLOTS, place, "i64")


def _loop(
    code: Code, start: Operand, stop: Operand, step: int, body: Callable[[Operand], object]
) -> None:
    """A loop that carries no values."""

    def one(index: Operand, kept: list[Operand]) -> list[Operand]:
        body(index)
        return kept

    code.loop(start, stop, step, [], one)
