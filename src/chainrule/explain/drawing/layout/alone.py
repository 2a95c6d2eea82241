"""Lays out every scope of a band alone, those inside it folded: a page that unfolds adds these up.

What is inside a scope does not depend on what is around it, so equal scopes share a layout.  All
lengths are in pixels; x begins at the left end of the scope, and y, which grows upward in the
forward band and downward in the backward band, at the middle of its row 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.figure import Form, Item, Kept, Rectangle
from chainrule.explain.drawing.layout.grid import Course, Grid
from chainrule.explain.drawing.layout.kept import Mirror, Mirrored, mirror
from chainrule.explain.drawing.layout.metrics import (
    DOWNWARD,
    PAD,
    UPWARD,
    across,
    along,
    extents_of,
)
from chainrule.explain.drawing.layout.routes import Leg, Room, legs
from chainrule.explain.drawing.layout.scopes import TOP, Kind, Nest, Scope
from chainrule.explain.drawing.layout.tracks import Port, gathered, is_one_line, wants
from chainrule.explain.drawing.layout.unfolding import Units, units_of
from chainrule.explain.drawing.layout.whole import End, Frame, Stretch, Whole, arrange_all

FORWARD, BACKWARD = 1, 2  # in which band a connection is drawn; 3: in both


@dataclass(frozen=True)
class Read:
    """A value that the item below `target` reads; `source` is its vertex, or -1 where the value
    stands elsewhere; `width` and `height` are those of a copy of it."""

    target: int
    source: int
    width: float
    height: float


@dataclass(frozen=True)
class Contents:
    """What stands at the vertices of a scope, in each band: None for ports and where nothing is;
    in which bands its connections are drawn; and what is read there."""

    scope: Scope
    forward: tuple[Item | None, ...]
    backward: tuple[Item | None, ...]
    drawn: tuple[int, ...]
    kept: tuple[Read, ...]


@dataclass(frozen=True)
class Pass:
    """A scope in one band: the rows' y, the ends of the frame, and the legs of its connections;
    and by how much each scope inside can grow above and below until the frame does."""

    rows: Sequence[float]
    low: float
    high: float
    legs: Mapping[int, Leg]
    above: Mapping[int, float]
    below: Mapping[int, float]


@dataclass(frozen=True)
class Alone:
    """A scope: the x of its vertices, and their rows; its passes (the second one where something
    is mirrored); the room in the columns of scopes inside, and which of their ports are level with
    the row; `between` the rows 0 of the two bands.

    Copies are by place in what is kept, arrows from the copy or from the value: y of all of these
    is that of the backward band, where the row 0 of the forward one is at `between`.
    """

    contents: Contents
    grid: Grid
    x: tuple[float, ...]
    width: float
    forward: Pass
    backward: Pass | None
    base: Mapping[int, int]
    room: Mapping[int, float]
    units: Units | None
    copies: Mapping[int, Rectangle]
    arrows: Mapping[int, Sequence[tuple[float, float]]]
    between: float


def lay_out_alone(
    parts: Nest, items: tuple[Item, ...], contents: Mapping[int, Contents]
) -> dict[int, Alone]:
    """Lays out every scope; equal ones once."""
    grids = arrange_all(parts, items, folded=True)
    facing = _facing(parts, grids)
    known: dict[object, Alone] = {}
    found: dict[int, Alone] = {}
    for number in reversed(parts.scopes):
        one = contents[number]
        bases = _bases(one.scope, grids[number], parts.scopes)
        ports = _ports(one.scope, bases, found)
        key = (
            id(grids[number]),
            number == TOP or one.scope.label_width,
            tuple(map(_shape, one.forward)),
            tuple(map(_shape, one.backward)),
            one.drawn,
            one.kept,
            number in facing,
            tuple(bases.items()),
            ports,
        )
        if key not in known:
            known[key] = _Layout(one, grids[number], bases, ports, number in facing).alone()
        found[number] = known[key]
    return found


def _facing(parts: Nest, grids: Mapping[int, Grid]) -> set[int]:
    """The scopes whose rows 0 face each other where the bands meet: nothing is in between."""
    found = {TOP}
    for number, scope in parts.scopes.items():
        if number in found:
            cells = zip(scope.vertices, grids[number].cells, strict=True)
            found |= {one.thing for one, (_, row) in cells if one.kind is Kind.INNER and not row}
    return found


def _shape(item: Item | None) -> tuple[object, ...]:
    return (item.form, item.width, item.height, item.below) if item else ()


def _bases(scope: Scope, grid: Grid, scopes: Mapping[int, Scope]) -> dict[int, int]:
    """Of every scope inside, the vertex of the port that stays in its row when it is unfolded: an
    entry to which an arrow runs in that row, else an exit, else the lowest; -1 if it has none."""
    found: dict[int, int] = {}
    straight: dict[int, tuple[int, int]] = {}
    for one, way in zip(scope.connections, grid.ways, strict=True):
        (_, start), (_, end) = grid.cells[one.start], grid.cells[one.end]
        if way.course is Course.LANE and start == end and way.row == start:
            straight.setdefault(one.end, (0, one.entry))
            straight.setdefault(one.start, (1, one.exit))
            straight[one.end] = min(straight[one.end], (0, one.entry))
    for vertex, one in enumerate(scope.vertices):
        if one.kind is Kind.INNER:
            inner = scopes[one.thing]
            entries, exits = len(inner.entries), len(inner.exits)
            is_exit, port = straight.get(vertex, (int(not entries), 0))
            found[vertex] = len(inner.vertices) - exits + port if is_exit else port
            if not entries and not exits:
                found[vertex] = -1
    return found


def _ports(
    scope: Scope, bases: Mapping[int, int], found: Mapping[int, Alone]
) -> tuple[tuple[Port, Port], ...]:
    """By which ports of the scopes inside each connection leaves and enters."""

    def port(vertex: int, number: int, *, leaves: bool) -> Port:
        if vertex not in bases:
            return Port.NONE
        inner = found[scope.vertices[vertex].thing]
        exits = len(inner.contents.scope.exits)
        if leaves and not exits:
            return Port.LEVEL  # the frame itself
        place = len(inner.x) - exits + number if leaves else number
        base = bases[vertex]
        if inner.units is None:
            cells = inner.grid.cells
            return Port.LEVEL if cells[place][1] == cells[base][1] else Port.LOOSE
        return Port.LEVEL if inner.units.of[place] == inner.units.of[base] else Port.LOOSE

    return tuple(
        (port(one.start, one.exit, leaves=True), port(one.end, one.entry, leaves=False))
        for one in scope.connections
    )


def _bent(stretches: Sequence[Stretch], ports: Sequence[tuple[Port, Port]]) -> frozenset[int]:
    """Of several stretches that run to one end in its row, all but one, if possible a level one."""
    straight: dict[int, int] = {}
    found = set()
    for place in sorted(
        range(len(stretches)), key=lambda place: (Port.LOOSE in ports[place], place)
    ):
        one = stretches[place]
        if one.course is Course.LANE and one.end.item >= 0 and is_one_line(one):
            if straight.setdefault(one.end.item, place) != place:
                found.add(place)
    return frozenset(found)


class _Layout:
    """Lays out one scope."""

    def __init__(
        self,
        contents: Contents,
        grid: Grid,
        bases: Mapping[int, int],
        ports: Sequence[tuple[Port, Port]],
        faces: bool,
    ) -> None:
        self.contents, self.grid, self.bases, self.faces = contents, grid, bases, faces
        scope = contents.scope
        stretches = tuple(map(self._stretch, range(len(scope.connections))))
        columns, frames = grid.columns + 1, {}
        top = range(grid.columns)
        if scope.number != TOP:
            inside, top = range(grid.columns), range(columns, columns + 1)
            frames = {0: Frame("", scope.label_width, inside, columns, 0, grid.rows - 1)}
            columns += 2
        ways = tuple((place,) for place in range(len(stretches)))
        self.whole = Whole(
            columns,
            top,
            grid.rows,
            [*grid.cells],
            frames,
            stretches,
            ways,
            frozenset(bases),
            _bent(stretches, ports),
        )
        wanted = (wants(stretch, *both) for stretch, both in zip(stretches, ports, strict=True))
        self.pieces = gathered(wanted, columns)

    def _stretch(self, place: int) -> Stretch:
        one, way = self.contents.scope.connections[place], self.grid.ways[place]
        source = one.start + len(self.grid.cells) * one.exit
        return Stretch(source, self._end(one.start), self._end(one.end), way.course, way.row)

    def _end(self, vertex: int) -> End:
        stands = self.contents.forward[vertex] is not None
        return End(vertex if stands else -1, *self.grid.cells[vertex])

    def alone(self) -> Alone:
        """The scope in its bands."""
        contents = self.contents
        forward, backward = (
            {vertex: item for vertex, item in enumerate(items) if item is not None}
            for items in (contents.forward, contents.backward)
        )
        copies: Mapping[int, Rectangle] = {}
        arrows: Mapping[int, Sequence[tuple[float, float]]] = {}
        between, below = 0.0, None
        if backward:
            found = self._mirrored(forward, backward)
            room = Room(self.whole, self.pieces, found.room.across, found.forward, forward)
            below = self._pass(found.room, BACKWARD)
            copies, arrows, between = found.copies, found.arrows, found.middle
        else:
            shapes = ((vertex, item.width) for vertex, item in forward.items())
            x = across(self.whole, self.pieces, shapes)
            y = along(self.whole, extents_of(self.whole, forward), UPWARD)
            room = Room(self.whole, self.pieces, x, y, forward)
        left, right = room.across.sides[0 if self.whole.frames else TOP]
        return Alone(
            contents,
            self.grid,
            tuple(room.across.centres[column] - left for column, _ in self.grid.cells),
            right - left,
            self._pass(room, FORWARD),
            below,
            self.bases,
            {vertex: self._room(vertex) for vertex in self.bases},
            self._units() if self.bases else None,
            copies,
            arrows,
            between,
        )

    def _units(self) -> Units:
        ports = [vertex for vertex, item in enumerate(self.contents.forward) if item is None]
        return units_of(self.grid.cells, self.whole.stretches, self.whole.unfolding, ports)

    def _mirrored(self, forward: Mapping[int, Item], backward: Mapping[int, Item]) -> Mirrored:
        contents = self.contents
        kept = tuple(
            (one.target, one.source, Kept("", "", Item("", Form.COPY, one.width, one.height)))
            for one in contents.kept
        )
        return mirror(
            Mirror(
                self.whole,
                self.pieces,
                forward,
                backward,
                [place for place, bands in enumerate(contents.drawn) if bands & BACKWARD],
                kept,
                not self.faces,
            )
        )

    def _pass(self, room: Room, band: int) -> Pass:
        drawn = [place for place, bands in enumerate(self.contents.drawn) if bands & band]
        rows, low, high = room.along.rows, room.along.bottom, room.along.top
        titles = UPWARD if band == FORWARD else DOWNWARD
        pad = PAD if self.whole.frames else 0.0
        above, below = {}, {}
        for vertex in self.bases:
            if vertex in room.shapes:
                y, half = rows[self.grid.cells[vertex][1]], room.shapes[vertex].height / 2
                above[vertex] = high - y - half - pad - (titles.above if pad else 0.0)
                below[vertex] = y - low - half - pad - (titles.below if pad else 0.0)
        return Pass(rows, low, high, legs(room, drawn), above, below)

    def _room(self, vertex: int) -> float:
        """The width of the widest box in the column of a vertex."""
        column, _ = self.grid.cells[vertex]
        return max(
            item.width
            for items in (self.contents.forward, self.contents.backward)
            for item, cell in zip(items, self.grid.cells, strict=True)
            if item is not None and cell[0] == column
        )
