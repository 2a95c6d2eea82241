"""The function of a loop nest, written in LLVM IR: rows, and what is done once for each of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    constant,
    count,
    lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import (
    Places,
    Points,
    memory_type,
    register_type,
)
from chainrule.execute.native.plan_to_ir.group_code import GroupCode
from chainrule.execute.native.plan_to_ir.reducers import Reducer, combined, identity
from chainrule.execute.native.plan_to_ir.shares import emit_finish, fill
from chainrule.execute.native.plan_to_ir.sweep_code import SweepCode
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.loops.nest import FAILED_NBYTES, NestLayout, is_total, total_dtype
from chainrule.plan.loops.sweeps import Sweep, reduces_columns
from chainrule.primitives.affine import row_major

Z = Operand("0", "i64")


class NestCode:
    """Writes the function of one nest."""

    def __init__(self, module: Module, layout: NestLayout) -> None:
        self.module, self.layout, self.nest = module, layout, layout.nest
        self.code = Code(module)
        arrays = layout.arrays
        self.parameters = [Operand(f"%a{k}", "ptr") for k in range(len(arrays))]
        self.pointers: dict[Node, Operand] = dict(zip(arrays, self.parameters, strict=True))
        self.workspace, self.flag = Operand("%workspace", "ptr"), Operand("%failed", "ptr")
        self.begin, self.end = Operand("%begin", "i64"), Operand("%end", "i64")
        self.part = Operand("%part", "i64")
        self.share = self.workspace
        self.uniform: dict[Instance, Operand] = {}
        self.row_values: dict[Instance, Operand] = {}
        self.row_factors: dict[Instance, tuple[Operand, Operand]] = {}

    def emit(self, name: str, attributes: str = "") -> None:
        """Add the function, and `name_finish` where the nest runs in parts."""
        code = self.code
        if self.layout.part_nbytes:
            offset = code.binary("mul", self.part, count(self.layout.part_nbytes))
            self.share = code.address(self.workspace, offset, "i8")
        if self.layout.fails:
            offset = code.binary("mul", self.part, count(FAILED_NBYTES))
            self.flag = code.address(self.flag, offset, "i8")
        self._uniform()
        self._begin_folds()
        totals = [one for one in self.layout.folds if is_total(one)]
        start = [
            constant(identity(one.node, total_dtype(one)), register_type(total_dtype(one)))
            for one in totals
        ]
        found = self._rows(start)
        for store, value in zip(totals, found, strict=True):
            self._end_total(store, value)
        code.do("ret void")
        tail = [self.workspace, Operand("%failed", "ptr"), self.begin, self.end, self.part]
        code.function(name, [*self.parameters, *tail], attributes=attributes)
        if self.layout.parts > 1 and self.layout.folds:
            emit_finish(self.module, self.layout, f"{name}_finish", attributes)

    # before the rows

    def _uniform(self) -> None:
        """What is the same everywhere."""
        zeros = [Z] * len(self.nest.rows), [Z] * len(self.nest.columns)
        places = Places(self.code, self.pointers, *zeros)
        points = self.points(places, 0, None, self.uniform.__getitem__)
        points.values = self.uniform
        for one in self.nest.instances:
            if one.uniform:
                points.compute(one)

    def _begin_folds(self) -> None:
        """Reductions that memory holds begin with what changes nothing."""
        for store in self.layout.folds:
            if store in self.layout.shares:
                offset = count(self.layout.shares[store])
                self.pointers = {
                    **self.pointers,
                    store.node: self.code.address(self.share, offset, "i8"),
                }
            if not is_total(store):
                dtype = store.node.dtype
                first = identity(store.node, dtype)
                fill(self.code, self.pointers[store.node], dtype, first, prod(store.node.shape))

    def _end_total(self, store: Store, value: Operand) -> None:
        """Write a reduction to one number: a part's share, or the result."""
        code = self.code
        pointer = self.pointers[store.node]
        if store not in self.layout.shares:
            value = code.convert("fptrunc", value, register_type(store.node.dtype))
            pointer = code.address(pointer, count(store.place[0]), memory_type(store.node.dtype))
        code.store(value, pointer)

    def failed(self, bad: Operand) -> None:
        """Note that an index was out of range."""
        code = self.code
        if lanes(bad.type):
            packed = code.convert("bitcast", bad, f"i{lanes(bad.type)}")
            bad = code.compare("icmp ne", packed, Operand("0", packed.type))
        wide = code.convert("zext", bad, "i64")
        code.store(code.binary("or", code.load(self.flag, "i64"), wide), self.flag)

    # one row

    def _rows(self, totals: list[Operand]) -> list[Operand]:
        """All rows, one by one or in groups: what they make of the totals."""
        code, together = self.code, self.layout.rows_together
        if together == 1:
            return code.loop(self.begin, self.end, 1, totals, self._row)
        group = GroupCode(self, self.layout.sweeps[-2])

        def one_group(first: Operand, kept: list[Operand]) -> list[Operand]:
            left = code.binary("sub", self.end, first)
            fewer = code.compare("icmp slt", left, count(together))
            rows = code.select(fewer, left, count(together))

            def one_row(number: Operand, now: list[Operand]) -> list[Operand]:
                row = code.binary("add nsw", first, number)
                return self._row(row, now, group.sweep, lambda: group.keep(number))

            kept = code.loop(Z, rows, 1, kept, one_row)
            group.run(first, rows)
            return kept

        found = code.loop(self.begin, self.end, together, totals, one_group)
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
        indices = _digits(code, row, self.nest.rows)
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
        points = self.points(self.places, 0, None, self.outer)
        points.values, points.factors = self.row_values, self.row_factors
        return points

    def points(
        self,
        places: Places,
        width: int,
        mask: Operand | None,
        outer: Callable[[Instance], Operand],
    ) -> Points:
        """What emits this nest's instances at some place."""
        return Points(places, width, mask, outer, self.failed, self.nest.rounded)

    def outer(self, one: Instance) -> Operand:
        """A value that all columns of the row share, as a scalar."""
        return self.uniform[one] if one.uniform else self.row_values[one]

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
        digits = _digits(self.code, column, self.nest.columns)
        places = Places(self.code, self.pointers, self.places.rows, digits, self.places.memo)
        at = self.points(places, 0, None, self.outer)
        for needed in _inner_closure(x, self.nest.instances):
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


def _digits(code: Code, flat: Operand, sizes: tuple[int, ...]) -> list[Operand]:
    """The index along each axis that a flat index in C order means."""
    found: list[Operand] = []
    for place, (size, stride) in enumerate(zip(sizes, row_major(sizes), strict=True)):
        digit = flat if stride == 1 else code.binary("udiv", flat, count(stride))
        found.append(digit if place == 0 else code.binary("urem", digit, count(size)))
    return found


def _inner_closure(x: Instance, order: list[Instance]) -> list[Instance]:
    """What a value is computed from in the same column, operands first."""
    seen: set[Instance] = set()
    pending = [x] if x.inner else []
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            pending += [operand for operand in one.operands if operand.inner]
    return [one for one in order if one in seen]
