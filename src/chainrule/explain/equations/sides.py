"""Builds the right side of each equation from pieces, whose operands are filled in later.

A gradient has the chain rule first, the sum over the values that were computed from the variable,
then its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from chainrule.dataclass import dataclass, field, replace
from chainrule.explain.equations.curvature import Block, Curvatures
from chainrule.explain.equations.formula import (
    Applied,
    Called,
    Chain,
    Curved,
    Formula,
    Named,
    Pulled,
    Result,
    Slope,
    Total,
    Unit,
)
from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.naming import Names
from chainrule.explain.equations.rewriting import Rewriting
from chainrule.explain.equations.spanning import is_doubled
from chainrule.explain.reading.bodies import results
from chainrule.explain.reading.statements import Contribution, Pass, Statement
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient, Term
from chainrule.primitives.sources import full
from chainrule.transforms.backward import gradient_name


@dataclass(frozen=True, eq=False)
class Piece:
    """A formula whose operands are still nodes; `details` are the fields of its `kind`.

    Operands that are pieces have no equation and no name of their own; in what is `Applied`, there
    are none.
    """

    kind: type[Formula]
    node: Node
    operands: tuple[Node | Piece, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes that are written as operands, those of pieces inside included."""
        if self.kind is Applied:
            written = self.operands[:1] if is_doubled(self.node) else self.operands
            return cast(tuple[Node, ...], written)
        if self.kind is Result:
            return self.details["holder"].inputs
        found: list[Node] = []
        for one in self.operands:
            if isinstance(one, Piece):
                found.extend(one.children)
            else:
                found.append(one)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Given:
    """A named value with its right sides as pieces, in one pass.

    `upstream` says, of each term of a gradient's chain rule, of which gradient it is made, and that
    gradient's name.
    """

    name: str
    statement: Statement
    pieces: list[Piece]
    upstream: Mapping[Node, tuple[Node, str]] = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        """The names that the right sides say beside those of their nodes."""
        found: list[str] = []
        stack: list[Node | Piece] = [*self.pieces]
        while stack:
            one = stack.pop()
            if isinstance(one, Piece) and one.kind is Named:
                found.append(one.details["name"])
            elif isinstance(one, Piece) and one.kind is not Applied:
                stack += one.operands
        return found

    @property
    def during(self) -> Pass:
        """The pass in which the equation stands."""
        return self.statement.during


class Sides:
    """The pieces of a graph's nodes, and the right sides of its equations."""

    def __init__(self, names: Names, functions: Functions) -> None:
        self.names, self.functions = names, functions
        self.curvatures = Curvatures(functions)
        self._closed: dict[tuple[Statement, str], bool] = {}
        self._closed_forms: dict[tuple[Gradient, Unit], Node | None] = {}
        self._places: dict[Node, float] = {n: place for place, n in enumerate(names.graph.nodes)}
        self._results = results(names.graph)
        self.rewriting = Rewriting(names, functions)
        self._values: dict[Node, list[Node]] = {}  # the results of each loop and choice
        for node, one in self._results.items():
            self._values.setdefault(one.holder, []).append(node)

    def inner(self, node: Node) -> Piece:
        """The piece of an unnamed node inside a formula."""
        if node in self.functions.slopes and not self.names.is_forward(node):
            unit, variable = self.functions.slopes[node]
            return Piece(Slope, node, unit.variables, {"unit": unit, "variable": variable})
        if node in self.functions.of_result:
            return _called(self.functions.of_result[node])
        for gradient in self.names.reading.gradients.get(node, ()):
            if not self.names.is_made_for(gradient):
                continue
            piece = self._through_units(gradient)
            if piece is not None and self._is_earlier(piece):
                return piece
        return self._applied(node)

    def _applied(self, node: Node) -> Piece:
        """The node's own primitive; of what a loop or a choice gives, which result it is."""
        node = self.rewriting.instead(node)
        found = self._results.get(node)
        if found is not None:
            return Piece(Result, node, (), {"holder": found.holder, "place": found.place})
        return Piece(Applied, node, node.inputs)

    def _is_earlier(self, piece: Piece) -> bool:
        """Whether all that the piece reads stands earlier in the graph: nothing is circular."""
        here = self._places[piece.node]
        return all(self.names.is_said(one) or self._places[one] < here for one in piece.children)

    def of_value(self, node: Node) -> list[Piece]:
        """The right sides for a named value that is no gradient: f(x), and what f is."""
        unit = self.functions.of_result.get(node)
        if unit is None:
            return [self._applied(node)]
        called = [_called(unit)]
        if self.functions.is_written_out(unit) and not self._is_repeated(unit):
            called.append(self._applied(node))
        return called

    def _is_repeated(self, unit: Unit) -> bool:
        """Whether what is inside a composite would write another call twice: {0 if f(x) ≤ 0; f(x)
        otherwise}."""
        if unit in self.functions.statements:
            return False
        calls = [one for one in unit.variables
                 if one in self.functions.of_result and not self.names.is_said(one)]  # fmt: skip
        read = [parent for node in unit.members for parent in node.inputs]
        return any(read.count(one) > 1 for one in calls)

    def of_gradient(self, gradient: Gradient) -> list[Piece]:
        """The right sides for a gradient: the chain rule, then the value."""
        value = self._through_units(gradient)
        if value is None:
            value = self._applied(gradient.value)
        chain = self.chain(gradient)
        return [value] if chain is None else [chain, value]

    def of_second_name(self, node: Node, first: str, gradient: Gradient | None) -> list[Piece]:
        """The right sides for another name of a value: its first name, or the number that it is."""
        is_number = node.primitive is full
        sides = [Piece(Applied, node) if is_number else Piece(Named, node, (), {"name": first})]
        if gradient is not None and (chain := self.chain(gradient)) is not None:
            sides.insert(0, chain)
        return sides

    def upstream(self, gradient: Gradient) -> dict[Node, tuple[Node, str]]:
        """The gradient that each term of the chain rule is made of, by the name that is meant.

        The gradients of f and of x + f are one value.  In what comes through f, it is that of f.
        Left out where the gradient has no other name, and is nothing else.
        """
        names, found = self.names, dict[Node, tuple[Node, str]]()
        statement_of = names.before(gradient).statement_of
        for term in gradient.terms:
            consumer = statement_of.get(term.consumer)
            if consumer is None or term.value in found:
                continue
            name = names.gradient_names.get((gradient.of, consumer.value), "")
            if name and names.is_doubtful(upstream := names.gradients[name].value, name):
                found[term.value] = upstream, name
        return found

    def _through_units(self, gradient: Gradient) -> Piece | None:
        """The gradient as a sum in which units have their short form; None where none is in it."""
        groups: dict[object, list[Node]] = {}
        for place, term in enumerate(gradient.terms):
            key = self.functions.unit(gradient, term) or self.curvatures.block(
                gradient, term.consumer
            )
            groups.setdefault(place if key is None else key, []).append(term.value)
        parts: list[Node | Piece] = []
        for key, values in groups.items():
            match key:
                case Unit():
                    parts.append(self._pulled(gradient, key))
                case Block():
                    parts.extend(self._curved(gradient, key))
                case _ if gradient.value in values:
                    return None
                case _:
                    parts.extend(values)
        if not any(isinstance(one, Piece) for one in parts):
            return None
        if len(parts) == 1 and isinstance(parts[0], Piece):
            return parts[0]
        return Piece(Total, gradient.value, tuple(parts))

    def _pulled(self, gradient: Gradient, unit: Unit) -> Piece:
        """∂J/∂h ⊙ φ′(z), or prod(∂J/∂o, ∂ℓ(o, y)/∂o)"""
        closed = self._closed_form(gradient, unit)
        if closed is not None:
            called = self.functions.of_result.get(closed)
            return Piece(Applied, closed, closed.inputs) if called is None else _called(called)
        details: dict[str, Any] = {"unit": unit, "variable": gradient.wrt}
        if self.functions.upstream(gradient.of, unit) is None:
            return Piece(Slope, gradient.value, unit.variables, details)
        upstream = self._upstream(gradient.of, unit.result)
        details["is_elementwise"] = self.functions.is_elementwise(unit, gradient.wrt)
        return Piece(Pulled, gradient.value, (upstream, *unit.variables), details)

    def _closed_form(self, gradient: Gradient, unit: Unit) -> Node | None:
        """The node of the gradient in closed form; what it is made of stands where the value is."""
        key = (gradient, unit)
        if key not in self._closed_forms:
            made = self.functions.closed_form(gradient, unit)
            for at, node in enumerate(made):
                self._places[node] = self._places[gradient.value] - 1 + (at + 1) / (len(made) + 1)
            self._closed_forms[key] = made[-1] if made else None
        return self._closed_forms[key]

    def _curved(self, gradient: Gradient, block: Block) -> list[Piece]:
        """What comes back through h = φ(z) and ∂J/∂z = ∂J/∂h ⊙ φ′(z) to z, or to ∂J/∂h."""
        unit, value = block.unit, gradient.value
        through = self._upstream(gradient.of, block.values[0])
        details: dict[str, Any] = {"unit": unit, "variable": block.variable}
        is_slope = {**details, "is_elementwise": True}
        if gradient.wrt is not block.variable:
            return [Piece(Pulled, value, (through, block.variable), is_slope)]
        parts: list[Piece] = []
        if self._is_through(block, gradient):
            result = self._upstream(gradient.of, unit.result)
            parts.append(Piece(Pulled, value, (result, block.variable), is_slope))
        first = block.upstream
        factors = (through,) if first is None or _is_one(first) else (through, first)
        return [*parts, Piece(Curved, value, (*factors, block.variable), details)]

    def _upstream(self, of: str, node: Node) -> Node | Piece:
        """The gradient of a value, by the name that is meant."""
        value = self.functions.gradients[of, node].value
        name = self.names.gradient_names.get((of, node))
        return value if name is None else Piece(Named, value, (), {"name": name})

    def chain(self, gradient: Gradient) -> Piece | None:
        """The sum over the consumers, prod(∂J/∂o, ∂o/∂W₂) + ...; None where it says nothing.

        That is so where the only consumer is what is differentiated, and where a consumer's
        gradient has no name or does not carry all that comes through it.
        """
        terms, blocks = self._apart(gradient)
        contributions = self.names.before(gradient).contributions(replace(gradient, terms=terms))
        if sum(len(one.terms) for one in contributions) != len(terms):
            return None
        parts: list[Node | Piece] = []
        for block in blocks:
            for node in (block.unit.result, block.values[0]):
                if node is block.values[0] or self._is_through(block, gradient):
                    part = self._chained_by(block, node, gradient)
                    if part is None:
                        return None
                    parts.append(part)
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

    def _apart(self, gradient: Gradient) -> tuple[tuple[Term, ...], list[Block]]:
        """The terms that come through no block, and the blocks of the others."""
        if self.names.order(gradient) == 1:
            return gradient.terms, []
        blocks = {term: self.curvatures.block(gradient, term.consumer) for term in gradient.terms}
        alone = tuple(term for term, block in blocks.items() if block is None)
        return alone, [*dict.fromkeys(block for block in blocks.values() if block is not None)]

    def _is_through(self, block: Block, gradient: Gradient) -> bool:
        """Whether a gradient comes back through the function itself, not only its derivative."""
        is_by_variable = gradient.wrt is block.variable
        return is_by_variable and (gradient.of, block.unit.result) in self.functions.gradients

    def _chained_by(self, block: Block, node: Node, gradient: Gradient) -> Piece | None:
        """The link by h = φ(z), or by ∂J/∂z = ∂J/∂h ⊙ φ′(z)."""
        statement = self.names.before(gradient).statement_of.get(node)
        variable = self.names.graph.name_of.get(gradient.wrt)
        upstream = self._upstream(gradient.of, node)
        if statement is None or statement.value is not node or variable is None:
            return None
        if not isinstance(upstream, Piece):
            return None
        details = {
            "consumer": node,
            "variable": gradient.wrt,
            "reads": tuple(one for one in statement.reads if one not in block.unit.members),
            "local": gradient_name(statement.name, variable),
        }
        return Piece(Chain, gradient.value, (upstream,), details)

    def _is_target(self, one: Contribution, gradient: Gradient) -> bool:
        """Whether the consumer is what is differentiated, with the number 1 as its gradient."""
        is_one = one.upstream is None or one.upstream.primitive is full
        return is_one and self.names.graph.names.get(gradient.of) is one.consumer.value

    def _chained(self, one: Contribution, gradient: Gradient) -> Piece | None:
        variable = self.names.graph.name_of.get(gradient.wrt)
        if one.upstream is None or variable is None:
            return None
        name = self.names.gradient_names.get((gradient.of, one.consumer.value), "")
        if not name:
            name = self.names.graph.name_of.get(one.upstream, "")
            if name in self.names.gradients:  # of another value, which is equal
                return None
        if not name or not self._carries_all(one, gradient.of):
            return None
        upstream = Piece(Named, one.upstream, (), {"name": name})
        details = {
            "consumer": one.consumer.value,
            "variable": gradient.wrt,
            "reads": one.consumer.reads,
            "local": gradient_name(one.consumer.name, variable),
        }
        return Piece(Chain, gradient.value, (upstream,), details)

    def _carries_all(self, one: Contribution, of: str) -> bool:
        """Whether `of` depends on what is inside the consumer through the consumer's value only."""
        key = (one.consumer, of)
        if key not in self._closed:
            self._closed[key] = self._is_closed(one, of)
        return self._closed[key]

    def _is_closed(self, one: Contribution, of: str) -> bool:
        if any((of, node) in self.functions.gradients for node in self._beside(one.consumer)):
            return False
        if not one.consumer.inside:
            return True
        nodes = set(one.consumer.nodes)
        inner = (self.functions.gradients.get((of, node)) for node in one.consumer.inside)
        return all(term.consumer in nodes for each in inner if each for term in each.terms)

    def _beside(self, consumer: Statement) -> Iterator[Node]:
        """What else the loops and choices in a statement give: their results are one array."""
        own = set(consumer.nodes)
        for holder in own.intersection(self._values):
            yield from (node for node in self._values[holder] if node not in own)


def _is_one(node: Node) -> bool:
    return node.primitive is full and node.param("value") == 1


def _called(unit: Unit) -> Piece:
    return Piece(Called, unit.result, unit.variables, {"unit": unit})
