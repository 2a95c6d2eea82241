"""The instances of a loop nest at one point, or at as many neighbouring columns as a vector has."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from chainrule.execute.native.plan_to_ir.conversions import (
    from_memory,
    memory_type,
    to_bfloat16,
    to_memory,
)
from chainrule.execute.native.plan_to_ir.conversions import type_of as register_type
from chainrule.execute.native.plan_to_ir.differences import is_negated
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Operand,
    constant,
    element,
    lanes,
    mangled,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.masks import alignment, masked_load, masked_store
from chainrule.execute.native.plan_to_ir.quotients import Divisor, quotient
from chainrule.execute.native.plan_to_ir.scalars import Typed, emit_expression
from chainrule.graph.dtypes import is_bfloat16
from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.roles import is_rounded_already
from chainrule.primitives.affine import Affine
from chainrule.primitives.arithmetic import add, multiply
from chainrule.primitives.primitive import Map
from chainrule.primitives.sources import full

FUSED = (np.dtype(np.float32), np.dtype(np.float64))  # products that a sum may take in
ZERO, ONE = Operand("0", "i64"), Operand("1", "i64")
Index = tuple[Instance, int, bool]  # an index with the length of its axis and whether it wraps


@dataclass(eq=False)
class Places:
    """Where a nest stands: the pointers of arrays and the indices of its axes.

    `columns` are those of the column axes.  The lanes of a vector lie along the last of them, or
    along the axis of the rows `lane_axis`; the index there is that of the first lane.  What lies in
    `tiles` is read and written there; elsewhere only lanes `with_row` are read (None: all).
    """

    code: Code
    pointers: Mapping[Node, Operand]
    rows: Sequence[Operand] = ()
    columns: Sequence[Operand] = ()
    memo: dict[tuple[Node | None, Affine], Operand] = field(default_factory=dict)
    lane_axis: int | None = None
    tiles: Mapping[tuple[Node, Affine], Tile] = field(default_factory=dict)
    with_row: Operand | None = None

    def lane_factor(self, place: Affine) -> int:
        """How far apart the elements of neighbouring lanes are."""
        if self.lane_axis is not None:
            return place[1 + self.lane_axis]
        return place[-1] if self.columns and len(place) > 1 else 0

    def row_offset(self, place: Affine) -> Operand:
        """The part of an affine place that one row has, as an `i64`."""
        return affine(self.code, place[: len(self.rows) + 1], self.rows)

    def row_pointer(self, node: Node, place: Affine) -> Operand:
        """Where the row begins in the array of a node."""
        key = (node, place[: len(self.rows) + 1])
        if key not in self.memo:
            offset = self.row_offset(place)
            type_ = memory_type(node.dtype)
            self.memo[key] = self.code.address(self.pointers[node], offset, type_)
        return self.memo[key]

    def column_offset(self, place: Affine) -> Operand:
        """What the columns add to the place of the row, as an `i64`."""
        return affine(self.code, (0, *place[len(self.rows) + 1 :]), self.columns)

    def pointer(self, node: Node, place: Affine) -> Operand:
        """Where the element (the first of a vector's) is."""
        row = self.row_pointer(node, place)
        return self.code.address(row, self.column_offset(place), memory_type(node.dtype))


class Tile(Protocol):
    """Vectors of rows, which one after another belong to columns."""

    def load(self, places: Places) -> Operand:
        """The vector at a place."""

    def store(self, value: Operand, places: Places) -> None:
        """Write the vector at a place."""


def affine(code: Code, place: Affine, indices: Sequence[Operand]) -> Operand:
    """c + k0 i0 + k1 i1 + ..., as an `i64`."""
    total = Operand(str(place[0]), "i64")
    for factor, index in zip(place[1:], indices, strict=True):
        if not factor:
            continue
        term = index if factor == 1 else code.binary("mul nsw", index, Operand(str(factor), "i64"))
        total = term if total.text == "0" else code.binary("add nsw", total, term)
    return total


class Points:
    """Emits instances at the columns that a vector of `width` lanes covers (0: at one point).

    `mask` says which lanes are in the array; `outer` gives the operand, in lanes, of an instance
    that does not differ from column to column; `failed` takes an `i1` that says that an index was
    out of range.  `rounded` are the nodes whose products are rounded in every kernel: the nest
    writes them to memory, where others read them.  `indices` are those of the row, by the index
    operand, checked already; `divisors` the quotients whose divisor all columns share.
    """

    def __init__(
        self,
        places: Places,
        width: int,
        mask: Operand | None,
        outer: Callable[[Instance], Operand],
        failed: Callable[[Operand], None],
        rounded: Container[Node] = (),
    ) -> None:
        self.places, self.code, self.width = places, places.code, width
        self.mask, self.outer, self.failed = mask, outer, failed
        self.rounded = rounded
        self.values: dict[Instance, Operand] = {}
        self.factors: dict[Instance, tuple[Operand, Operand]] = {}
        self.indices: Mapping[Index, Operand] = {}
        self.divisors: Mapping[Instance, Divisor] = {}

    def type(self, dtype: np.dtype) -> str:
        """The register type of values of this dtype here."""
        return with_lanes(register_type(dtype), self.width)

    def value(self, one: Instance) -> Operand:
        """The value of an instance: computed here before, or the same in every column."""
        found = self.values.get(one)
        if found is not None:
            return found
        if one.inner:
            raise AssertionError(f"{one.node!r} was not computed in this sweep")
        return self.outer(one)

    def compute(self, one: Instance) -> None:
        """Emit one instance; its operands are there."""
        match one.kind:
            case Kind.LOAD:
                assert one.source is not None
                value = self.load(one.source, one.place)
            case Kind.NUMBER:
                value = self.number(one.node)
            case Kind.INDEX:
                value = self._position(one.place, self.type(one.node.dtype))
                if is_bfloat16(one.node.dtype):
                    value = to_bfloat16(self.code, value)
            case Kind.MAP:
                value = self._expression(one)
            case Kind.ONE_HOT:
                value = self._one_hot(one)
            case Kind.GATHER:
                value = self._gather(one)
            case _:
                raise AssertionError(f"a {one.kind.name} is not computed in a column")
        self.values[one] = value

    def number(self, node: Node) -> Operand:
        """A uniform constant."""
        name = "value" if node.primitive is full else "size"
        value = constant(node.param(name), self.type(node.dtype))
        return to_bfloat16(self.code, value) if is_bfloat16(node.dtype) else value

    def _expression(self, one: Instance) -> Operand:
        node = one.node
        if one in self.divisors:
            return quotient(self.code, self.value(one.operands[0]), self.divisors[one])
        if is_rounded_already(node):
            return self.value(one.operands[0])
        kernel = node.primitive.kernel
        assert isinstance(kernel, Map)
        names: dict[str, object] = dict(node.params)
        for name, operand, parent in zip(
            node.primitive.inputs, one.operands, node.inputs, strict=True
        ):
            names[name] = self.typed(operand, parent.dtype)
        if node.primitive is add and any(map(is_negated, node.inputs)):
            # A difference, which of equal products is 0: they are both rounded.
            given = zip(node.primitive.inputs, one.operands, strict=True)
            names |= {name: Typed(self.value(operand), node.dtype) for name, operand in given}
        if node.primitive is multiply and node.dtype in FUSED and node not in self.rounded:
            x, y = (self.value(operand) for operand in one.operands)
            self.factors[one] = x, y
        return emit_expression(self.code, kernel.expression, names, node.dtype)

    def typed(self, one: Instance, dtype: np.dtype) -> Typed:
        """The value of an instance with what an expression may know of it."""
        return Typed(self.value(one), dtype, self.factors.get(one))

    def _lane_numbers(self, type_: str) -> Operand:
        """0, 1, 2, ... in the lanes of a vector of integers."""
        if not self.width:
            return constant(0, type_)
        shown = ", ".join(f"{element(type_)} {lane}" for lane in range(self.width))
        return Operand(f"<{shown}>", type_)

    def _position(self, place: Affine, type_: str) -> Operand:
        """The affine value of the place in each lane."""
        code = self.code
        first = self.places.row_offset(place)
        more = self.places.column_offset(place)
        total = first if more.text == "0" else code.binary("add nsw", first, more)
        integer = type_ if element(type_)[0] == "i" else with_lanes("i64", self.width)
        if element(integer) != "i64":
            total = code.convert("trunc", total, element(integer))
        value = code.splat(total, integer)
        factor = self.places.lane_factor(place)
        if self.width and factor:
            steps = self._lane_numbers(integer)
            if factor != 1:
                steps = code.binary("mul", steps, constant(factor, integer))
            value = code.binary("add", value, steps)
        return value if integer == type_ else code.convert("sitofp", value, type_)

    def load(self, node: Node, place: Affine) -> Operand:
        """The elements of a stored value."""
        tile = self.places.tiles.get((node, place))
        if tile is not None:
            return tile.load(self.places)
        return self._read(self.places.pointer(node, place), node, place)

    def _read(self, pointer: Operand, node: Node, place: Affine) -> Operand:
        """The elements from the pointer on, as far apart as the place says."""
        code, width = self.code, self.width
        stored = memory_type(node.dtype)
        factor = self.places.lane_factor(place)
        if not width or not factor:
            value = self._from_memory(code.load(pointer, stored), node)
            return code.splat(value, self.type(node.dtype))
        wide = with_lanes(stored, width)
        if factor != 1:
            return self._from_memory(self._gathered(pointer, stored, factor), node)
        if self.mask is None:
            return self._from_memory(code.load(pointer, wide), node)
        return self._from_memory(masked_load(code, pointer, wide, self.mask), node)

    def _from_memory(self, value: Operand, node: Node) -> Operand:
        return from_memory(self.code, value, node.dtype)

    def _gathered(self, pointer: Operand, stored: str, factor: int) -> Operand:
        """Every `factor`-th element from the pointer on, one in each lane."""
        wide = with_lanes("i64", self.width)
        steps = ", ".join(f"i64 {lane * factor}" for lane in range(self.width))
        return self.read_each(pointer, stored, Operand(f"<{steps}>", wide))

    def read_each(self, pointer: Operand, stored: str, offsets: Operand) -> Operand:
        """The elements at offsets (in elements) from the pointer."""
        code, width = self.code, self.width
        pointers = code.emit(
            f"getelementptr {stored}, ptr {pointer.text}, {offsets.type} {offsets.text}",
            f"<{width} x ptr>",
        )
        mask = self.mask or self.places.with_row or constant(1, with_lanes("i1", width))
        wide = with_lanes(stored, width)
        nothing = Operand("zeroinitializer", wide)
        name = f"llvm.masked.gather.{mangled(wide)}.v{width}p0"
        return code.call(name, wide, pointers, alignment(wide), mask, nothing)

    def store(self, value: Operand, node: Node, place: Affine) -> None:
        """Write the elements of a value."""
        tile = self.places.tiles.get((node, place))
        if tile is not None:
            tile.store(value, self.places)
            return
        self._write(value, self.places.pointer(node, place), node, place)

    def add_at(self, value: Operand, store: Store) -> None:
        """Add the value at the place that the indices of a store say, one for all lanes."""
        node, wrap = store.node, store.node.param("wrap")
        offset = self._offset(store.indices, store.factors, node.shape, wrap)
        pointer = self.places.pointer(node, store.place)
        pointer = self.code.address(pointer, self._first_lane(offset), memory_type(node.dtype))
        names = {"x": (self._read(pointer, node, store.place), node.dtype)}
        names["y"] = (value, node.dtype)
        total = emit_expression(self.code, "x + y", names, node.dtype)
        self._write(total, pointer, node, store.place)

    def _write(self, value: Operand, pointer: Operand, node: Node, place: Affine) -> None:
        code, width = self.code, self.width
        value = to_memory(code, value, node.dtype)
        factor = self.places.lane_factor(place)
        if not width or factor == 1:
            if self.mask is None or not width:
                code.store(value, pointer)
            else:
                masked_store(code, value, pointer, self.mask)
            return
        steps = ", ".join(f"i64 {lane * factor}" for lane in range(width))
        pointers = code.emit(
            f"getelementptr {element(value.type)}, ptr {pointer.text}, <{width} x i64> <{steps}>",
            f"<{width} x ptr>",
        )
        mask = self.mask or constant(1, with_lanes("i1", width))
        name = f"llvm.masked.scatter.{mangled(value.type)}.v{width}p0"
        code.run(name, value, pointers, alignment(value.type), mask)

    def _one_hot(self, one: Instance) -> Operand:
        update, column = one.operands
        code, out = self.code, one.node
        index = self.in_range(column, out.shape[1], out.param("wrap"))
        short = with_lanes("i32" if max(out.shape) < 2**31 else "i64", self.width)
        here = self._position(one.place, short)
        if element(index.type) != element(short):
            index = code.convert("trunc", index, with_lanes(element(short), lanes(index.type)))
        hit = code.compare("icmp eq", here, index)
        return code.select(hit, self.value(update), constant(0, self.type(out.dtype)))

    def _gather(self, one: Instance) -> Operand:
        code, node = self.code, one.node
        assert one.source is not None
        stored = memory_type(node.dtype)
        shape = node.inputs[0].shape
        total = self._offset(one.operands, one.factors, shape, node.param("wrap"))
        pointer = self.places.pointer(one.source, one.place)
        in_rows = self.places.lane_axis is not None
        if not self.width or not (in_rows or any(operand.inner for operand in one.operands)):
            pointer = code.address(pointer, self._first_lane(total), stored)
            return self._read(pointer, node, one.place)
        offsets = code.splat(total, with_lanes("i64", self.width))
        factor = self.places.lane_factor(one.place)
        if factor:
            steps = self._lane_numbers(offsets.type)
            steps = code.binary("mul", steps, constant(factor, steps.type))
            offsets = code.binary("add nsw", offsets, steps)
        return self._from_memory(self.read_each(pointer, stored, offsets), node)

    def _offset(
        self, indices: Sequence[Instance], factors: Sequence[int], shape: Sequence[int], wrap: bool
    ) -> Operand:
        """How many elements the indices of the first axes skip, each by its factor."""
        code = self.code
        total: Operand | None = None
        for one, factor, size in zip(indices, factors, shape, strict=False):
            index = self.in_range(one, size, wrap)
            term = code.binary("mul nsw", index, constant(factor, index.type))
            total = term if total is None else code.binary("add nsw", total, term)
        assert total is not None
        return total

    def _first_lane(self, x: Operand) -> Operand:
        if not lanes(x.type):
            return x
        return self.code.emit(f"extractelement {x.type} {x.text}, i64 0", element(x.type))

    def in_range(self, one: Instance, size: int, wrap: bool) -> Operand:
        """The index as `i64`, counted from the start; 0 (and failed) where it is out of range."""
        code = self.code
        if (one, size, wrap) in self.indices:
            return code.splat(self.indices[one, size, wrap], with_lanes("i64", self.width))
        index = self.value(one)
        dtype = one.node.dtype
        wide = with_lanes("i64", lanes(index.type))
        index = code.convert("zext" if dtype.kind == "u" else "sext", index, wide)
        if one.kind is Kind.INDEX and one.node.shape[0] <= min(size, np.iinfo(dtype).max):
            return index
        if wrap and dtype.kind != "u":
            below = code.compare("icmp slt", index, constant(0, wide))
            index = code.select(below, code.binary("add", index, constant(size, wide)), index)
        fits = code.compare("icmp ult", index, constant(size, wide))
        bad = code.binary("xor", fits, constant(1, fits.type))
        if self.mask is not None and lanes(bad.type):
            bad = code.binary("and", bad, self.mask)
        self.failed(bad)
        return code.select(fits, index, constant(0, wide))
