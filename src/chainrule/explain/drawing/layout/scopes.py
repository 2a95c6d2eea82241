"""A band as nested scopes, each a small graph of its own that knows its surroundings as ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from chainrule.dataclass import dataclass, field
from chainrule.explain.drawing.figure import Group, Item

TOP = -1  # the scope of what is in no group


class Kind(Enum):
    """What stands at a vertex of a scope."""

    ENTRY = 0  # the port of a value that comes into the scope
    ITEM = 1
    INNER = 2  # a scope inside
    EXIT = 3  # the port of a value that is used outside


Name = tuple[Kind, int]
Step = tuple[int, Name, Name, int]


@dataclass(frozen=True)
class Vertex:
    """`thing` is the item's number, the inner scope's, or (of a port) that of the value's item."""

    kind: Kind
    thing: int


@dataclass(frozen=True)
class Connection:
    """From vertex `start` to vertex `end`; at an inner scope, by which of its ports."""

    start: int
    end: int
    exit: int = 0
    entry: int = 0


@dataclass
class Scope:
    """Vertices in the order of the figure, entries first and exits last, and what connects them.

    One that is `as_one` has no exits: what reads a value in it is connected with the scope, and
    gets the value of the `first` item that is read.
    """

    number: int
    parent: int = TOP
    key: str = ""
    label_width: float = 0.0
    as_one: bool = False
    first: int = -1
    vertices: list[Vertex] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)  # item outside -> which entry
    exits: dict[int, int] = field(default_factory=dict)  # item inside -> which exit


@dataclass(frozen=True)
class Leg:
    """One part of a link's way: a connection of one scope."""

    scope: int
    connection: int


@dataclass(frozen=True)
class Nest:
    """All scopes of a band (the top level under TOP), outer before inner, and each link's legs."""

    scopes: dict[int, Scope]
    legs: tuple[tuple[Leg, ...], ...]


def nest(
    items: tuple[Item, ...], links: Iterable[tuple[int, int]], groups: Iterable[Group]
) -> Nest:
    """Takes a band apart; links are pairs of item numbers.  Groups without items are left out."""
    number_of = {item.key: number for number, item in enumerate(items)}
    scopes, home = _scopes(groups, number_of)
    depth = {TOP: 0}
    for number, scope in scopes.items():
        if number != TOP:
            depth[number] = depth[scope.parent] + 1
    steps = [list(_steps(source, target, home, scopes, depth)) for source, target in links]
    _fill(scopes, home, len(items))
    return Nest(scopes, _connect(scopes, steps))


def _scopes(
    groups: Iterable[Group], number_of: Mapping[str, int]
) -> tuple[dict[int, Scope], dict[int, int]]:
    """Empty scopes by number, outer first; and the scope of each item (TOP if not said)."""
    scopes = {TOP: Scope(TOP)}
    home: dict[int, int] = {}
    pending = [(group, TOP) for group in reversed(tuple(groups))]
    while pending:
        group, parent = pending.pop()
        number = len(scopes) - 1
        scopes[number] = Scope(number, parent, group.key, group.label_width, group.as_one)
        home.update((number_of[key], number) for key in group.items)
        pending += [(inner, number) for inner in reversed(group.groups)]
    filled = set(home.values())
    for number in reversed(scopes):
        if number in filled:
            filled.add(scopes[number].parent)
    return {number: one for number, one in scopes.items() if number in filled | {TOP}}, home


def _steps(
    source: int,
    target: int,
    home: Mapping[int, int],
    scopes: dict[int, Scope],
    depth: dict[int, int],
) -> Iterator[Step]:
    """A link scope by scope: (scope, from, to, source); ports are made where it needs them."""
    outward, inward = home.get(source, TOP), home.get(target, TOP)
    start: tuple[Kind, int] = (Kind.ITEM, source)
    end: tuple[Kind, int] = (Kind.ITEM, target)
    after: list[Step] = []
    if outward != inward and scopes[outward].as_one:
        if scopes[outward].first < 0:
            scopes[outward].first = source
        source = scopes[outward].first
    while outward != inward:
        if depth[outward] >= depth[inward]:
            scope = scopes[outward]
            if not scope.as_one:
                scope.exits.setdefault(source, len(scope.exits))
                yield outward, start, (Kind.EXIT, source), source
            start, outward = (Kind.INNER, outward), scope.parent
        else:
            scope = scopes[inward]
            scope.entries.setdefault(source, len(scope.entries))
            after.append((inward, (Kind.ENTRY, source), end, source))
            end, inward = (Kind.INNER, inward), scope.parent
    yield outward, start, end, source
    yield from reversed(after)


def _fill(scopes: dict[int, Scope], home: Mapping[int, int], count: int) -> None:
    """Puts ports, items and inner scopes (where their first items are) into their scopes."""
    for scope in scopes.values():
        scope.vertices += [Vertex(Kind.ENTRY, source) for source in scope.entries]
    placed = {TOP}
    for item in range(count):
        inner = home.get(item, TOP)
        vertex = Vertex(Kind.ITEM, item)
        scopes[inner].vertices.append(vertex)
        while inner not in placed:
            placed.add(inner)
            outer = scopes[inner].parent
            scopes[outer].vertices.append(Vertex(Kind.INNER, inner))
            inner = outer
    for scope in scopes.values():
        scope.vertices += [Vertex(Kind.EXIT, source) for source in scope.exits]


def _connect(scopes: dict[int, Scope], steps: list[list[Step]]) -> tuple[tuple[Leg, ...], ...]:
    """Numbers the connections of every scope, equal ones once."""
    position = {
        number: {(one.kind, one.thing): place for place, one in enumerate(scope.vertices)}
        for number, scope in scopes.items()
    }
    known: dict[int, dict[Connection, int]] = {number: {} for number in scopes}
    legs = []
    for link in steps:
        way = []
        for number, start, end, source in link:
            places = position[number]
            vertices = scopes[number].vertices
            first, last = vertices[places[start]], vertices[places[end]]
            one = Connection(
                places[start],
                places[end],
                scopes[first.thing].exits.get(source, 0) if first.kind is Kind.INNER else 0,
                scopes[last.thing].entries[source] if last.kind is Kind.INNER else 0,
            )
            way.append(Leg(number, known[number].setdefault(one, len(known[number]))))
        legs.append(tuple(way))
    for number, scope in scopes.items():
        scope.connections = list(known[number])
    return tuple(legs)
