"""Chooses nests whose vectors hold neighbouring rows, as their columns would fill hardly one.

Each lane then has a row of its own.  Its columns come one after another, so a reduction over them
adds nothing across lanes, and what is computed once for a row is computed for a vector of rows.
Rows lie in memory column by column, so a group of rows is brought into tiles, and what is written
goes from tiles to memory: a tile has for each column a vector, one lane for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest, Store
from chainrule.plan.loops.sweeps import cost, reduces_columns, sweeps
from chainrule.primitives.affine import Affine, Domain, row_major

LONGEST = 64  # columns
FEWEST = 4  # lanes
TILES_NBYTES = 1 << 15  # on the stack: they stay in the first-level cache
# Of rows one by one: how many times as long a masked vector takes, or what is done for one row,
# whose instructions wait for each other; what it takes to know where along an axis a row is, and
# what each further sweep waits for.  The processor overlaps rows that have few instructions.
MASKED, ALONE, DIGIT, SWEEP = 3, 2, 4, 60
FEW, OVERLAPPED, OTHERS = 50, 0.33, 0.6
WAITING = 1.5  # of columns one by one, what each instruction is, as it waits for the one before
SEVERAL = 1.1  # what it costs to go through arrays several times, for some of the columns each


@dataclass(eq=False, slots=True)
class Tile:
    """Vectors of neighbouring rows: those of an array at a place, or a sum of many rows for each
    lane.

    `index` says which vector of the tile belongs to a point of the nest; there are `count`.
    """

    node: Node
    place: Affine
    index: Affine
    count: int


Key = tuple[Node, Affine]


@dataclass(eq=False)
class RowLanes:
    """Which rows the lanes of a vector hold, and the tiles of a group of rows.

    The lanes lie along the `axis`-th axis of the rows of `nest`, `width` of them.  `loads` are
    filled from arrays, `stores` written to them, `sums` add up over groups; `saved` are kept from
    one sweep over the columns to the next.
    """

    nest: LoopNest
    axis: int
    width: int
    loads: dict[Key, Tile] = field(default_factory=dict)
    stores: dict[Key, Tile] = field(default_factory=dict)
    sums: dict[Key, Tile] = field(default_factory=dict)
    saved: dict[Instance, Tile] = field(default_factory=dict)

    @property
    def groups(self) -> Domain:
        """The rows, with the axis of the lanes counted in groups, and without blocks of columns."""
        rows = lane_axes(self.nest)
        return tuple(
            -(-size // self.width) if axis == self.axis else size for axis, size in enumerate(rows)
        )

    @property
    def tiles(self) -> Iterator[Tile]:
        """All tiles."""
        for kind in (self.loads, self.stores, self.sums, self.saved):
            yield from kind.values()

    @property
    def nbytes(self) -> int:
        """What the tiles take."""
        return sum(
            tile.count * self.width * max(tile.node.dtype.itemsize, 4) for tile in self.tiles
        )

    def factor(self, place: Affine) -> int:
        """How far apart in an array the elements of neighbouring lanes are."""
        return place[1 + self.axis] if place else 0

    def refills(self, tile: Tile) -> int:
        """In how many groups one after another the tile holds the same."""
        if self.nest.blocks > 1:
            return 1
        deepest = max((axis for axis, k in enumerate(self._rows(tile)) if k), default=0)
        return prod(self.groups[deepest + 1 :])

    def _rows(self, tile: Tile) -> Affine:
        return tile.place[1 : 1 + len(self.nest.rows)]


def row_lanes(nest: LoopNest, lanes: int) -> RowLanes | None:
    """How vectors of so many lanes hold rows of the nest; None where they are to hold columns."""
    if lanes < FEWEST or not 1 < prod(nest.columns) <= LONGEST or 0 in nest.rows:
        return None
    best, least = None, _of_columns(nest, lanes)
    for axis in reversed(range(len(lane_axes(nest)))):
        width = lanes
        while width // 2 >= nest.rows[axis]:
            width //= 2
        made = tiled(nest, axis, width) if width >= FEWEST else None
        if made is None or made.nbytes > TILES_NBYTES:
            continue
        found = [(_of_rows(made), made)]
        if axis:
            made = tiled(_first(nest, axis), 0, width)
            assert made is not None
            found.append((_of_rows(made) * (SEVERAL if made.groups[0] > 1 else 1.0), made))
        for instructions, made in found:
            if instructions < least:
                best, least = made, instructions
    return best


def lane_axes(nest: LoopNest) -> Domain:
    """The axes of the rows but for that of blocks of columns, which are done one after another."""
    return nest.rows if nest.blocks == 1 else nest.rows[:-1]


def tiled(nest: LoopNest, axis: int, width: int) -> RowLanes | None:
    """The tiles that the nest needs where its lanes lie along an axis; None where they cannot."""
    made, written = RowLanes(nest, axis, width), {store.node for store in nest.stores}
    columns = (0,) * (1 + len(nest.rows)), row_major(nest.columns)

    def at_columns(node: Node, place: Affine) -> Tile:
        differs = any(place[1 + len(nest.rows) :])
        index = columns[0] + (columns[1] if differs else (0,) * len(nest.columns))
        return Tile(node, place, index, prod(nest.columns) if differs else 1)

    for one in nest.instances:
        if one.kind is Kind.BEFORE:
            continue
        if one.source in written or (one.kind is Kind.LOOKUP and not _is_found(one, nest)):
            return None
        if one.kind is Kind.LOAD and one.source is not None and made.factor(one.place):
            made.loads.setdefault((one.source, one.place), at_columns(one.source, one.place))
    for store in nest.stores:
        key = store.node, store.place
        if store.indices or bool(made.factor(store.place)) == store.fold:
            return None
        if not store.fold:
            made.stores[key] = at_columns(store.node, store.place)
        elif any(store.place[1:]):
            made.sums[key] = Tile(store.node, store.place, store.place, prod(store.node.shape))
    for sweep in sweeps(nest):
        for one in sweep.saves:
            index = columns[0] + columns[1]
            made.saved[one] = Tile(one.node, index, index, prod(nest.columns))
    return made


def _is_found(one: Instance, nest: LoopNest) -> bool:
    """Whether a lookup can find its column in the tiles of what is read."""
    pending, kinds = [one.operands[0]], (Kind.LOAD, Kind.MAP)
    while pending:
        x = pending.pop()
        if x.inner and x.kind not in kinds:
            return False
        pending += [y for y in x.operands if y.inner]
    return len(nest.columns) == 1


def _of_rows(made: RowLanes) -> float:
    """About how many instructions a nest takes, with those that bring rows into tiles and back."""
    nest, columns = made.nest, prod(made.nest.columns)
    each = sum(vector_moves(made, tile) * tile.count for tile in made.stores.values())
    for one in nest.instances:
        if not one.uniform and (one.kind is not Kind.LOAD or made.factor(one.place)):
            each += cost(one) * (columns if one.inner else 1)
    filled = sum(
        vector_moves(made, tile) * tile.count / made.refills(tile) for tile in made.loads.values()
    )
    return prod(made.groups) * nest.blocks * (each + filled)


def _of_columns(nest: LoopNest, lanes: int) -> float:
    """The same for a nest whose vectors hold columns."""
    if nest.walk is not None:
        return WAITING * prod(nest.rows) * prod(nest.columns) * sum(map(cost, nest.instances))
    *outer, columns = nest.columns
    while lanes // 2 >= columns:
        lanes //= 2
    vectors = prod(outer) * (columns // lanes + MASKED * (columns % lanes > 0))
    each = float(DIGIT * len(nest.rows))
    for one in nest.instances:
        if one.kind is Kind.FOLD:
            each += vectors + 2 * lanes.bit_length()
        elif not one.uniform:
            each += cost(one) * (vectors if one.inner else ALONE)
    each += sum(vectors if one.inner else 1 for one in nest.stores)
    each += sum(2 * lanes.bit_length() for one in nest.stores if reduces_columns(nest, one))
    each += SWEEP * max(nest.sweeps - 1, 0)
    return (OVERLAPPED if each < FEW else OTHERS) * prod(nest.rows) * each


def vector_moves(made: RowLanes, tile: Tile) -> float:
    """About how many instructions bring one vector into a tile, or out of it: from neighbouring
    elements, with those of a second column between, from rows that are transposed, one by one."""
    apart = made.factor(tile.place)
    if apart == 1:
        return 1.0
    if tile.count == 1 or tile.place[-1] != 1:
        return 1.5 * made.width
    return 3.0 if apart == 2 == made.nest.columns[-1] else 2.0 + made.width / 2


def _first(nest: LoopNest, axis: int) -> LoopNest:
    """The nest with one axis of its rows before the others."""
    if axis == 0:
        return nest

    def moved(place: Affine) -> Affine:
        if not place:
            return place
        rest = place[1 : 1 + axis] + place[2 + axis :]
        return (place[0], place[1 + axis], *rest)

    new: dict[Instance, Instance] = {}
    for one in nest.instances:
        operands = tuple(new[x] for x in one.operands)
        new[one] = one.elsewhere(moved(one.place), operands, one.inner)
    stores = [_moved(one, moved(one.place), moved(one.reach), new) for one in nest.stores]
    rows = (nest.rows[axis], *nest.rows[:axis], *nest.rows[axis + 1 :])
    return LoopNest(rows, nest.columns, stores, list(new.values()), nest.rounded, nest.walk)


def _moved(store: Store, place: Affine, reach: Affine, new: dict[Instance, Instance]) -> Store:
    indices = tuple(new[one] for one in store.indices)
    return replace(store, value=new[store.value], place=place, reach=reach, indices=indices)
