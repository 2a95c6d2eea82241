"""Rows of arrays in tiles: for each column a vector that has one lane for each of several rows.

Rows lie in memory column by column.  Four columns of four rows at a time are transposed within a
quarter of a register; the pieces of four columns come from memory straight into their quarters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute.native.plan_to_ir.conversions import (
    from_memory,
    memory_type,
    to_memory,
    type_of,
)
from chainrule.execute.native.plan_to_ir.emit import (
    BITS,
    Code,
    Operand,
    count,
    element,
    lanes,
    with_lanes,
)
from chainrule.execute.native.plan_to_ir.emit_instances import Places, affine
from chainrule.execute.native.plan_to_ir.masks import (
    first_lanes,
    masked_load,
    shuffled,
    store_first,
)
from chainrule.plan.loops.row_lanes import RowLanes, Tile

Z = Operand("0", "i64")


def held_type(dtype: np.dtype) -> str:
    """LLVM's type of one number in a tile: that of a register, but for booleans."""
    return "i8" if dtype.kind == "b" else type_of(dtype)


@dataclass(frozen=True, eq=False)
class Held:
    """A tile on the stack."""

    code: Code
    tile: Tile
    base: Operand
    width: int

    @property
    def dtype(self) -> np.dtype:
        """Of its numbers."""
        return self.tile.node.dtype

    def load(self, places: Places) -> Operand:
        """The vector that belongs to a point."""
        return self.loaded(self.at(self._number(places)))

    def store(self, value: Operand, places: Places) -> None:
        """Write the vector that belongs to a point."""
        self.code.store(self.shown(value), self.at(self._number(places)))

    def loaded(self, pointer: Operand) -> Operand:
        """The vector there, as it is in registers."""
        found = self.code.load(pointer, with_lanes(held_type(self.dtype), self.width))
        return from_memory(self.code, found, self.dtype) if self.dtype.kind == "b" else found

    def shown(self, value: Operand) -> Operand:
        """A value in registers as the tile holds it."""
        return to_memory(self.code, value, self.dtype) if self.dtype.kind == "b" else value

    def at(self, number: Operand, lane: Operand = Z) -> Operand:
        """Where a vector of the tile begins, or one lane of it."""
        whole = self.code.binary("mul nsw", number, count(self.width)) if number != Z else Z
        if lane != Z:
            whole = self.code.binary("add nsw", whole, lane) if whole != Z else lane
        return self.code.address(self.base, whole, held_type(self.dtype))

    def _number(self, places: Places) -> Operand:
        return affine(self.code, self.tile.index, [*places.rows, *places.columns])


class Moves:
    """Brings rows of an array into a tile, or from there to the array.

    `places` are at the first of the `rows`.  Where these are fewer than lanes, the lanes left hold
    the last row again, and are not written.
    """

    def __init__(self, held: Held, places: Places, nest: RowLanes, rows: int) -> None:
        self.held, self.code, self.places, self.rows = held, held.code, places, rows
        self.node, self.place, self.width = held.tile.node, held.tile.place, held.width
        self.columns = nest.nest.columns if held.tile.count > 1 else ()
        self.apart = nest.factor(self.place)
        self.length = self.columns[-1] if self.columns else 1
        self.stored = memory_type(self.node.dtype)
        self.block = 1  # how many columns are transposed together
        if self.apart != 1 and self.columns and self.place[-1] == 1:
            self.block = 4 if self.length >= 4 else 2

    def fill(self) -> None:
        """Array to tile."""
        self._each({1: self._fill_one, 2: self._fill_pairs, 4: self._fill_quarters}[self.block])

    def flush(self) -> None:
        """Tile to array."""
        self._each({1: self._flush_one, 2: self._flush_pairs, 4: self._flush_quarters}[self.block])

    def _each(self, body: Callable[[Operand, Operand], None]) -> None:
        """`body` for each block of columns: where the array has it for the first row, and its first
        vector in the tile.  The last block may overlap the one before it."""
        before = len(self.columns) - 1

        def inside(digits: list[Operand]) -> None:
            if len(digits) < before:
                size = count(self.columns[len(digits)])
                run_loop(self.code, size, 1, lambda k: inside([*digits, k]))
            elif self.length == self.block:
                at([*digits, Z] if self.columns else [])
            else:
                run_loop(self.code, count(self.length), self.block, lambda k: last(digits, k))

        def last(digits: list[Operand], k: Operand) -> None:
            if self.length % self.block:
                k = self.code.intrinsic("smin", k, count(self.length - self.block))
            at([*digits, k])

        def at(digits: list[Operand]) -> None:
            memory = self.places.row_pointer(self.node, self.place)
            number, rows = Z, 1 + len(self.places.rows)
            if digits:
                offset = affine(self.code, (0, *self.place[rows:]), digits)
                memory = self.code.address(memory, offset, self.stored)
                number = affine(self.code, (0, *self.held.tile.index[rows:]), digits)
            body(memory, number)

        inside([])

    # one column

    def _fill_one(self, memory: Operand, number: Operand) -> None:
        if self.apart == 1:
            value = self._beside(memory, 0, 1)
        else:
            value = Operand("poison", with_lanes(held_type(self.node.dtype), self.width))
            for lane in range(self.rows):
                one = self._held(self.code.load(self._of_row(memory, lane), self.stored))
                text = f"insertelement {value.type} {value.text}, {one.type} {one.text}, i64 {lane}"
                value = self.code.emit(text, value.type)
            value = self._repeated(value, self.rows, 1)
        self.code.store(value, self.held.at(number))

    def _flush_one(self, memory: Operand, number: Operand) -> None:
        type_ = held_type(self.node.dtype)
        if self.apart == 1:
            value = self.code.load(self.held.at(number), with_lanes(type_, self.width))
            store_first(self.code, self._in_memory(value), memory, self.rows)
            return
        for lane in range(self.rows):
            value = self.code.load(self.held.at(number, count(lane)), type_)
            self.code.store(self._in_memory(value), self._of_row(memory, lane))

    # two columns

    def _fill_pairs(self, memory: Operand, number: Operand) -> None:
        half = self.width // 2
        if self.apart == 2:
            parts = [self._beside(memory, start, 2) for start in (0, self.width)]
        else:
            parts = [
                _joined(self.code, [self._piece(memory, k) for k in range(start, start + half)])
                for start in (0, half)
            ]
        for k in (0, 1):
            value = shuffled(self.code, parts[0], parts[1], range(k, 2 * self.width, 2))
            self.code.store(value, self.held.at(self._following(number, k)))

    def _flush_pairs(self, memory: Operand, number: Operand) -> None:
        half, columns = self.width // 2, self._vectors(number)
        for start in (0, half):
            left = min(self.rows - start, half)
            order = [k for row in range(start, start + half) for k in (row, self.width + row)]
            if left <= 0:
                return
            value = shuffled(self.code, columns[0], columns[1], order)
            if self.apart == 2:
                store_first(
                    self.code, self._in_memory(value), self._of_row(memory, start), 2 * left
                )
                continue
            for row in range(left):
                self._write(memory, start + row, value, range(2 * row, 2 * row + 2))

    # four columns

    def _fill_quarters(self, memory: Operand, number: Operand) -> None:
        quarters = [
            _joined(self.code, [self._piece(memory, row) for row in range(first, self.width, 4)])
            for first in range(4)
        ]
        for k, value in enumerate(_transposed(self.code, quarters)):
            self.code.store(value, self.held.at(self._following(number, k)))

    def _flush_quarters(self, memory: Operand, number: Operand) -> None:
        for first, value in enumerate(_transposed(self.code, self._vectors(number))):
            for row in range(first, self.rows, 4):
                self._write(memory, row, value, range(row - first, row - first + 4))

    # pieces of rows

    def _vectors(self, number: Operand) -> list[Operand]:
        """The vectors of a block of columns."""
        wide = with_lanes(held_type(self.node.dtype), self.width)
        places = [self._following(number, k) for k in range(self.block)]
        return [self.code.load(self.held.at(place), wide) for place in places]

    def _following(self, number: Operand, k: int) -> Operand:
        return self.code.binary("add nsw", number, count(k)) if k else number

    def _of_row(self, memory: Operand, row: int) -> Operand:
        return self.code.address(memory, count(row * self.apart), self.stored)

    def _piece(self, memory: Operand, row: int) -> Operand:
        """The columns of a block of one row."""
        place = self._of_row(memory, min(row, self.rows - 1))
        return self._held(self.code.load(place, with_lanes(self.stored, self.block)))

    def _write(self, memory: Operand, row: int, x: Operand, picked: Sequence[int]) -> None:
        piece = self._in_memory(shuffled(self.code, x, x, picked))
        self.code.store(piece, self._of_row(memory, row))

    def _beside(self, memory: Operand, start: int, each: int) -> Operand:
        """A vector of neighbouring elements of the array, `each` of a row, from the `start`-th."""
        there = self.rows * each - start
        if there <= 0:  # the last row again
            start, there = start - self.width, there + self.width
            low = self._beside(memory, start, each)
            return shuffled(
                self.code, low, low, [there - each + k % each for k in range(self.width)]
            )
        memory = self.code.address(memory, count(start), self.stored)
        wide = with_lanes(self.stored, self.width)
        if there >= self.width:
            return self._held(self.code.load(memory, wide))
        mask = first_lanes(there, self.width)
        value = self._held(masked_load(self.code, memory, wide, mask))
        return self._repeated(value, there, each)

    def _repeated(self, x: Operand, there: int, each: int) -> Operand:
        """The vector with the last `each` of the lanes that are there in those that are not."""
        if there >= self.width:
            return x
        order = [k if k < there else there - each + k % each for k in range(self.width)]
        return shuffled(self.code, x, x, order)

    def _held(self, x: Operand) -> Operand:
        """What was read from the array, as a tile holds it."""
        return x if self.node.dtype.kind == "b" else from_memory(self.code, x, self.node.dtype)

    def _in_memory(self, x: Operand) -> Operand:
        return x if self.node.dtype.kind == "b" else to_memory(self.code, x, self.node.dtype)


def _transposed(code: Code, rows: list[Operand]) -> list[Operand]:
    """Four vectors of quarters, each quarter of four of them transposed."""
    size = lanes(rows[0].type)
    if BITS[element(rows[0].type)] == 64:  # in halves of 128 bits, then across them
        first, second = ((0, 4, 2, 6), (1, 5, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7))
        order = (0, 2, 1, 3)
    else:
        first, second = ((0, 4, 1, 5), (2, 6, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7))
        order = (0, 1, 2, 3)
    made = [
        [shuffled(code, x, y, _in_quarters(size, picked)) for picked in first]
        for x, y in (rows[:2], rows[2:])
    ]
    found = [
        shuffled(code, made[0][k], made[1][k], _in_quarters(size, picked))
        for k in (0, 1)
        for picked in second
    ]
    return [found[k] for k in order]


def _in_quarters(size: int, picked: Sequence[int]) -> list[int]:
    """The same of each four lanes: 0 to 3 are those of the first vector, 4 to 7 of the second."""
    return [
        start + k if k < 4 else size + start + k - 4 for start in range(0, size, 4) for k in picked
    ]


def _joined(code: Code, pieces: list[Operand]) -> Operand:
    """Vectors one after another in one; there is a power of two of them."""
    while len(pieces) > 1:
        size = lanes(pieces[0].type)
        pieces = [
            shuffled(code, x, y, range(2 * size))
            for x, y in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return pieces[0]


def run_loop(code: Code, stop: Operand, step: int, body: Callable[[Operand], None]) -> None:
    """Emit a loop from 0 that carries no values."""

    def one(index: Operand, kept: list[Operand]) -> list[Operand]:
        body(index)
        return kept

    code.loop(Z, stop, step, [], one)
