"""In which order the equations stand, and what is on the right of each."""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.explain.equations.sides import Piece, Sides
from chainrule.explain.reading.statements import Direction, Pass, Statement
from chainrule.graph.parts import Gradient
from chainrule.transforms.backward import gradient_name

Given = tuple[str, Statement, list[Piece]]


def right_sides(sides: Sides) -> list[Given]:
    """Each named value's name, statement and right sides, pass by pass.

    A value's further names follow it.  Gradients stand in the order of the book: from the objective
    back to the inputs.
    """
    found = list(_unordered(sides))
    places = {one: place for place, one in enumerate(sides.reading.statements)}

    def key(one: Given) -> tuple:
        name, statement, _ = one
        rank = sides.ranks.get(name)
        return statement.during, rank is None, rank or (), places.get(statement, len(places))

    return sorted(found, key=key)


def _unordered(sides: Sides) -> Iterator[Given]:
    reading = sides.reading
    gradients = _by_name(sides)
    statements = {one.value: one for one in reading.statements}
    for name, node in reading.graph.names.items():
        statement, gradient = statements.get(node), gradients.get(name)
        if gradient is not None and name != reading.names.get(node):
            if statement is None or statement.during.direction is Direction.FORWARD:
                # What is given, or computed earlier, is a gradient: that of z in z * w is w.
                target = statements.get(reading.graph.names[gradient.of])
                order = 1 + (target.during.order if target is not None else 0)
                during = Pass(order, Direction.BACKWARD)
                statement = Statement(name, node, (), (node,), during)
        if statement is None:
            continue
        if name != sides.name_of(node):
            yield name, statement, sides.of_second_name(node, gradient)
        elif gradient is not None:
            yield name, statement, sides.of_gradient(gradient)
        else:
            yield name, statement, sides.of_value(node)


def _by_name(sides: Sides) -> dict[str, Gradient]:
    """The gradients of named values by the names that `backward` gives them."""
    names = sides.reading.graph.names
    found: dict[str, Gradient] = {}
    for gradient in sides.reading.graph.gradients:
        variable = sides.reading.names.get(gradient.wrt)
        if variable is not None:
            name = gradient_name(gradient.of, variable)
            if names.get(name) is gradient.value:
                found[name] = gradient
    return found
