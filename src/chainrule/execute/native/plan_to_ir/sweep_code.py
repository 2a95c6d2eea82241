"""One sweep over the columns of a row: loops of vectors, with accumulators for its reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chainrule.execute.native.plan_to_ir.ahead import Ahead
from chainrule.execute.native.plan_to_ir.conversions import from_memory, to_memory
from chainrule.execute.native.plan_to_ir.emit import Operand, count, with_lanes
from chainrule.execute.native.plan_to_ir.emit_instances import Points, memory_type
from chainrule.execute.native.plan_to_ir.masks import first_lanes, masked_load, masked_store
from chainrule.execute.native.plan_to_ir.reducers import Reducer, combined
from chainrule.execute.native.plan_to_ir.row_scalars import RowScalars, row_scalars
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.loops.sweeps import Sweep
from chainrule.primitives.affine import row_major

if TYPE_CHECKING:
    from chainrule.execute.native.plan_to_ir.lanes_code import LanesCode
    from chainrule.execute.native.plan_to_ir.nest_code import NestCode

Z = Operand("0", "i64")
BLOCK = 512  # rounds after which accumulators are added to others, so that errors do not pile up
Accumulators = list[list[Operand]]  # of each reducer, for each of several vectors side by side


class SweepCode:
    """The loops of one sweep."""

    def __init__(
        self,
        nest: NestCode | LanesCode,
        sweep: Sweep,
        reducers: list[Reducer],
        by_row: list[Store],
        width: int,
    ) -> None:
        self.owner, self.code, self.sweep = nest, nest.code, sweep
        self.reducers, self.width = reducers, width
        self.stores = [one for one in sweep.stores if one not in by_row]
        self.columns = nest.nest.columns
        self.in_rows = nest.layout.lanes is not None  # the lanes of a vector
        self.step = 1 if self.in_rows else max(width, 1)
        self.unroll = self._unroll()
        self.row = RowScalars()
        sweeps = nest.layout.sweeps
        before = sweeps[: sweeps.index(sweep)]
        self.walk = nest.nest.walk
        self.ahead = None if self.in_rows or self.walk is not None else Ahead(sweep, width, before)
        stored = {store.node: store.value for store in self.stores}
        carried = [one for one in sweep.computes if one.kind is Kind.BEFORE]
        self.successors = {one: stored[one.node] for one in carried}  # what it is a column later

    def run(self) -> list[Operand]:
        """Emit the loops; the results of the reducers."""
        self.row = row_scalars(self.owner, self.sweep).splat(self.code, self.width)
        start = [x for _ in range(self.unroll) for r in self.reducers for x in r.start(self.width)]
        found = self._nested([], [*start, *map(self._first, self.successors)])
        sets = self._sets(found)
        while len(sets) > 1:
            sets = [*self._merged_pairs(sets)]
        pairs = zip(self.reducers, sets[0], strict=True)
        if self.in_rows:
            return [reducer.result(kept) for reducer, kept in pairs]
        return [reducer.finish(self.code, kept) for reducer, kept in pairs]

    def _first(self, one: Instance) -> Operand:
        """What is in memory before the first column."""
        assert one.source is not None and not self.reducers
        places = replace(self.owner.places, columns=self._walked([Z]))
        points = self.owner.head.points(places, self.width, None, self.owner.outer)
        return points.load(one.source, one.place)

    def _walked(self, columns: list[Operand]) -> list[Operand]:
        """The columns at the place in the order in which they are gone over."""
        if self.walk is None or not self.walk.backward:
            return columns
        (column,) = columns
        return [self.code.binary("sub nsw", count(self.columns[0] - 1), column)]

    def _merged_pairs(self, sets: list[Accumulators]) -> list[Accumulators]:
        half = len(sets) // 2
        return [self._merged(x, y) for x, y in zip(sets[:half], sets[half:], strict=True)]

    def _merged(self, x: Accumulators, y: Accumulators) -> Accumulators:
        return [r.merge(self.code, a, b) for r, a, b in zip(self.reducers, x, y, strict=True)]

    def _unroll(self) -> int:
        """How many vectors one round takes, so that short chains of additions do not wait."""
        if not self.reducers or not self.width or self.owner.length is not None:
            return 1
        vectors = self.columns[-1] // self.step
        work = self.sweep.work
        wanted = 4 if work <= 6 else 2 if work <= 12 else 1
        while wanted > 1 and (vectors < wanted or (self.in_rows and vectors % wanted)):
            wanted //= 2
        return wanted

    def _nested(self, digits: list[Operand], kept: list[Operand]) -> list[Operand]:
        """Loops over all column axes, the last one by vectors."""
        if len(digits) < len(self.columns) - 1:
            size = count(self.columns[len(digits)])
            return self.code.loop(
                Z, size, 1, kept, lambda index, now: self._nested([*digits, index], now)
            )
        return self._vectors(digits, kept)

    def _vectors(self, digits: list[Operand], kept: list[Operand]) -> list[Operand]:
        """The last column axis."""
        code, step = self.code, self.step
        if self.owner.length is not None:
            return self._open_ended(digits, kept, self.owner.length)
        size = self.columns[-1] if self.columns else 1
        stride = step * self.unroll
        rounds = size // stride
        if rounds == 1:
            kept = self._round(digits, Z, kept, self.unroll)
        elif rounds > 2 * BLOCK and self.reducers:
            kept = self._blocks(digits, kept, rounds, stride)
        elif rounds:
            kept = code.loop(
                Z,
                count(rounds * stride),
                stride,
                kept,
                lambda index, now: self._round(digits, index, now, self.unroll),
            )
        done = rounds * stride
        while size - done >= step:
            kept = self._round(digits, count(done), kept, 1)
            done += step
        return self.rest(digits, done, kept) if done < size else kept

    def vectors(self, digits: list[Operand], start: Operand, stop: Operand) -> None:
        """Whole vectors of the last column axis, of a sweep that reduces nothing in a row."""
        self.code.loop(start, stop, self.step, [], lambda at, now: self._round(digits, at, now, 1))

    def rest(self, digits: list[Operand], done: int, kept: list[Operand]) -> list[Operand]:
        """The last columns, which fill no vector."""
        left, width = self.columns[-1] - done, self.width
        return self._round(digits, count(done), kept, 1, first_lanes(left, width))

    def _blocks(
        self, digits: list[Operand], kept: list[Operand], rounds: int, stride: int
    ) -> list[Operand]:
        """Long rows: accumulators of BLOCK rounds are added to those of the row."""
        code = self.code
        fresh = [x for _ in range(self.unroll) for r in self.reducers for x in r.start(self.width)]

        def one_block(index: Operand, now: list[Operand]) -> list[Operand]:
            last = code.binary("add", index, count(BLOCK * stride))
            over = code.compare("icmp slt", last, count(rounds * stride))
            stop = code.select(over, last, count(rounds * stride))
            inner = code.loop(
                index, stop, stride, fresh, lambda k, x: self._round(digits, k, x, self.unroll)
            )
            pairs = zip(self._sets(now), self._sets(inner), strict=True)
            return self._flat([self._merged(x, y) for x, y in pairs])

        return code.loop(Z, count(rounds * stride), BLOCK * stride, kept, one_block)

    def _open_ended(
        self, digits: list[Operand], kept: list[Operand], length: Operand
    ) -> list[Operand]:
        """A row whose length is known when it runs."""
        code, width = self.code, self.width
        if not width:
            return code.loop(
                Z, length, 1, kept, lambda index, now: self._round(digits, index, now, 1)
            )
        whole = code.binary("and", length, count(-width))
        kept = code.loop(
            Z, whole, width, kept, lambda index, now: self._round(digits, index, now, 1)
        )
        numbers = ", ".join(f"i64 {lane}" for lane in range(width))
        wide = with_lanes("i64", width)
        left = code.splat(code.binary("sub", length, whole), wide)

        def last(index: Operand, now: list[Operand]) -> list[Operand]:
            mask = code.compare("icmp slt", Operand(f"<{numbers}>", wide), left)
            return self._round(digits, index, now, 1, mask)

        return code.loop(whole, length, width, kept, last)

    def _sets(self, flat: list[Operand]) -> list[Accumulators]:
        """Accumulators by vector, then by reducer."""
        values = iter(flat)
        return [
            [[next(values) for _ in range(2 if r.is_position else 1)] for r in self.reducers]
            for _ in range(self.unroll)
        ]

    def _flat(self, sets: list[Accumulators]) -> list[Operand]:
        return [x for one in sets for kept in one for x in kept]

    def _round(
        self,
        digits: list[Operand],
        index: Operand,
        kept: list[Operand],
        vectors: int,
        mask: Operand | None = None,
    ) -> list[Operand]:
        """The next vectors of columns."""
        sets = self._sets(kept)
        before = kept[len(kept) - len(self.successors) :]
        for number in range(vectors):
            at = index
            if number:
                at = self.code.binary("add nsw", index, count(number * self.step))
            sets[number], before = self._vector([*digits, at], sets[number], before, mask)
        return [*self._flat(sets), *before]

    def _vector(
        self,
        columns: list[Operand],
        kept: Accumulators,
        before: list[Operand],
        mask: Operand | None,
    ) -> tuple[Accumulators, list[Operand]]:
        """One vector: compute, keep for later sweeps, reduce, write.  `before` are what the vector
        before has stored."""
        code, owner = self.code, self.owner
        digits = self._walked(columns) if self.columns else []
        places = replace(owner.places, columns=digits)
        points = owner.head.points(places, self.width, mask, self.row.values.__getitem__)
        points.indices, points.divisors = self.row.indices, self.row.divisors
        if self.ahead is not None and code.module.fetches:
            self.ahead.fetch(points)
        for one in self.sweep.restores:
            points.values[one] = self._buffer(points, one, None)
        for one, store in self.sweep.rereads.items():
            points.values[one] = points.load(store.node, store.place)
        points.values.update(zip(self.successors, before, strict=True))
        for one in self.sweep.computes:
            if one.kind is not Kind.BEFORE:
                points.compute(one)
        for one in self.sweep.saves:
            self._buffer(points, one, points.values[one])
        found = []
        for reducer, now in zip(self.reducers, kept, strict=True):
            position = self._positions(columns) if reducer.is_position else None
            value = points.typed(reducer.value, reducer.value.node.dtype)
            found.append(reducer.step(code, now, value, position, mask))
        written = []
        for store in self.stores:
            value = points.value(store.value)
            if store.indices:
                points.add_at(value, store)
                continue
            if store.fold:
                old = points.load(store.node, store.place)
                value = owner.counted(store.node, store.node.dtype, value)
                value = combined(code, store.node, store.node.dtype, old, value)
            written.append((value, store))
        for value, store in written:
            points.store(value, store.node, store.place)
        return found, [points.value(one) for one in self.successors.values()]

    def _positions(self, columns: list[Operand]) -> Operand:
        """The number of the column in each lane."""
        code = self.code
        first = self._flat_column(columns)
        wide = with_lanes("i64", self.width)
        if not self.width or self.in_rows:
            return code.splat(first, wide)
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.width))
        return code.binary("add", code.splat(first, wide), Operand(f"<{numbers}>", wide))

    def _flat_column(self, columns: list[Operand]) -> Operand:
        total = Z
        for stride, index in zip(row_major(self.columns), columns, strict=True):
            term = index if stride == 1 else self.code.binary("mul", index, count(stride))
            total = term if total is Z else self.code.binary("add", total, term)
        return total

    def _buffer(self, points: Points, one: Instance, value: Operand | None) -> Operand:
        """Put a value into the buffer of the row, or take it out."""
        code, owner = self.code, self.owner
        stored = memory_type(one.node.dtype)
        pointer = owner.buffer(one, self._flat_column(list(points.places.columns)))
        wide = with_lanes(stored, self.width)
        if value is not None:
            shown = to_memory(code, value, one.node.dtype)
            if points.mask is None:
                code.store(shown, pointer)
            else:
                masked_store(code, shown, pointer, points.mask)
            return value
        found = (
            code.load(pointer, wide)
            if points.mask is None
            else masked_load(code, pointer, wide, points.mask)
        )
        return from_memory(code, found, one.node.dtype)
