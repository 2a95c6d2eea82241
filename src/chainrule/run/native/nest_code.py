"""The function of a loop nest, written in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from chainrule.graph.node import Node
from chainrule.plan.access import row_major
from chainrule.plan.loops import Instance, Kind, Store
from chainrule.plan.nest import FAILED_NBYTES, NestLayout, is_total, total_dtype
from chainrule.plan.sweeps import Sweep
from chainrule.primitives.arithmetic import divide
from chainrule.run.native.emit import Code, Module, Operand, constant, lanes, like, with_lanes
from chainrule.run.native.points import (
    Index,
    Places,
    Points,
    masked_load,
    masked_store,
    memory_type,
    register_type,
)
from chainrule.run.native.quotients import divides_floats, divisor
from chainrule.run.native.reducers import Reducer, combined, identity

Z = Operand("0", "i64")
BLOCK = 512  # rounds after which accumulators are added to others, so that errors do not pile up
Accumulators = list[list[Operand]]  # of each reducer, for each of several vectors side by side


def count(value: int) -> Operand:
    """An `i64` constant."""
    return Operand(str(value), "i64")


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
        found = code.loop(self.begin, self.end, 1, start, lambda row, kept: self._row(row, kept))
        for store, value in zip(totals, found, strict=True):
            self._end_total(store, value)
        code.do("ret void")
        tail = [self.workspace, Operand("%failed", "ptr"), self.begin, self.end, self.part]
        code.function(name, [*self.parameters, *tail], attributes=attributes)
        if self.layout.parts > 1 and self.layout.folds:
            _finish(self.module, self.layout, f"{name}_finish", attributes)

    # before the rows

    def _uniform(self) -> None:
        """What is the same everywhere."""
        zeros = [Z] * len(self.nest.rows), [Z] * len(self.nest.columns)
        places = Places(self.code, self.pointers, *zeros)
        points = Points(places, 0, None, self.uniform.__getitem__, self._failed)
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
                _fill(self.code, self.pointers[store.node], dtype, first, prod(store.node.shape))

    def _end_total(self, store: Store, value: Operand) -> None:
        """Write a reduction to one number: a part's share, or the result."""
        code = self.code
        pointer = self.pointers[store.node]
        if store not in self.layout.shares:
            value = code.convert("fptrunc", value, register_type(store.node.dtype))
            pointer = code.address(pointer, count(store.place[0]), memory_type(store.node.dtype))
        code.store(value, pointer)

    def _failed(self, bad: Operand) -> None:
        """Note that an index was out of range."""
        code = self.code
        if lanes(bad.type):
            packed = code.convert("bitcast", bad, f"i{lanes(bad.type)}")
            bad = code.compare("icmp ne", packed, Operand("0", packed.type))
        wide = code.convert("zext", bad, "i64")
        code.store(code.binary("or", code.load(self.flag, "i64"), wide), self.flag)

    # one row

    def _row(self, row: Operand, totals: list[Operand]) -> list[Operand]:
        code = self.code
        indices = _digits(code, row, self.nest.rows)
        zeros = [Z] * len(self.nest.columns)
        self.places = Places(code, self.pointers, indices, zeros)
        self.row_values = {}
        self.totals = dict(zip([s for s in self.layout.folds if is_total(s)], totals, strict=True))
        self.length = self._length(row)
        for sweep in self.layout.sweeps:
            self._before(sweep)
            for store in sweep.row_stores:
                self._store_row(store, self._outer(store.value))
            if not sweep.is_empty:
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

    def _row_points(self) -> Points:
        points = Points(self.places, 0, None, self._outer, self._failed)
        points.values = self.row_values
        return points

    def _outer(self, one: Instance) -> Operand:
        """A value that all columns of the row share, as a scalar."""
        return self.uniform[one] if one.uniform else self.row_values[one]

    def _before(self, sweep: Sweep) -> None:
        points = self._row_points()
        for one in sweep.before:
            if one.kind is Kind.LOOKUP:
                self.row_values[one] = self._lookup(one)
            elif one.kind is not Kind.FOLD:
                points.compute(one)

    def _lookup(self, one: Instance) -> Operand:
        """A value of this nest at the column that an index says."""
        x, index = one.operands
        points = self._row_points()
        source = one.node.inputs[0]
        column = points.in_range(index, source.shape[1], one.node.param("wrap"))
        digits = _digits(self.code, column, self.nest.columns)
        places = Places(self.code, self.pointers, self.places.rows, digits, self.places.memo)
        at = Points(places, 0, None, self._outer, self._failed)
        for needed in _inner_closure(x, self.nest.instances):
            at.compute(needed)
        return at.value(x)

    def _store_row(self, store: Store, value: Operand) -> None:
        """Write a value of the row, or add it to what is there."""
        if store.indices:
            self._row_points().add_at(value, store)
        elif store.fold:
            self._reduced(store, value)
        else:
            self._row_points().store(value, store.node, store.place)

    def _reduced(self, store: Store, value: Operand) -> None:
        """Combine the value of a row with a reduction over rows."""
        code, node = self.code, store.node
        dtype = total_dtype(store)
        if is_total(store):
            value = code.convert("fpext", value, register_type(dtype))
            self.totals[store] = combined(code, node, dtype, self.totals[store], value)
            return
        points = self._row_points()
        before = points.load(node, store.place)
        points.store(combined(code, node, dtype, before, value), node, store.place)

    # the columns of a row

    def _columns(self, sweep: Sweep) -> None:
        """One sweep: every column of the row, a vector at a time."""
        width = self.layout.width
        reducers = [Reducer(fold.node, fold.operands[0]) for fold in sweep.folds]
        first = 1 + len(self.nest.rows)
        by_row = [s for s in sweep.stores if s.fold and not s.indices and not any(s.place[first:])]
        reducers += [Reducer(s.node, s.value) for s in by_row]
        writer = _SweepWriter(self, sweep, reducers, by_row, width)
        results = writer.run()
        for fold, value in zip(sweep.folds, results, strict=False):
            self.row_values[fold] = value
        for store, value in zip(by_row, results[len(sweep.folds) :], strict=True):
            self._reduced(store, value)


class _SweepWriter:
    """The loops of one sweep."""

    def __init__(
        self,
        nest: NestCode,
        sweep: Sweep,
        reducers: list[Reducer],
        by_row: list[Store],
        width: int,
    ) -> None:
        self.owner, self.code, self.sweep = nest, nest.code, sweep
        self.reducers, self.width = reducers, width
        self.stores = [one for one in sweep.stores if one not in by_row]
        self.columns = nest.nest.columns
        self.unroll = self._unroll()
        self.splats: dict[Instance, Operand] = {}
        self.indices: dict[Index, Operand] = {}
        self.divisors: dict[Instance, tuple[Operand, Operand]] = {}

    def run(self) -> list[Operand]:
        """Emit the loops; the results of the reducers."""
        self._prepare()
        start = [x for _ in range(self.unroll) for r in self.reducers for x in r.start(self.width)]
        found = self._nested([], start)
        sets = self._sets(found)
        while len(sets) > 1:
            sets = [*self._merged_pairs(sets)]
        return [r.finish(self.code, kept) for r, kept in zip(self.reducers, sets[0], strict=True)]

    def _merged_pairs(self, sets: list[Accumulators]) -> list[Accumulators]:
        half = len(sets) // 2
        return [self._merged(x, y) for x, y in zip(sets[:half], sets[half:], strict=True)]

    def _merged(self, x: Accumulators, y: Accumulators) -> Accumulators:
        return [r.merge(self.code, a, b) for r, a, b in zip(self.reducers, x, y, strict=True)]

    def _unroll(self) -> int:
        """How many vectors one round takes, so that short chains of additions do not wait."""
        if not self.reducers or not self.width or self.owner.length is not None:
            return 1
        vectors = self.columns[-1] // self.width
        work = len(self.sweep.computes)
        wanted = 4 if work <= 6 else 2 if work <= 12 else 1
        while wanted > 1 and vectors < wanted:
            wanted //= 2
        return wanted

    def _prepare(self) -> None:
        """Row values in every lane, and row indices checked, before the loop begins."""
        points = self.owner._row_points()
        wanted: dict[Instance, None] = {}
        places = self.owner.places
        for one in self.sweep.computes:
            if one.source is not None:
                places.row_pointer(one.source, one.place)
        for store in (*self.sweep.stores, *self.sweep.rereads.values()):
            places.row_pointer(store.node, store.place)
        for one in self.sweep.computes:
            values = one.operands
            if one.kind is Kind.ONE_HOT:
                self._fix(points, values[1:], one.node.shape[1:], one.node.param("wrap"))
                values = values[:1]
            elif one.kind is Kind.GATHER:
                self._fix(points, values, one.node.inputs[0].shape, one.node.param("wrap"))
                values = ()
            wanted.update(dict.fromkeys(values))
        for store in self.sweep.stores:
            wanted.setdefault(store.value)
            if store.indices:
                self._fix(points, store.indices, store.node.shape, store.node.param("wrap"))
        wanted.update(dict.fromkeys(r.value for r in self.reducers))
        for one in wanted:
            if not one.inner:
                scalar = self.owner._outer(one)
                self.splats[one] = self.code.splat(scalar, with_lanes(scalar.type, self.width))
        self._divide_once()

    def _divide_once(self) -> None:
        """One division for the row, where all columns are divided by the same number."""
        code, known = self.code, {}
        for one in self.sweep.computes:
            divides = one.kind is Kind.MAP and one.node.primitive is divide
            if not divides or not one.operands[0].inner:
                continue
            by = one.operands[1]
            if by.inner or not divides_floats(register_type(by.node.dtype)):
                continue
            if by not in known:
                pair = divisor(code, self.owner._outer(by))
                wide = with_lanes(pair[0].type, self.width)
                known[by] = (code.splat(pair[0], wide), code.splat(pair[1], wide))
            self.divisors[one] = known[by]

    def _fix(
        self, points: Points, operands: Sequence[Instance], shape: Sequence[int], wrap: bool
    ) -> None:
        """Check the indices of the first axes of the shape that belong to the row."""
        for operand, size in zip(operands, shape, strict=False):
            if not operand.inner:
                self.indices[operand, size, wrap] = points.in_range(operand, size, wrap)

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
        code, width = self.code, self.width
        step = max(width, 1)
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
        if done < size:
            shown = ", ".join(f"i1 {'true' if k < size - done else 'false'}" for k in range(width))
            mask = Operand(f"<{shown}>", with_lanes("i1", width))
            kept = self._round(digits, count(done), kept, 1, mask)
        return kept

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
        for number in range(vectors):
            at = index
            if number:
                at = self.code.binary("add nsw", index, count(number * self.width))
            sets[number] = self._vector([*digits, at], sets[number], mask)
        return self._flat(sets)

    def _vector(
        self, columns: list[Operand], kept: Accumulators, mask: Operand | None
    ) -> Accumulators:
        """One vector: compute, keep for later sweeps, reduce, write."""
        code, owner = self.code, self.owner
        digits = columns if self.columns else []
        places = Places(code, owner.pointers, owner.places.rows, digits, owner.places.memo)
        points = Points(places, self.width, mask, self.splats.__getitem__, owner._failed)
        points.indices, points.divisors = self.indices, self.divisors
        for one in self.sweep.restores:
            points.values[one] = self._buffer(points, one, None)
        for one, store in self.sweep.rereads.items():
            points.values[one] = points.load(store.node, store.place)
        for one in self.sweep.computes:
            points.compute(one)
        for one in self.sweep.saves:
            self._buffer(points, one, points.values[one])
        found = []
        for reducer, now in zip(self.reducers, kept, strict=True):
            position = self._positions(columns) if reducer.is_position else None
            found.append(reducer.step(code, now, points.value(reducer.value), position, mask))
        written = []
        for store in self.stores:
            value = points.value(store.value)
            if store.indices:
                points.add_at(value, store)
                continue
            if store.fold:
                before = points.load(store.node, store.place)
                value = combined(code, store.node, store.node.dtype, before, value)
            written.append((value, store))
        for value, store in written:
            points.store(value, store.node, store.place)
        return found

    def _positions(self, columns: list[Operand]) -> Operand:
        """The number of the column in each lane."""
        code = self.code
        first = self._flat_column(columns)
        wide = with_lanes("i64", self.width)
        if not self.width:
            return first
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
        base = code.address(owner.share, count(owner.layout.saved[one]), "i8")
        pointer = code.address(base, self._flat_column(list(points.places.columns)), stored)
        wide = with_lanes(stored, self.width)
        if value is not None:
            shown = (
                code.convert("zext", value, wide)
                if stored == "i8" and one.node.dtype.kind == "b"
                else value
            )
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
        if one.node.dtype.kind == "b":
            found = code.compare("icmp ne", found, constant(0, wide))
        return found


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


def _fill(code: Code, pointer: Operand, dtype: np.dtype, value: float | int, size: int) -> None:
    """Write one number `size` times."""
    number = constant(value, memory_type(dtype))

    def one(index: Operand, kept: list[Operand]) -> list[Operand]:
        code.store(number, code.address(pointer, index, number.type))
        return kept

    width = 16
    if size >= width:
        wide = constant(value, with_lanes(memory_type(dtype), width))

        def vector(index: Operand, kept: list[Operand]) -> list[Operand]:
            code.store(wide, code.address(pointer, index, number.type), dtype.itemsize)
            return kept

        code.loop(Z, count(size // width * width), width, [], vector)
    code.loop(count(size // width * width), count(size), 1, [], one)


def _finish(module: Module, layout: NestLayout, name: str, attributes: str) -> None:
    """The function that combines the parts' shares of the reductions."""
    code = Code(module)
    parameters = [Operand(f"%a{k}", "ptr") for k in range(len(layout.folds))]
    workspace = Operand("%workspace", "ptr")
    for store, result in zip(layout.folds, parameters, strict=True):
        dtype = total_dtype(store)
        shares = [
            code.address(workspace, count(part * layout.part_nbytes + layout.shares[store]), "i8")
            for part in range(layout.parts)
        ]
        size = 1 if is_total(store) else prod(store.node.shape)
        width = 16 if size >= 16 else 0
        combine = _combiner(code, store, shares, result, dtype)
        if width:
            code.loop(Z, count(size // width * width), width, [], combine(width))
        code.loop(count(size // max(width, 1) * width), count(size), 1, [], combine(0))
    code.do("ret void")
    code.function(name, [*parameters, workspace], attributes=attributes)


def _combiner(
    code: Code, store: Store, shares: list[Operand], result: Operand, dtype: np.dtype
) -> Callable[[int], Callable[[Operand, list[Operand]], list[Operand]]]:
    node = store.node
    stored, final = memory_type(dtype), memory_type(node.dtype)

    def of_width(width: int) -> Callable[[Operand, list[Operand]], list[Operand]]:
        def loaded(share: Operand, index: Operand) -> Operand:
            value = code.load(code.address(share, index, stored), with_lanes(stored, width))
            return (
                value if dtype.kind != "b" else code.convert("trunc", value, like("i1", value.type))
            )

        def body(index: Operand, kept: list[Operand]) -> list[Operand]:
            total = loaded(shares[0], index)
            for share in shares[1:]:
                total = combined(code, node, dtype, total, loaded(share, index))
            cast = "zext" if dtype.kind == "b" else "fptrunc"
            total = code.convert(cast, total, with_lanes(final, width))
            code.store(total, code.address(result, index, final))
            return kept

        return body

    return of_width
