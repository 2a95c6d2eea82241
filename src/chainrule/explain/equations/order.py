"""Orders the equations, and chooses the right side of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chainrule.explain.equations.formula import Named, Result
from chainrule.explain.equations.naming import Names
from chainrule.explain.equations.sides import Given, Piece, Sides
from chainrule.explain.reading.statements import Direction, Pass, Statement
from chainrule.graph.node import Node

BACKWARD = Direction.BACKWARD
MOST_MOVED = 100  # equations that stand elsewhere than in the order of the book


def right_sides(sides: Sides) -> list[Given]:
    """Each named value with its statement and right sides, pass by pass.

    A value's further names follow it.  Gradients stand in the order of the book: from the objective
    back to the inputs.
    """
    found = list(_unordered(sides))
    passes = {one: place for place, one in enumerate(sorted({one.during for one in found}))}
    places = {one: place for place, one in enumerate(sides.names.reading.statements)}
    ranks = sides.names.ranks

    def key(one: Given) -> tuple:
        rank = ranks.get(one.name)
        place = places.get(one.statement, len(places))
        return passes[one.during], rank is None, rank or (), place

    return sorted(found, key=key)


def _unordered(sides: Sides) -> Iterator[Given]:
    names = sides.names
    statements = {one.value: one for one in names.reading.statements}
    for name, node in names.graph.names.items():
        statement, gradient = statements.get(node), names.gradients.get(name)
        order = names.late.get(node)
        if gradient is not None and name != names.reading.names.get(node):
            if statement is None or statement.during < Pass(names.order(gradient), BACKWARD):
                # What is given, or computed earlier, is a gradient: that of z in z * w is w.
                order = names.order(gradient)
        if order is not None:
            statement = Statement(name, node, (), (node,), Pass(order, BACKWARD))
        if statement is None:
            continue
        first = names.said(statement.during).get(node, "")
        upstream = {} if gradient is None else sides.upstream(gradient)
        if name != first:
            pieces = sides.of_second_name(node, first, gradient)
        elif gradient is not None:
            pieces = sides.of_gradient(gradient)
        else:
            pieces = sides.of_value(node)
        yield Given(name, statement, pieces, upstream)


def settled(given: list[Given], names: Names, pieces: Mapping[Node, Piece]) -> list[Given]:
    """The same, but none before another one of its pass that its formula says.

    In (y − x²)², what comes back to x is the gradient of y.  `pieces` are those of unnamed nodes.
    """
    for _ in range(MOST_MOVED):
        places = {one.name: place for place, one in enumerate(given)}
        known: dict[Pass, dict[Node, int]] = {}
        for place, one in enumerate(given):
            latest = known.setdefault(one.during, {})
            for piece in one.pieces:
                for node in piece.children:
                    _find_latest(node, names.said(one.during), places, pieces, latest)
            last = max([_latest(piece, places, latest) for piece in one.pieces])
            if last > place and given[last].during == one.during:
                given = [*given[:place], *given[place + 1 : last + 1], one, *given[last + 1 :]]
                break
        else:
            return given
    return given


def _latest(piece: Piece, places: Mapping[str, int], latest: Mapping[Node, int]) -> int:
    """Where the last equation is that a right side says."""
    found = [places.get(piece.details["name"], -1) if piece.kind is Named else -1]
    for one in piece.children if piece.kind is Result else piece.operands:
        is_piece = isinstance(one, Piece)
        found.append(_latest(one, places, latest) if is_piece else latest[one])
    return max(found)


def _find_latest(
    node: Node,
    said: Mapping[Node, str],
    places: Mapping[str, int],
    pieces: Mapping[Node, Piece],
    latest: dict[Node, int],
) -> None:
    """Put into `latest` where the last equation is that the formula of a node says."""
    stack = [node]
    while stack:
        one = stack[-1]
        if one in latest:
            stack.pop()
        elif name := said.get(one):
            latest[one] = places.get(name, -1)
        else:
            children = pieces[one].children
            missing = [child for child in children if child not in latest]
            stack.extend(missing)
            if not missing:
                latest[one] = max([latest[child] for child in children] or [-1])
