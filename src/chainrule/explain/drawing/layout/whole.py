"""A whole band on one grid: scopes arranged from the inside out, then put into each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.figure import Group, Item
from chainrule.explain.drawing.layout.grid import Course, Grid, Task
from chainrule.explain.drawing.layout.rows import arrange
from chainrule.explain.drawing.layout.scopes import TOP, Connection, Kind, Nest, Scope, Vertex, nest

BY_THE_BOOK = 60  # flat bands of at most so many items are arranged as in a textbook


class End(NamedTuple):
    """Where a stretch begins or ends: at an item; or (item -1) at a port, that of scope `inner`
    in a cell of the outer scope, or else one in an outermost column of its own scope."""

    item: int
    column: int
    row: int
    inner: int = TOP


class Stretch(NamedTuple):
    """One leg of a link on the grid of the band; `source` is the item whose value it carries."""

    source: int
    start: End
    end: End
    course: Course
    lane: int


@dataclass(frozen=True)
class Frame:
    """A scope: its columns, that of the outer scope in which it stands, and its rows."""

    key: str
    label_width: float
    columns: range
    column: int
    low: int
    high: int


@dataclass(frozen=True)
class Whole:
    """Cells of items; frames by scope, outer ones first; stretches; of each link, which of them.

    Each scope has columns of its own, the outermost the range `top`.  Numbers of channels are those
    of the columns after them, so one number is left out behind the columns of each scope; there
    are `columns` numbers in all.  `unfolding` are the items that can become frames, and `bent` the
    stretches that run to their row, but do not end in its middle.
    """

    columns: int
    top: range
    rows: int
    cells: list[tuple[int, int]]
    frames: dict[int, Frame]
    stretches: tuple[Stretch, ...]
    ways: tuple[tuple[int, ...], ...]
    unfolding: frozenset[int] = frozenset()
    bent: frozenset[int] = frozenset()


def assemble(
    items: tuple[Item, ...], links: Sequence[tuple[int, int]], groups: tuple[Group, ...]
) -> Whole:
    """Arranges a band; equal scopes are arranged once.  Links are pairs of item numbers."""
    parts = nest(items, links, groups)
    grids = arrange_all(parts, items)
    return _put_together(parts, grids, len(items))


def arrange_all(parts: Nest, items: tuple[Item, ...], *, folded: bool = False) -> dict[int, Grid]:
    """The grid of every scope; where scopes are `folded`, each is a cell of the one around it."""
    beside = frozenset(number for number, item in enumerate(items) if item.beside)
    aside = {number for number, scope in parts.scopes.items() if scope.as_one}
    flat = len(parts.scopes) - len(aside) == 1 and len(items) <= BY_THE_BOOK
    grids: dict[int, Grid] = {}
    known: dict[object, Grid] = {}
    for number in reversed(parts.scopes):
        scope = parts.scopes[number]
        inner = (
            grids[one.thing] if one.kind is Kind.INNER and not folded else None
            for one in scope.vertices
        )
        task = Task(
            tuple(one.kind for one in scope.vertices),
            tuple(
                one.thing in (aside if one.kind is Kind.INNER else beside)
                and one.kind is not Kind.EXIT
                for one in scope.vertices
            ),
            tuple(inner),
            tuple(scope.connections),
            number != TOP,
            flat and number == TOP,
            1.0 if scope.connections else _times(scope, items),
        )
        # Grids of equal scopes are one object, so that comparing them is quick.
        shape = (
            task.kinds,
            task.beside,
            tuple(map(id, task.inner)),
            tuple(map(_plain, task.connections)),
            task.framed,
            task.times,
        )
        if shape not in known:
            known[shape] = arrange(task)
        grids[number] = known[shape]
    return grids


def _times(scope: Scope, items: tuple[Item, ...]) -> float:
    """How many times as wide as high the widest item of a scope is."""
    inside = [items[one.thing] for one in scope.vertices if one.kind is Kind.ITEM]
    return max((one.width / one.height for one in inside), default=1.0)


def _plain(one: Connection) -> tuple[int, int, int, int]:
    return one.start, one.end, one.exit, one.entry


def _put_together(parts: Nest, grids: dict[int, Grid], count: int) -> Whole:
    """Gives each scope columns of its own, and the rows where its outer scope has it."""
    columns: dict[int, range] = {}
    total = 0
    for number in parts.scopes:
        columns[number] = range(total, total + grids[number].columns)
        total += grids[number].columns + 1
    low = {TOP: 0}
    standing = {TOP: 0}
    cells = [(0, 0)] * count
    stretches: list[Stretch] = []
    first: dict[int, int] = {}
    for number, scope in parts.scopes.items():
        left = columns[number].start
        for vertex, (column, row) in zip(scope.vertices, grids[number].cells, strict=True):
            if vertex.kind is Kind.ITEM:
                cells[vertex.thing] = left + column, low[number] + row
            elif vertex.kind is Kind.INNER:
                standing[vertex.thing], low[vertex.thing] = left + column, low[number] + row
        first[number] = len(stretches)
        stretches += _stretches(scope, parts.scopes, grids, (left, low[number]))
    frames = {
        number: Frame(
            scope.key,
            scope.label_width,
            columns[number],
            standing[number],
            low[number],
            low[number] + grids[number].rows - 1,
        )
        for number, scope in parts.scopes.items()
        if number != TOP
    }
    ways = tuple(tuple(first[leg.scope] + leg.connection for leg in link) for link in parts.legs)
    return Whole(total, columns[TOP], grids[TOP].rows, cells, frames, tuple(stretches), ways)


def _stretches(
    scope: Scope, scopes: Mapping[int, Scope], grids: dict[int, Grid], origin: tuple[int, int]
) -> list[Stretch]:
    """The connections of one scope, on the grid of the band."""
    exits = {
        one.thing: tuple(scopes[one.thing].exits)
        for one in scope.vertices
        if one.kind is Kind.INNER
    }
    grid = grids[scope.number]
    found = []
    for one, way in zip(scope.connections, grid.ways, strict=True):
        start, end = scope.vertices[one.start], scope.vertices[one.end]
        source = start.thing
        start_rise = end_rise = 0
        if start.kind is Kind.INNER:
            source = exits[start.thing][one.exit]
            start_rise = grids[start.thing].exit_rows[one.exit]
        if end.kind is Kind.INNER:
            end_rise = grids[end.thing].entry_rows[one.entry]
        found.append(
            Stretch(
                source,
                _end(start, grid.cells[one.start], origin, start_rise),
                _end(end, grid.cells[one.end], origin, end_rise),
                way.course,
                origin[1] + way.row,
            )
        )
    return found


def _end(vertex: Vertex, cell: tuple[int, int], origin: tuple[int, int], rise: int) -> End:
    item = vertex.thing if vertex.kind is Kind.ITEM else -1
    inner = vertex.thing if vertex.kind is Kind.INNER else TOP
    return End(item, origin[0] + cell[0], origin[1] + cell[1] + rise, inner)
