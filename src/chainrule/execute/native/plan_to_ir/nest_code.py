"""The function of a loop nest, written in LLVM IR: rows, and what is done once for each of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import (
    Module,
    Operand,
    constant,
    count,
)
from chainrule.execute.native.plan_to_ir.emit_instances import (
    Places,
    Points,
    memory_type,
    register_type,
)
from chainrule.execute.native.plan_to_ir.group_code import GroupCode
from chainrule.execute.native.plan_to_ir.nest_head import NestHead, digits_of, inner_closure
from chainrule.execute.native.plan_to_ir.reducers import Reducer, combined, identity
from chainrule.execute.native.plan_to_ir.shares import fill
from chainrule.execute.native.plan_to_ir.sweep_code import SweepCode
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.loops.nest import NestLayout, is_total, total_dtype
from chainrule.plan.loops.sweeps import Sweep, reduces_columns

Z = Operand("0", "i64")


class NestCode:
    """Writes the function of one nest."""

    def __init__(self, module: Module, layout: NestLayout) -> None:
        self.head = NestHead(module, layout)
        self.layout, self.nest, self.code = layout, layout.nest, self.head.code
        self.pointers, self.share = self.head.pointers, self.head.share
        self.row_values: dict[Instance, Operand] = {}
        self.row_factors: dict[Instance, tuple[Operand, Operand]] = {}

    def emit(self, name: str, attributes: str = "") -> None:
        """Add the function, and `name_finish` where the nest runs in parts."""
        head = self.head
        head.uniform_values()
        head.begin_shares()
        self._begin_folds()
        totals = [one for one in self.layout.folds if is_total(one)]
        start = [
            constant(identity(one.node, total_dtype(one)), register_type(total_dtype(one)))
            for one in totals
        ]
        found = self._rows(start)
        for store, value in zip(totals, found, strict=True):
            head.end_total(store, value)
        head.finish(name, attributes)

    def _begin_folds(self) -> None:
        """Reductions that memory holds begin with what changes nothing."""
        for store in self.layout.folds:
            if not is_total(store):
                dtype = store.node.dtype
                first = identity(store.node, dtype)
                fill(self.code, self.pointers[store.node], dtype, first, prod(store.node.shape))

    # one row

    def _rows(self, totals: list[Operand]) -> list[Operand]:
        """All rows, one by one or in groups: what they make of the totals."""
        code, together = self.code, self.layout.rows_together
        if together == 1:
            begin, end, blocks = self.head.begin, self.head.end, self.nest.blocks
            if blocks > 1:
                begin, end = (code.binary("mul nsw", k, count(blocks)) for k in (begin, end))
            return code.loop(begin, end, 1, totals, self._row)
        group = GroupCode(self, self.layout.sweeps[-2])

        def one_group(first: Operand, kept: list[Operand]) -> list[Operand]:
            left = code.binary("sub", self.head.end, first)
            fewer = code.compare("icmp slt", left, count(together))
            rows = code.select(fewer, left, count(together))

            def one_row(number: Operand, now: list[Operand]) -> list[Operand]:
                row = code.binary("add nsw", first, number)
                return self._row(row, now, group.sweep, lambda: group.keep(number))

            kept = code.loop(Z, rows, 1, kept, one_row)
            group.run(first, rows)
            return kept

        found = code.loop(self.head.begin, self.head.end, together, totals, one_group)
        group.reserve(together)
        return found

    def _row(
        self,
        row: Operand,
        totals: list[Operand],
        late: Sweep | None = None,
        keep: Callable[[], None] | None = None,
    ) -> list[Operand]:
        """One row.  Its columns are not gone over in the sweep `late`, but what that needs kept."""
        code = self.code
        indices = digits_of(code, row, self.nest.rows)
        if self.nest.walk is not None and self.nest.walk.backward and self.nest.blocks > 1:
            indices[-1] = code.binary("sub nsw", count(self.nest.blocks - 1), indices[-1])
        zeros = [Z] * len(self.nest.columns)
        self.places = Places(code, self.pointers, indices, zeros)
        self.row_values, self.row_factors = {}, {}
        self.totals = dict(zip([s for s in self.layout.folds if is_total(s)], totals, strict=True))
        self.length = self._length(row)
        for sweep in self.layout.sweeps:
            self._before(sweep)
            for store in sweep.row_stores:
                if store.node.type.size:  # of no elements, the plan may not compute the value
                    self._store_row(store, self.outer(store.value))
            if sweep is late and keep is not None:
                keep()
            elif not sweep.is_empty:
                self._columns(sweep)
        return list(self.totals.values())

    def _length(self, row: Operand) -> Operand | None:
        """The number of columns where it is not the same in all rows."""
        strip = self.layout.strip
        if strip is None or strip.total % strip.length == 0:
            return None
        code = self.code
        gone = code.binary("mul", row, count(strip.length))
        left = code.binary("sub", count(strip.total), gone)
        short = code.compare("icmp slt", left, count(strip.length))
        return code.select(short, left, count(strip.length))

    def row_points(self) -> Points:
        points = self.head.points(self.places, 0, None, self.outer)
        points.values, points.factors = self.row_values, self.row_factors
        return points

    def outer(self, one: Instance) -> Operand:
        """A value that all columns of the row share, as a scalar."""
        return self.head.uniform[one] if one.uniform else self.row_values[one]

    def buffer(self, one: Instance, column: Operand) -> Operand:
        """Where the row's buffer of a value has a column."""
        base = self.code.address(self.share, count(self.layout.saved[one]), "i8")
        return self.code.address(base, column, memory_type(one.node.dtype))

    def counted(self, node: Node, dtype: np.dtype, value: Operand) -> Operand:
        """What a reduction over rows takes of a value: all lanes are in the array."""
        del node, dtype
        return value

    def _before(self, sweep: Sweep) -> None:
        points = self.row_points()
        for one in sweep.before:
            if one.kind is Kind.LOOKUP:
                self.row_values[one] = self._lookup(one)
            elif one.kind is not Kind.FOLD:
                points.compute(one)

    def _lookup(self, one: Instance) -> Operand:
        """A value of this nest at the column that an index says."""
        x, index = one.operands
        points = self.row_points()
        source = one.node.inputs[0]
        column = points.in_range(index, source.shape[1], one.node.param("wrap"))
        digits = digits_of(self.code, column, self.nest.columns)
        places = Places(self.code, self.pointers, self.places.rows, digits, self.places.memo)
        at = self.head.points(places, 0, None, self.outer)
        for needed in inner_closure(x, self.nest.instances):
            at.compute(needed)
        return at.value(x)

    def _store_row(self, store: Store, value: Operand) -> None:
        """Write a value of the row, or add it to what is there."""
        if store.indices:
            self.row_points().add_at(value, store)
        elif store.fold:
            self._reduced(store, value)
        else:
            self.row_points().store(value, store.node, store.place)

    def _reduced(self, store: Store, value: Operand) -> None:
        """Combine the value of a row with a reduction over rows."""
        code, node = self.code, store.node
        dtype = total_dtype(store)
        if is_total(store):
            value = code.convert("fpext", value, register_type(dtype))
            self.totals[store] = combined(code, node, dtype, self.totals[store], value)
            return
        points = self.row_points()
        before = points.load(node, store.place)
        points.store(combined(code, node, dtype, before, value), node, store.place)

    # the columns of a row

    def _columns(self, sweep: Sweep) -> None:
        """One sweep: every column of the row, a vector at a time."""
        width = self.layout.width
        reducers = [Reducer(fold.node, fold.operands[0]) for fold in sweep.folds]
        by_row = [one for one in sweep.stores if reduces_columns(self.nest, one)]
        reducers += [Reducer(s.node, s.value) for s in by_row]
        writer = SweepCode(self, sweep, reducers, by_row, width)
        results = writer.run()
        for fold, value in zip(sweep.folds, results, strict=False):
            self.row_values[fold] = value
        for store, value in zip(by_row, results[len(sweep.folds) :], strict=True):
            self._reduced(store, value)
