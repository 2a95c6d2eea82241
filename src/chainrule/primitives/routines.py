"""What LAPACK does for one matrix of a stack, as steps that an executor turns into calls.

A routine is data: room to work in, and steps on `Block`s of memory.  All arithmetic is in float64,
as that of NumPy's linear algebra; copies change the dtype where operands and results have another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.graph.node import Node

WIDE = np.dtype(np.float64)
RESULT, STATUS = "result", "status"  # the array of the result, and what a call says of itself
Part = Literal["all", "lower", "upper"]
Verdict = Literal["never", "nonzero"]


@dataclass(frozen=True)
class Block:
    """A matrix in memory: element (i, j) is `first` + i `down` + j `along` elements into `array`.

    `array` is RESULT, the name of an operand (`operand_array`) or that of a `Room`.
    """

    array: str
    down: int = 1
    along: int = 1
    first: int = 0

    @property
    def transposed(self) -> Block:
        """The same memory as the transposed matrix."""
        return replace(self, down=self.along, along=self.down)

    def at(self, row: int, column: int) -> Block:
        """The block that begins with this element."""
        return replace(self, first=self.first + row * self.down + column * self.along)


@dataclass(frozen=True)
class Operand:
    """How the matrices of an operand lie, and whether their elements are float64."""

    block: Block
    is_wide: bool

    def is_dense(self, rows: int, columns: int) -> bool:
        """Whether LAPACK can read it where it lies, as it is or transposed."""
        down, along = self.block.down, self.block.along
        return self.is_wide and (
            (along == 1 and down >= max(columns, 1)) or (down == 1 and along >= max(rows, 1))
        )


@dataclass(frozen=True)
class Room:
    """Scratch memory for one matrix: so many elements, float64 or, where `integers`, 32 bits."""

    name: str
    count: int
    integers: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.count * (4 if self.integers else 8)


@dataclass(frozen=True)
class Copy:
    """Copy `rows` by `columns` elements; what is not in the `part` becomes 0."""

    source: Block
    into: Block
    rows: int
    columns: int
    part: Part = "all"


@dataclass(frozen=True)
class Unit:
    """Write the identity matrix."""

    into: Block
    size: int


@dataclass(frozen=True)
class Call:
    """Call a Fortran routine: letters, integers, floats by address, blocks by their first element.

    The run stops where the status is as in `stops`.
    """

    routine: str
    arguments: tuple[str | int | float | Block, ...]
    stops: Verdict = "never"


@dataclass(frozen=True)
class Regular:
    """The run stops where an element of the diagonal is 0."""

    matrix: Block
    size: int


@dataclass(frozen=True)
class Numbers:
    """Write 0, 1, 2, ... down a column."""

    into: Block
    rows: int


@dataclass(frozen=True)
class Swap:
    """Swap row i with row `pivots[i]` - 1, for i = 0, 1, ..., `count` - 1."""

    pivots: str
    rows: Block
    count: int
    columns: int


@dataclass(frozen=True)
class Permute:
    """Row i of `into` is row `order[i]` of `source`; `back`: row `order[i]` of `into` is row i."""

    source: Block
    order: Block
    into: Block
    rows: int
    columns: int
    back: bool = False


Step = Copy | Unit | Call | Regular | Numbers | Swap | Permute


@dataclass(frozen=True)
class Together:
    """Calls that need nothing of each other: threads share them."""

    steps: tuple[Call, ...]


@dataclass(frozen=True)
class Routine:
    """The steps for one matrix of a stack, and the room that they need."""

    steps: tuple[Step | Together, ...]
    rooms: tuple[Room, ...] = ()

    @property
    def routines(self) -> tuple[str, ...]:
        """The Fortran routines that it calls, each once."""
        return tuple(dict.fromkeys(one.routine for one in self._single if isinstance(one, Call)))

    @property
    def may_stop(self) -> bool:
        """Whether a matrix may stop the run."""
        return any(
            isinstance(one, Regular) or (isinstance(one, Call) and one.stops != "never")
            for one in self._single
        )

    @property
    def moved(self) -> int:
        """How many elements its steps bring from one place to another."""
        found = 0
        for one in self._single:
            if isinstance(one, (Copy, Permute)):
                found += one.rows * one.columns
            elif isinstance(one, Swap):
                found += one.count * one.columns
            elif isinstance(one, Unit):
                found += one.size**2
        return found

    @property
    def phases(self) -> tuple[tuple[Step, ...] | Together, ...]:
        """Steps one after another that one thread does, and those that threads share, in turn."""
        found = list[tuple[Step, ...] | Together]()
        for one in self.steps:
            if isinstance(one, Together):
                found.append(one)
            elif found and isinstance(found[-1], tuple):
                found[-1] = (*found[-1], one)
            else:
                found.append((one,))
        return tuple(found)

    @property
    def _single(self) -> Iterator[Step]:
        for one in self.steps:
            yield from one.steps if isinstance(one, Together) else (one,)


# `routine(out, *operands)` of a concrete node: its result lies in C order, in its own dtype.
Writer = Callable[..., Routine]


def operand_array(index: int) -> str:
    """The array of the `index`-th operand."""
    return f"operand {index}"


def result_block(out: Node, columns: int | None = None) -> Block:
    """The matrices of a result in C order, of so many columns (default: of its last axis)."""
    return Block(RESULT, int(out.shape[-1]) if columns is None else columns)


def read_where_it_lies(
    operand: Operand, rows: int, columns: int, name: str
) -> tuple[Block, tuple[Copy, ...], tuple[Room, ...]]:
    """A block that LAPACK can read; with the copy and the room for it, where one must be made."""
    if operand.is_dense(rows, columns):
        return operand.block, (), ()
    made = Block(name, 1, rows)
    return made, (Copy(operand.block, made, rows, columns),), (Room(name, rows * columns),)


def triangle(
    matrix: Block, right: Block, size: int, columns: int, *, is_lower: bool, is_unit: bool
) -> Call:
    """Solve a triangular system in place: `right`, whose rows are contiguous, becomes X of
    a X = right.  The rows of a, or its columns, are contiguous."""
    in_rows = matrix.along == 1 and (matrix.down != 1 or size == 1)
    leading = max(matrix.down if in_rows else matrix.along, 1, size)
    # What lies in rows, Fortran sees transposed: a' of the other triangle.
    uplo = "L" if is_lower != in_rows else "U"
    unit = "U" if is_unit else "N"
    if columns == 1:
        trans = "T" if in_rows else "N"
        return Call("dtrsv", (uplo, trans, unit, size, matrix, leading, right, right.down))
    # It sees X' a' = right', too.
    trans = "N" if in_rows else "T"
    return Call(
        "dtrsm",
        ("R", uplo, trans, unit, columns, size, 1.0, matrix, leading, right, right.down),
    )
