"""How a loop nest is cut into vectors and into parts for several threads, and its workspace.

Each part has its own share of the workspace: buffers of one row, and what its rows add to every
reduction over rows; the shares are combined when all parts have run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.plan.loops.axes import merged
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest, Store
from chainrule.plan.loops.row_lanes import RowLanes, row_lanes, tiled
from chainrule.plan.loops.sweeps import Sweep, sweeps, sweeps_storing_last
from chainrule.plan.sharing import Sharing, busiest
from chainrule.schedule.records import aligned

FAILED_NBYTES = 64  # a cache line for each part's flag
ROWS_TOGETHER = 8
# What of one row must be moved in the last sweep for this to pay: more than stays in the
# first-level cache, and rows of a page at least.  Of shorter ones several would be written in one
# page, and the processor no longer fetches ahead (layer_norm of rows of 1 KiB: 1.2 times as long).
CACHE_NBYTES, PAGE_NBYTES = 1 << 15, 1 << 12
FLOAT64 = np.dtype(np.float64)


@dataclass(eq=False)
class NestLayout:
    """How a nest is cut into parts and vectors, and what its workspace holds.

    `vector_nbytes` is the width of the processor's vectors, `sharing` how many threads share it.
    `nest` becomes the merged one; a part of that of `whole` has its axes and vectors already, and
    `by_row` all axes stay, so that any of the rows can be run alone.
    `saved` and `shares` are offsets in a thread's share.  The last
    sweep over columns goes over `rows_together` rows at once, a block of columns of each in turn:
    what they add to, and what they all read, then stays in the first-level cache.
    """

    nest: LoopNest
    vector_nbytes: int
    sharing: Sharing
    whole: NestLayout | None = None
    by_row: bool = False
    saved: dict[Instance, int] = field(default_factory=dict)
    shares: dict[Store, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.by_row:
            self.strip = None
        elif self.whole is None:
            self.nest, self.strip = merged(self.nest)
        else:
            self.strip = self.whole.strip
        self.lanes = self._lanes_of_rows()
        if self.lanes is not None:
            self.nest = self.lanes.nest
        self.row_count = prod(self.nest.rows)
        self.rows_together, self.sweeps = 1, sweeps(self.nest)
        if self.lanes is None and self._adds_rows():
            late = sweeps_storing_last(self.nest)
            if self._may_wait(late):
                self.rows_together, self.sweeps = ROWS_TOGETHER, late
        if self.lanes is not None:
            self.width = self.lanes.width
        else:
            self.width = self._width() if self.whole is None else self.whole.width
        columns = prod(self.nest.columns)
        used = 0
        for sweep in () if self.lanes is not None else self.sweeps:
            for one in sweep.saves:
                self.saved[one] = used
                used += aligned(columns * one.node.dtype.itemsize)
        if self.parts > 1:
            for store in self.nest.stores:
                if store in self.folds:
                    self.shares[store] = used
                    count = 1 if is_total(store) else prod(store.node.shape)
                    used += aligned(count * total_dtype(store).itemsize)
        self.part_nbytes = used

    def _adds_rows(self) -> bool:
        """Whether rows that were gone over before are added in columns, one to another."""
        nest = self.nest
        if len(nest.rows) != 1 or self.row_count < ROWS_TOGETHER or nest.sweeps < 2:
            return False
        return any(one.fold and one.inner and one.place[-1] for one in nest.stores)

    def _may_wait(self, late: list[Sweep]) -> bool:
        """Whether the last sweep of a row can be left until those of other rows, and should be."""
        nest, last = self.nest, late[-2]
        if last.folds or any(one.saves for one in late) or any(s.indices for s in nest.stores):
            return False
        if any(s.fold and (s.place[1] or s.place[-1] != 1) for s in last.stores):
            return False
        moved = {one.source: one.node.dtype for one in last.computes if one.kind is Kind.LOAD}
        moved |= {one.node: one.node.dtype for one in last.stores}
        sizes = [prod(nest.columns) * dtype.itemsize for dtype in moved.values()]
        return sum(sizes) >= CACHE_NBYTES and max(sizes) >= PAGE_NBYTES

    def _lanes_of_rows(self) -> RowLanes | None:
        """Which rows the lanes of vectors hold, if they do not hold columns."""
        if self.by_row or self.strip is not None:
            return None
        if self.whole is None:
            return row_lanes(self.nest, self._lanes())
        lanes = self.whole.lanes
        return None if lanes is None else tiled(self.nest, lanes.axis, lanes.width)

    @property
    def turns(self) -> int:
        """How many pieces of work there are for threads: rows, or groups of rows in lanes, with all
        their blocks of columns."""
        return self.row_count // self.nest.blocks if self.lanes is None else prod(self.lanes.groups)

    @property
    def parts(self) -> int:
        """In how many parts it is cut."""
        return self.sharing.parts

    @property
    def busiest(self) -> float:
        """What of it the thread does that does most."""
        return busiest(self.turns, self.parts, self.parts) if self.parts > 1 else 1.0

    @property
    def workspace_nbytes(self) -> int:
        """What all parts together need."""
        return self.part_nbytes * self.parts

    @property
    def arrays(self) -> list[Node]:
        """The values whose arrays the function takes, in order."""
        return list(dict.fromkeys([*self.nest.reads, *(one.node for one in self.nest.stores)]))

    @property
    def folds(self) -> list[Store]:
        """The reductions that are complete when all rows have run."""
        return [one for one in self.nest.stores if one.fold and not one.indices]

    @property
    def fails(self) -> bool:
        """Whether an index may be out of range."""
        kinds = (Kind.GATHER, Kind.LOOKUP, Kind.ONE_HOT)
        scatters = any(one.indices for one in self.nest.stores)
        return scatters or any(one.kind in kinds for one in self.nest.instances)

    def _width(self) -> int:
        """The number of lanes; 0 where a row is one point."""
        scattered = any(index.inner for one in self.nest.stores for index in one.indices)
        if not self.nest.columns or scattered:  # lanes might add to one place
            return 0
        lanes, columns = self._lanes(), self.nest.columns[-1]
        while lanes > 1 and (lanes // 2 >= columns or lanes > self._lanes_apart()):
            lanes //= 2
        return lanes if lanes > 1 else 0

    def _lanes(self) -> int:
        """How many lanes a vector has of the widest values of columns."""
        inner = [one for one in self.nest.instances if one.inner]
        inner += [one.value for one in self.nest.stores if one.inner]
        sizes = [
            one.node.dtype.itemsize
            for one in inner
            if one.kind is not Kind.INDEX and one.node.dtype.kind != "b"
        ]
        return self.vector_nbytes // max([4, *sizes])

    def _lanes_apart(self) -> int:
        """How many columns behind what it writes a nest reads it, at least."""
        places = {store.node: store.place for store in self.nest.stores}
        gaps = [
            abs(places[one.source][0] - one.place[0]) // max(abs(one.place[-1]), 1)
            for one in self.nest.instances
            if one.source in places and one.place != places[one.source]
        ]
        return max(min(gaps, default=self.vector_nbytes), 1)


def is_total(store: Store) -> bool:
    """Whether a reduction has one result, which a register can hold."""
    return not any(store.place[1:])


def total_dtype(store: Store) -> np.dtype:
    """The dtype in which a reduction over rows is kept: sums of floats to one number in float64."""
    return FLOAT64 if is_total(store) and dtype_kind(store.node.dtype) == "f" else store.node.dtype


def nest_label(nodes: Iterable[Node]) -> str:
    """The operations of the nodes, each once."""
    return " ".join(dict.fromkeys(node.primitive.name for node in nodes))


def computed_by(nests: list[LoopNest]) -> list[Node]:
    """The nodes that the nests compute, each once."""
    read = (Kind.LOAD, Kind.NUMBER, Kind.INDEX)
    found = (one for nest in nests for one in nest.instances if one.kind not in read)
    return list(dict.fromkeys(one.node for one in found))
