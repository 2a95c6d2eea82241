"""Finds what moves in a scope when scopes inside are unfolded, and what it must stay above.

A scope is laid out with those inside folded.  One that is unfolded needs more room above and below
its row.  What is level because an arrow runs there moves together: it is a unit.  No unit comes
nearer to those below it, in any column or channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.layout.grid import Course
from chainrule.explain.drawing.layout.whole import End, Stretch

Cell = tuple[
    int, int
]  # of the scope's columns and channels (column c: 2c + 1, left of it: 2c); row


@dataclass(frozen=True)
class Order:
    """`lower` stays below `upper`; vertices (-1: none) say which scopes inside are in between."""

    lower: int
    upper: int
    below: int
    above: int


@dataclass(frozen=True)
class Units:
    """The unit of every vertex, and of the lane of every stretch; the row of each unit.

    `orders` are sorted so that each unit has its place when others are compared with it.
    """

    of: tuple[int, ...]
    lanes: tuple[int, ...]
    rows: tuple[int, ...]
    orders: tuple[Order, ...]


def units_of(
    cells: Sequence[tuple[int, int]],
    stretches: Sequence[Stretch],
    inner: frozenset[int],
    ports: Iterable[int],
) -> Units:
    """The units of a scope; `inner` are the vertices that are scopes.

    `ports` in the same row move together too, so that arrows outside can rely on it.
    """
    together = _Together()
    for column, row in cells:
        together.add((2 * column + 1, row))
    first: dict[int, Cell] = {}
    for column, row in (cells[vertex] for vertex in ports):
        together.join((2 * column + 1, row), first.setdefault(row, (2 * column + 1, row)))
    lanes = [_join(together, one) for one in stretches]
    number_of: dict[Cell, int] = {}
    rows: list[int] = []
    unit: dict[Cell, int] = {}
    for cell in sorted(together.around, key=lambda one: (one[1], one[0])):
        root = together.root(cell)
        if root not in number_of:
            number_of[root] = len(rows)
            rows.append(cell[1])
        unit[cell] = number_of[root]
    of = tuple(unit[2 * column + 1, row] for column, row in cells)
    scopes = {cells[vertex]: vertex for vertex in inner}
    orders = sorted(
        _orders(unit, scopes), key=lambda one: (rows[one.upper], one.upper, one.lower, one.below)
    )
    return Units(of, tuple(unit[one] for one in lanes), tuple(rows), tuple(orders))


class _Together:
    """Cells in sets that are put together."""

    def __init__(self) -> None:
        self.around: dict[Cell, Cell] = {}

    def add(self, cell: Cell) -> Cell:
        return self.around.setdefault(cell, cell)

    def root(self, cell: Cell) -> Cell:
        while (above := self.around[cell]) != cell:
            self.around[cell] = self.around[above]
            cell = above
        return cell

    def join(self, one: Cell, other: Cell) -> None:
        self.add(one)
        self.add(other)
        self.around[self.root(one)] = self.root(other)


def _join(together: _Together, stretch: Stretch) -> Cell:
    """Puts together what a stretch passes in one row; returns a cell of its lane."""
    start, end, lane = stretch.start, stretch.end, stretch.lane
    first, last = 2 * start.column + 2, 2 * end.column
    if stretch.course not in (Course.LANE, Course.LOOP):
        return _cell(start)
    together.join(_cell(start), (first, start.row))
    together.join((last, end.row), _cell(end))
    if first == last:
        return first, start.row
    low, high = sorted((first, last))
    for place in range(low, high):
        together.join((place, lane), (place + 1, lane))
    return first, lane


def _cell(end: End) -> Cell:
    return 2 * end.column + 1, end.row


def _orders(unit: Mapping[Cell, int], scopes: Mapping[tuple[int, int], int]) -> set[Order]:
    """Neighbours in each column and in each channel; scopes count in the channels beside them."""
    rows: dict[int, list[int]] = {}
    for place, row in unit:
        rows.setdefault(place, []).append(row)
    found = set()
    for place, several in rows.items():
        for lower, upper in pairwise(sorted(several)):
            units = unit[place, lower], unit[place, upper]
            for below in _beside(scopes, place, lower):
                for above in _beside(scopes, place, upper):
                    found.add(Order(*units, below, above))
    return found


def _beside(scopes: Mapping[tuple[int, int], int], place: int, row: int) -> list[int]:
    """The scopes in a column, or beside a channel, in a row; -1 where there is none."""
    columns = (place // 2,) if place % 2 else (place // 2 - 1, place // 2)
    found = [scopes[column, row] for column in columns if (column, row) in scopes]
    return found or [-1]


def slack_between(rows: Sequence[float], low: int, high: int) -> float:
    """By how much a scope in one of two rows can grow toward the other without moving it."""
    return max(rows[high - 1] - rows[low + 1], 0.0) if high > low else 0.0
