"""What stands on the right of each equation: pieces, which are formulas before their operands are.

A gradient has the chain rule first, the sum over the values that were computed from the variable,
then its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chainrule.explain.equations.formula import (
    Applied,
    Called,
    Chain,
    Formula,
    Named,
    Pulled,
    Slope,
    Total,
    Unit,
)
from chainrule.explain.equations.functions import Functions
from chainrule.explain.reading.statements import Contribution, Reading, Statement
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.primitives.sources import full
from chainrule.transforms.backward import gradient_name


@dataclass(frozen=True, eq=False)
class Piece:
    """A formula whose operands are still nodes; `details` are the fields of its `kind`."""

    kind: type[Formula]
    node: Node
    operands: tuple[Node | Piece, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes among the operands, those of pieces inside included."""
        found: list[Node] = []
        for one in self.operands:
            found.extend((one,) if isinstance(one, Node) else one.children)
        return tuple(found)


class Sides:
    """The pieces of a graph's nodes, and the right sides of its equations."""

    def __init__(self, reading: Reading, functions: Functions) -> None:
        self.reading, self.functions = reading, functions
        self._closed: dict[tuple[Statement, str], bool] = {}
        self.places = {node: place for place, node in enumerate(reading.graph.nodes)}

    def name_of(self, node: Node) -> str:
        """The name by which formulas call a node; '' where it is written out."""
        return self._names.get(node) or self.reading.sources.get(node, "")

    @cached_property
    def _names(self) -> Mapping[Node, str]:
        """Of gradients that are equal, the name of the one that stands first: ∂J/∂o, not ∂J/∂b.

        What has a name of its own keeps it: w stays w where it is the gradient of something.
        """
        found = dict(self.reading.names)
        ranks = self.ranks
        for name, node in self.reading.graph.names.items():
            if name in ranks and found[node] in ranks and ranks[name] < ranks[found[node]]:
                found[node] = name
        return found

    def inner(self, node: Node) -> Piece:
        """The piece of an unnamed node inside a formula."""
        if node in self.functions.slopes:
            unit, variable = self.functions.slopes[node]
            return Piece(Slope, node, unit.variables, {"unit": unit, "variable": variable})
        if node in self.functions.of_result:
            return _called(self.functions.of_result[node])
        for gradient in self.reading.gradients.get(node, ()):
            piece = self._through_units(gradient)
            if piece is not None and self._is_earlier(piece):
                return piece
        return Piece(Applied, node, node.inputs)

    def _is_earlier(self, piece: Piece) -> bool:
        """Whether all that the piece reads stands earlier in the graph: nothing is circular."""
        here = self.places[piece.node]
        return all(self.name_of(one) or self.places[one] < here for one in piece.children)

    def of_value(self, node: Node) -> list[Piece]:
        """The right sides for a named value that is no gradient: f(x), and what f is."""
        unit = self.functions.of_result.get(node)
        if unit is None:
            return [Piece(Applied, node, node.inputs)]
        called = [_called(unit)]
        if self.functions.is_written_out(unit):
            called.append(Piece(Applied, node, node.inputs))
        return called

    def of_gradient(self, gradient: Gradient) -> list[Piece]:
        """The right sides for a gradient: the chain rule, then the value."""
        value = self._through_units(gradient)
        if value is None:
            value = Piece(Applied, gradient.value, gradient.value.inputs)
        chain = self.chain(gradient)
        return [value] if chain is None else [chain, value]

    def of_second_name(self, node: Node, gradient: Gradient | None) -> list[Piece]:
        """The right sides for another name of a value: its first name, and a number's value."""
        sides = [Piece(Named, node, (), {"name": self.name_of(node)})]
        if gradient is not None and (chain := self.chain(gradient)) is not None:
            sides.insert(0, chain)
        if node.primitive is full:
            sides.append(Piece(Applied, node))
        return sides

    def _through_units(self, gradient: Gradient) -> Piece | None:
        """The gradient as a sum in which units have their short form; None where none is in it."""
        groups = self.functions.groups(gradient)
        if not any(unit for unit, _ in groups):
            return None
        parts: list[Node | Piece] = []
        for unit, values in groups:
            if unit is not None:
                parts.append(self._pulled(gradient, unit))
            elif gradient.value in values:
                return None
            else:
                parts.extend(values)
        if len(parts) == 1 and isinstance(parts[0], Piece):
            return parts[0]
        return Piece(Total, gradient.value, tuple(parts))

    def _pulled(self, gradient: Gradient, unit: Unit) -> Piece:
        upstream = self.functions.upstream(gradient.of, unit)
        details: dict[str, Any] = {"unit": unit, "variable": gradient.wrt}
        if upstream is None:
            return Piece(Slope, gradient.value, unit.variables, details)
        details["is_elementwise"] = self.functions.is_elementwise(unit, gradient.wrt)
        return Piece(Pulled, gradient.value, (upstream, *unit.variables), details)

    def chain(self, gradient: Gradient) -> Piece | None:
        """The sum over the consumers, prod(∂J/∂o, ∂o/∂W₂) + ...; None where it says nothing.

        That is so where the only consumer is what is differentiated, and where a consumer's
        gradient has no name or does not carry all that comes through it.
        """
        contributions = self.reading.contributions(gradient)
        if sum(len(one.terms) for one in contributions) != len(gradient.terms):
            return None
        parts: list[Node | Piece] = []
        for one in contributions:
            if self._is_target(one, gradient):
                parts.extend(one.terms)
                continue
            part = self._chained(one, gradient)
            if part is None:
                return None
            parts.append(part)
        if not any(isinstance(one, Piece) for one in parts):
            return None
        if len(parts) == 1 and isinstance(parts[0], Piece):
            return parts[0]
        return Piece(Total, gradient.value, tuple(parts))

    def _is_target(self, one: Contribution, gradient: Gradient) -> bool:
        """Whether the consumer is what is differentiated, with the number 1 as its gradient."""
        is_one = one.upstream is None or one.upstream.primitive is full
        return is_one and self.reading.graph.names.get(gradient.of) is one.consumer.value

    def _chained(self, one: Contribution, gradient: Gradient) -> Piece | None:
        variable = self.reading.names.get(gradient.wrt)
        if one.upstream is None or variable is None:
            return None
        name = gradient_name(gradient.of, one.consumer.name)
        if self.reading.graph.names.get(name) is not one.upstream:
            name = self.name_of(one.upstream)
        if not name or not self._carries_all(one, gradient.of):
            return None
        upstream = Piece(Named, one.upstream, (), {"name": name})
        details = {
            "consumer": one.consumer.value,
            "variable": gradient.wrt,
            "local": gradient_name(self.name_of(one.consumer.value), variable),
        }
        return Piece(Chain, gradient.value, (upstream,), details)

    def _carries_all(self, one: Contribution, of: str) -> bool:
        """Whether `of` depends on what is inside the consumer through the consumer's value only."""
        key = (one.consumer, of)
        if key not in self._closed:
            self._closed[key] = self._is_closed(one, of)
        return self._closed[key]

    def _is_closed(self, one: Contribution, of: str) -> bool:
        nodes = set(one.consumer.nodes)
        inner = (self.functions.gradients.get((of, node)) for node in one.consumer.inside)
        return all(term.consumer in nodes for each in inner if each for term in each.terms)

    @cached_property
    def ranks(self) -> Mapping[str, tuple[int, int, int]]:
        """Where a gradient stands among those of its pass, by its name: as the book has them.

        First those of the values that are used last; of the values that one statement reads, inputs
        before computed values.
        """
        statements = {one.value: place for place, one in enumerate(self.reading.statements)}
        found: dict[str, tuple[int, int, int]] = {}
        for gradient in self.reading.graph.gradients:
            variable = self.reading.names.get(gradient.wrt)
            if variable is None:
                continue
            consumers = [
                statements[one.consumer.value] for one in self.reading.contributions(gradient)
            ]
            first = min(consumers, default=-1)
            is_computed = gradient.wrt in statements
            place = self.places[gradient.wrt]
            found[gradient_name(gradient.of, variable)] = (-first, is_computed, place)
        return found


def _called(unit: Unit) -> Piece:
    return Piece(Called, unit.result, unit.variables, {"unit": unit})
