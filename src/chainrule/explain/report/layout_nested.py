"""Writes nested scopes as plain data: what stands in each, and the layouts, which they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.figure import Group, Item
from chainrule.explain.drawing.layout.alone import (
    Alone,
    Contents,
    Pass,
    Read,
    lay_out_alone,
)
from chainrule.explain.drawing.layout.routes import Leg, Point
from chainrule.explain.drawing.layout.scopes import TOP, Kind, Nest, Scope, nest
from chainrule.explain.drawing.layout.unfolding import Order, slack_between

Pair = tuple[int, int]
DIGITS = 2  # of a pixel


class Kept(NamedTuple):
    """The item `source`, which is read below the item `target`; the size of a copy of it."""

    source: int
    target: int
    width: float
    height: float


@dataclass(frozen=True)
class Boxes:
    """What stands in a band: its items; by their numbers, those of the backward band below; by
    keys, folded scopes in both; and what is kept."""

    items: tuple[Item, ...]
    below: Mapping[int, Item]
    folded: Mapping[str, tuple[Item | None, Item | None]]
    kept: Sequence[Kept]


class Layouts:
    """The layouts of all scopes, equal ones once."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._known: dict[int, tuple[Alone, int]] = {}  # the layout stays, so its id does too

    def number(self, alone: Alone) -> int:
        """The number of a layout."""
        known = self._known.get(id(alone))
        if known is None:
            known = self._known[id(alone)] = alone, len(self.all)
            self.all.append(_layout_data(alone))
        return known[1]


def nested_data(
    boxes: Boxes, links: Mapping[Pair, int], groups: tuple[Group, ...], layouts: Layouts
) -> list[dict[str, Any]]:
    """The scopes of a band, outer ones first; the first one, without a key, is the band itself.

    `links` say in which bands each pair of item numbers is drawn.
    """
    parts = nest(boxes.items, list(links), groups)
    kept = _kept_in(parts, boxes)
    drawn = _drawn(parts, links)
    contents = {
        number: _contents(scope, parts, boxes, drawn[number], kept[number])
        for number, scope in parts.scopes.items()
    }
    found = lay_out_alone(parts, boxes.items, contents)
    place = {number: at for at, number in enumerate(parts.scopes)}
    return [
        {
            "key": scope.key,
            "parent": -1 if number == TOP else place[scope.parent],
            "layout": layouts.number(found[number]),
            "things": [
                place[one.thing] if one.kind is Kind.INNER else one.thing for one in scope.vertices
            ],
            "kept": kept[number],
        }
        for number, scope in parts.scopes.items()
    ]


def _kept_in(parts: Nest, boxes: Boxes) -> dict[int, list[int]]:
    """By scopes, the places of what is read there."""
    home = {
        vertex.thing: number
        for number, scope in parts.scopes.items()
        for vertex in scope.vertices
        if vertex.kind is Kind.ITEM
    }
    found: dict[int, list[int]] = {number: [] for number in parts.scopes}
    for place, one in enumerate(boxes.kept):
        found[home[one.target]].append(place)
    return found


def _drawn(parts: Nest, links: Mapping[Pair, int]) -> dict[int, list[int]]:
    """In which bands the connections of each scope are drawn."""
    found = {number: [0] * len(scope.connections) for number, scope in parts.scopes.items()}
    for way, bands in zip(parts.legs, links.values(), strict=True):
        for leg in way:
            found[leg.scope][leg.connection] |= bands
    return found


def _contents(
    scope: Scope, parts: Nest, boxes: Boxes, drawn: Iterable[int], kept: Iterable[int]
) -> Contents:
    forward: list[Item | None] = []
    backward: list[Item | None] = []
    vertex_of: dict[int, int] = {}
    for vertex, one in enumerate(scope.vertices):
        above, below = None, None
        if one.kind is Kind.ITEM:
            vertex_of[one.thing] = vertex
            above, below = boxes.items[one.thing], boxes.below.get(one.thing)
        elif one.kind is Kind.INNER:
            above, below = boxes.folded[parts.scopes[one.thing].key]
        forward.append(above)
        backward.append(below)
    reads = []
    for place in kept:
        one = boxes.kept[place]
        source = vertex_of.get(one.source, -1)
        reads.append(Read(vertex_of[one.target], source, one.width, one.height))
    return Contents(scope, tuple(forward), tuple(backward), tuple(drawn), tuple(reads))


def _layout_data(alone: Alone) -> dict[str, Any]:
    contents = alone.contents
    found: dict[str, Any] = {
        "kinds": [one.kind.value for one in contents.scope.vertices],
        "connections": [
            number
            for one in contents.scope.connections
            for number in (one.start, one.end, one.exit, one.entry)
        ],
        "x": _numbers(alone.x),
        "width": _number(alone.width),
        "forward": _pass_data(alone, alone.forward),
    }
    if alone.backward is not None:
        found["backward"] = _pass_data(alone, alone.backward)
        found["between"] = _number(alone.between)
        found["kept"] = [_kept_data(alone, place) for place in range(len(contents.kept))]
    if alone.units is not None:
        found["inner"] = [
            number
            for vertex, base in alone.base.items()
            for number in (vertex, base, _number(alone.room[vertex]))
        ]
        found["units"] = list(alone.units.of)
        found["lanes"] = list(alone.units.lanes)
    return found


def _pass_data(alone: Alone, one: Pass) -> dict[str, Any]:
    centres = [(x, one.rows[row]) for x, (_, row) in zip(alone.x, alone.grid.cells, strict=True)]
    connections = alone.contents.scope.connections
    legs = [
        _leg_data(leg, centres[connection.start], centres[connection.end])
        if (leg := one.legs.get(place))
        else 0
        for place, connection in enumerate(connections)
    ]
    found = {
        "y": _numbers(y for _, y in centres),
        "low": _number(one.low),
        "high": _number(one.high),
        "legs": legs,
    }
    if alone.units is not None:
        found["orders"] = [
            number
            for order in alone.units.orders
            for number in (
                order.lower,
                order.upper,
                order.below,
                order.above,
                _slack(alone, one, order),
            )
        ]
        last = len(one.rows) - 1
        found["above"] = [_number(one.above.get(vertex, 0.0)) for vertex in alone.base]
        found["below"] = [_number(one.below.get(vertex, 0.0)) for vertex in alone.base]
        found["free"] = [_number(one.rows[last] - one.rows[row]) for row in alone.units.rows]
    return found


def _slack(alone: Alone, one: Pass, order: Order) -> float:
    assert alone.units is not None
    rows = alone.units.rows
    if order.below < 0 and order.above < 0:
        return 0
    return _number(slack_between(one.rows, rows[order.lower], rows[order.upper]))


def _leg_data(leg: Leg, start: Point, end: Point) -> list[float | None]:
    """[dx, dy of the start, dx, dy of each end], from the middles of what is there; where it is
    not straight, before these [x of the first track, its lane's y, x of the last track]."""
    points = [(leg.start[0] - start[0], leg.start[1] - start[1])]
    points += [(x - end[0], y - end[1]) for x, y in leg.ends]
    found: list[float | None] = []
    if leg.leaving is not None or leg.arriving is not None:
        lane = None if leg.leaving is None else _number(leg.lane)
        found = [_or_none(leg.leaving), lane, _or_none(leg.arriving)]
    return found + _numbers(number for point in points for number in point)


def _kept_data(alone: Alone, place: int) -> list[float]:
    """[target, source, dx, dy of the arrow's start, dx, dy of its end], and of a copy its [dx, dy,
    width, height]: the start is told from the middle of the source; with a copy, all from that of
    the target."""
    assert alone.backward is not None
    read = alone.contents.kept[place]
    (_, row), x = alone.grid.cells[read.target], alone.x[read.target]
    y = alone.backward.rows[row]
    start, end = alone.arrows[place]
    copy = alone.copies.get(place)
    ends = [end[0] - x, end[1] - y]
    if copy is None:
        begins = [start[0] - alone.x[read.source], alone.between - start[1]]
        return [read.target, read.source, *_numbers((*begins, *ends))]
    begins = [start[0] - x, start[1] - y]
    box = [copy.x - x, copy.y - y, copy.width, copy.height]
    return [read.target, read.source, *_numbers((*begins, *ends, *box))]


def _number(number: float) -> float:
    """In hundredths of a pixel, whole ones without a point."""
    found = round(number, DIGITS)
    return int(found) if found == int(found) else found


def _numbers(several: Iterable[float]) -> list[float]:
    return [_number(one) for one in several]


def _or_none(number: float | None) -> float | None:
    return None if number is None else _number(number)
