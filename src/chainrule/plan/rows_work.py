"""The work of an update that touches only the rows of a table to which a batch adds something.

The gradient of `E[ids]` is a scatter: zeros, and updates added at the rows that the indices name.
Where nothing reads it but `E - rate * dE`, in place, which leaves what gets zeros as it is, the
other rows need neither the zeros nor the update.  The sums of the named rows alone are stored, in
the order in which the rows are named first.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.plan.checks import Check
from chainrule.plan.loops.nest import NestLayout
from chainrule.schedule.records import aligned

SLOT, ROW = np.dtype(np.int32), np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class RowsWork:
    """The rows of `table` that `indices` name, updated in place by what `scattered` would be there.

    `adds` has as many rows for each index as `update` has for each row of the table; each can be
    run for these alone.  The workspace holds for each row of the table which sum is its own (-1
    where it has none yet), then for each sum its row, then the sums.
    """

    scattered: Node
    table: Node
    indices: Node
    adds: NestLayout
    update: NestLayout
    writes: tuple[Node, ...]
    reads: tuple[Node, ...]
    inner: tuple[Node, ...]
    label: str
    checks: tuple[Check, ...]

    fails: bool = False
    nanoseconds_alone: ClassVar[float] = 0.0  # not counted
    allocated_nbytes: ClassVar[int] = 0

    @property
    def height(self) -> int:
        """How many rows the table has."""
        return self.table.shape[0]

    @property
    def count(self) -> int:
        """How many indices there are."""
        return prod(self.indices.shape)

    @property
    def rows_each(self) -> int:
        """How many rows of the nests one row of the table is."""
        return prod(self.table.shape[1:-1])

    @property
    def row_nbytes(self) -> int:
        """The bytes of one row of the table."""
        return prod(self.table.shape[1:]) * self.table.dtype.itemsize

    @property
    def rows_offset(self) -> int:
        """Where in the workspace the rows are told."""
        return aligned(self.height * SLOT.itemsize)

    @property
    def sums_offset(self) -> int:
        """Where in the workspace the sums begin."""
        return self.rows_offset + aligned(self.count * ROW.itemsize)

    @property
    def workspace_nbytes(self) -> int:
        """All of it."""
        return self.sums_offset + self.count * self.row_nbytes
