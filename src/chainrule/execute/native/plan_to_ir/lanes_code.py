"""The function of a loop nest whose vectors hold rows: a group of rows at a time, in tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from chainrule.execute.native.plan_to_ir.conversions import from_memory, to_memory
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    constant,
    count,
    like,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import (
    Places,
    Points,
    memory_type,
    register_type,
)
from chainrule.execute.native.plan_to_ir.nest_head import NestHead, digits_of, inner_closure
from chainrule.execute.native.plan_to_ir.reducers import Reducer, across, combined, identity
from chainrule.execute.native.plan_to_ir.row_tiles import Held, Moves, held_type, run_loop
from chainrule.execute.native.plan_to_ir.sweep_code import SweepCode
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.loops.nest import NestLayout, is_total, total_dtype
from chainrule.plan.loops.row_lanes import Key, RowLanes, Tile
from chainrule.plan.loops.sweeps import Sweep, reduces_columns

Z = Operand("0", "i64")
STACK = Operand("%tiles", "ptr")
LINE_NBYTES = 64


class LanesCode:
    """Writes the function of one nest."""

    length = None  # every row has as many columns

    def __init__(self, module: Module, layout: NestLayout, lanes_of: RowLanes) -> None:
        self.head = NestHead(module, layout)
        self.layout, self.nest, self.lanes, self.code = (
            layout,
            layout.nest,
            lanes_of,
            self.head.code,
        )
        self.width = layout.width
        self.stack_nbytes = 0
        self.loads, self.stores, self.sums = (
            {key: self._held(tile) for key, tile in tiles.items()}
            for tiles in (lanes_of.loads, lanes_of.stores, lanes_of.sums)
        )
        self.saved = {one: self._held(tile) for one, tile in lanes_of.saved.items()}
        self.row_values: dict[Instance, Operand] = {}
        self.row_factors: dict[Instance, tuple[Operand, Operand]] = {}
        self.mask: Operand | None = None
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.width))
        self.lane_numbers = Operand(f"<{numbers}>", with_lanes("i64", self.width))

    def _held(self, tile: Tile) -> Held:
        """A tile of its own on the stack."""
        nbytes = tile.count * self.width * max(tile.node.dtype.itemsize, 4)
        base = self.code.address(STACK, count(self.stack_nbytes), "i8")
        self.stack_nbytes += -(-nbytes // LINE_NBYTES) * LINE_NBYTES
        return Held(self.code, tile, base, self.width)

    def emit(self, name: str, attributes: str = "") -> None:
        """Add the function, and `name_finish` where the nest runs in parts."""
        code, head = self.code, self.head
        head.uniform_values()
        head.begin_shares()
        sums = [
            (store, self.sums[store.node, store.place])
            for store in self.layout.folds
            if not is_total(store)
        ]
        for store, held in sums:
            self._begin_sum(store, held)
        totals = [one for one in self.layout.folds if is_total(one)]
        start = [
            constant(
                identity(one.node, total_dtype(one)),
                with_lanes(register_type(total_dtype(one)), self.width),
            )
            for one in totals
        ]
        found = code.loop(head.begin, head.end, 1, start, self._group)
        for store, held in sums:
            self._end_sum(store, held)
        for store, value in zip(totals, found, strict=True):
            head.end_total(store, across(code, store.node, total_dtype(store), value))
        line = f"  {STACK.text} = alloca i8, i64 {self.stack_nbytes}, align {LINE_NBYTES}"
        code.lines.insert(0, line)
        head.finish(name, attributes)

    def _begin_sum(self, store: Store, held: Held) -> None:
        """A sum of many rows begins in each lane with what changes nothing."""
        dtype = store.node.dtype
        first = held.shown(
            constant(identity(store.node, dtype), with_lanes(register_type(dtype), self.width))
        )

        def one(number: Operand) -> None:
            self.code.store(first, held.at(number))

        run_loop(self.code, count(held.tile.count), 1, one)

    def _end_sum(self, store: Store, held: Held) -> None:
        """The lanes together, each sum to its place in memory: a part's share, or the result."""
        code, node = self.code, store.node
        target = self.head.pointers[node]

        def one(number: Operand) -> None:
            value = across(code, node, node.dtype, held.loaded(held.at(number)))
            place = code.address(target, number, memory_type(node.dtype))
            code.store(to_memory(code, value, node.dtype), place)

        run_loop(code, count(held.tile.count), 1, one)

    # one group of rows

    def _group(self, number: Operand, totals: list[Operand]) -> list[Operand]:
        """As many rows as there are lanes, or those left."""
        code, axis = self.code, self.lanes.axis
        digits = digits_of(code, number, self.lanes.groups)
        digits[axis] = code.binary("mul nsw", digits[axis], count(self.width))
        self.mask = None
        rows = self.nest.rows[axis]
        if rows % self.width:
            left = code.splat(
                code.binary("sub nsw", count(rows), digits[axis]), self.lane_numbers.type
            )
            self.mask = code.compare("icmp slt", self.lane_numbers, left)
        self.totals = dict(zip([s for s in self.layout.folds if is_total(s)], totals, strict=True))
        blocks, walk = self.nest.blocks, self.nest.walk
        if walk is None or blocks == 1:
            self._rows(digits, number)
            return list(self.totals.values())

        def block(turn: Operand) -> None:
            at = code.binary("sub nsw", count(blocks - 1), turn) if walk.backward else turn
            self._rows([*digits, at], number)

        run_loop(code, count(blocks), 1, block)
        return []

    def _rows(self, digits: list[Operand], number: Operand) -> None:
        """All columns of a group of rows, or a block of them."""
        code, zeros = self.code, [Z] * len(self.nest.columns)
        self._move(self.loads, digits, number)
        held = {**self.loads, **self.stores, **self.sums}
        pointers = self.head.pointers
        self.places = Places(
            code,
            pointers,
            digits,
            zeros,
            lane_axis=self.lanes.axis,
            tiles=held,
            with_row=self.mask,
        )
        self.row_values, self.row_factors = {}, {}
        for sweep in self.layout.sweeps:
            self._before(sweep)
            for store in sweep.row_stores:
                if store.fold:
                    self._reduced(store, self.outer(store.value))
                else:
                    self.row_points().store(self.outer(store.value), store.node, store.place)
            if not sweep.is_empty:
                self._columns(sweep)
        self._move(self.stores, digits, None)

    def _move(
        self,
        tiles: Mapping[Key, Held],
        digits: list[Operand],
        number: Operand | None,
    ) -> None:
        """Fill the tiles that do not hold these rows since the last group, or write all of them."""
        by_times: dict[int, list[Held]] = {}
        for held in tiles.values():
            times = 1 if number is None else self.lanes.refills(held.tile)
            by_times.setdefault(times, []).append(held)
        code = self.code
        for times, some in by_times.items():

            def emit(some: list[Held] = some) -> None:
                self._moved(some, digits, fills=number is not None)

            if times == 1 or number is None:
                emit()
                continue
            first = code.compare("icmp eq", number, self.head.begin)
            turn = code.binary("urem", number, count(times))
            _when(code, code.binary("or", code.compare("icmp eq", turn, Z), first), emit)

    def _moved(self, tiles: list[Held], digits: list[Operand], *, fills: bool) -> None:
        """Move all rows of the tiles, or those of the last group."""
        size, start = self.nest.rows[self.lanes.axis], digits[self.lanes.axis]

        def emit(rows: int) -> None:
            places = Places(self.code, self.head.pointers, digits)
            for held in tiles:
                moves = Moves(held, places, self.lanes, rows)
                (moves.fill if fills else moves.flush)()

        whole, left = divmod(size, self.width)
        if not left or not whole:
            emit(self.width if whole else left)
            return
        last = self.code.compare("icmp eq", start, count(size - left))
        _when(self.code, last, lambda: emit(left), lambda: emit(self.width))

    # what is done once for the rows

    def row_points(self) -> Points:
        """What emits values of rows."""
        points = self.head.points(self.places, self.width, None, self.outer)
        points.values, points.factors = self.row_values, self.row_factors
        return points

    def outer(self, one: Instance) -> Operand:
        """A value that all columns share, in the lanes of rows."""
        if not one.uniform:
            return self.row_values[one]
        value = self.head.uniform[one]
        return self.code.splat(value, with_lanes(value.type, self.width))

    def buffer(self, one: Instance, column: Operand) -> Operand:
        """Where the group's buffer of a value has a column."""
        whole = self.code.binary("mul nsw", column, count(self.width))
        return self.code.address(self.saved[one].base, whole, memory_type(one.node.dtype))

    def counted(self, node: Node, dtype: np.dtype, value: Operand) -> Operand:
        """What a reduction over rows takes of a value: nothing of lanes that have no row."""
        if self.mask is None:
            return value
        return self.code.select(self.mask, value, constant(identity(node, dtype), value.type))

    def _before(self, sweep: Sweep) -> None:
        points = self.row_points()
        for one in sweep.before:
            if one.kind is Kind.LOOKUP:
                self.row_values[one] = self._lookup(one)
            elif one.kind is not Kind.FOLD:
                points.compute(one)

    def _lookup(self, one: Instance) -> Operand:
        """A value of this nest at the column that an index says, another in each lane."""
        x, index = one.operands
        points = self.row_points()
        column = points.in_range(index, one.node.inputs[0].shape[1], one.node.param("wrap"))
        at = self.head.points(self.places, self.width, None, self.outer)
        for needed in inner_closure(x, self.nest.instances):
            if needed.kind is Kind.LOAD:
                at.values[needed] = self._found(needed, column)
            else:
                at.compute(needed)
        return at.value(x)

    def _found(self, one: Instance, column: Operand) -> Operand:
        """What is read in a column, another in each lane."""
        code, node = self.code, one.source
        assert node is not None
        held = self.loads.get((node, one.place))
        if held is None:
            pointer, type_ = self.places.row_pointer(node, one.place), memory_type(node.dtype)
            offsets = code.binary("mul nsw", column, constant(one.place[-1], column.type))
        else:
            pointer, type_ = held.base, held_type(node.dtype)
            offsets = code.binary("mul nsw", column, constant(self.width, column.type))
            offsets = code.binary("add nsw", offsets, self.lane_numbers)
        value = self.row_points().read_each(pointer, type_, offsets)
        is_register = held is not None and node.dtype.kind != "b"
        return value if is_register else from_memory(code, value, node.dtype)

    def _reduced(self, store: Store, value: Operand) -> None:
        """Combine the values of rows with a reduction over rows."""
        code, node = self.code, store.node
        dtype = total_dtype(store)
        if is_total(store):
            value = code.convert("fpext", value, like(register_type(dtype), value.type))
            value = self.counted(node, dtype, value)
            self.totals[store] = combined(code, node, dtype, self.totals[store], value)
            return
        points = self.row_points()
        before = points.load(node, store.place)
        value = combined(code, node, dtype, before, self.counted(node, dtype, value))
        points.store(value, node, store.place)

    # the columns of the rows

    def _columns(self, sweep: Sweep) -> None:
        """One sweep: every column, a vector of rows at a time."""
        reducers = [Reducer(fold.node, fold.operands[0]) for fold in sweep.folds]
        by_row = [one for one in sweep.stores if reduces_columns(self.nest, one)]
        reducers += [Reducer(store.node, store.value) for store in by_row]
        results = SweepCode(self, sweep, reducers, by_row, self.width).run()
        for fold, value in zip(sweep.folds, results, strict=False):
            self.row_values[fold] = value
        for store, value in zip(by_row, results[len(sweep.folds) :], strict=True):
            self._reduced(store, value)


def _when(
    code: Code,
    condition: Operand,
    then: Callable[[], None],
    otherwise: Callable[[], None] | None = None,
) -> None:
    """Emit one of two blocks, or one or none."""
    number = code.fresh()
    after = f"join{number}"
    code.branch(condition, f"then{number}", f"else{number}" if otherwise else after)
    code.label(f"then{number}")
    then()
    code.jump(after)
    if otherwise is not None:
        code.label(f"else{number}")
        otherwise()
        code.jump(after)
    code.label(after)
