"""The last sweep over several rows at once: their sums, and what all read, are moved once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chainrule.plan.loops import Instance
from chainrule.plan.sweeps import Sweep
from chainrule.run.native.emit import Operand, count
from chainrule.run.native.points import Places, Points
from chainrule.run.native.quotients import Divisor
from chainrule.run.native.reducers import combined
from chainrule.run.native.row_scalars import RowScalars, row_scalars
from chainrule.run.native.sweep_code import Accumulators, SweepCode

if TYPE_CHECKING:
    from chainrule.run.native.nest_code import NestCode

Z = Operand("0", "i64")
SLOTS = Operand("%kept", "ptr")


class GroupCode:
    """Goes over columns, a vector at a time, and there over the rows of a group in their order.

    The sweeps before were over one row after another: `keep` puts what the last needs of a row
    into slots of 8 bytes on the stack, `run` emits the sweep, and `reserve` makes the slots, when
    their number is known.  Reductions over rows are in registers while it goes over the rows, and
    each adds to what the row before it left: the order is that of rows one by one.
    """

    def __init__(self, nest: NestCode, sweep: Sweep) -> None:
        self.owner, self.code, self.sweep = nest, nest.code, sweep
        self.writer = SweepCode(nest, sweep, [], [], nest.layout.width, self._vector)
        self.folds = [one for one in sweep.stores if one.fold]
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
        known = {one: x for one, x in self.row.values.items() if one.uniform}
        self.shared = RowScalars(known).splat(self.code, self.writer.width).values
        by_row = set(self.row.divisors)
        for one in self.sweep.computes:
            if one in by_row or self._differs(one) or any(x in by_row for x in one.operands):
                by_row.add(one)
        self.common = [one for one in self.sweep.computes if one not in by_row]
        self.own = [one for one in self.sweep.computes if one in by_row]
        self.writer.loops()

    def _differs(self, one: Instance) -> bool:
        """Whether an instance, its inner operands aside, may differ from row to row."""
        if any(one.place[1:2]):
            return True
        return any(not x.inner and not x.uniform for x in one.operands)

    def _vector(
        self, columns: list[Operand], kept: Accumulators, mask: Operand | None
    ) -> Accumulators:
        """One vector of columns of all rows."""
        code = self.code
        common = self._points(self.first, columns, mask, self.shared)
        for one in self.common:
            common.compute(one)
        start = [common.load(store.node, store.place) for store in self.folds]

        def one_row(number: Operand, totals: list[Operand]) -> list[Operand]:
            at = code.binary("add nsw", self.first, number)
            row = self._kept(number).splat(code, self.writer.width)
            points = self._points(at, columns, mask, {**self.shared, **row.values})
            points.values.update(common.values)
            points.factors.update(common.factors)
            points.indices, points.divisors = row.indices, row.divisors
            for one in self.own:
                points.compute(one)
            written = [(points.value(s.value), s) for s in self.sweep.stores if not s.fold]
            following = [
                combined(code, store.node, store.node.dtype, total, points.value(store.value))
                for store, total in zip(self.folds, totals, strict=True)
            ]
            for value, store in written:
                points.store(value, store.node, store.place)
            return following

        found = code.loop(Z, self.rows, 1, start, one_row)
        for store, value in zip(self.folds, found, strict=True):
            common.store(value, store.node, store.place)
        return kept

    def _points(
        self,
        row: Operand,
        columns: list[Operand],
        mask: Operand | None,
        outer: Mapping[Instance, Operand],
    ) -> Points:
        places = Places(self.code, self.owner.pointers, [row], columns)
        return self.owner.points(places, self.writer.width, mask, outer.__getitem__)

    def _kept(self, number: Operand) -> RowScalars:
        """What was kept of a row."""
        loaded = {x: self._loaded(x, number) for x in self.slots}

        def known(x: Operand) -> Operand:
            return loaded.get(x, x)

        row = self.row
        return RowScalars(
            {one: known(x) for one, x in row.values.items() if not one.uniform},
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
