"""Decides what is written as one function: composites, and activations written as φ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chainrule.explain.equations.calls import calls, dependent, is_elementwise_in
from chainrule.explain.equations.closed import Shared, closed_form
from chainrule.explain.equations.formula import Unit
from chainrule.explain.reading.statements import GENERATED, Reading, Statement
from chainrule.explain.reading.symbols import SUBSCRIPTS
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient, Term
from chainrule.primitives.arithmetic import multiply, stop_gradient
from chainrule.primitives.logic import cast, where
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.sorting import argsort

LETTERS = {"φ": r"\varphi", "ψ": r"\psi", "χ": r"\chi"}
UNSEEN = (*GENERATED, cast, broadcast_to)
FEW = 3  # a function of so many operations is written out beside its symbol, and its derivative
MOST_LOOKED_AT = 50  # nodes of one derivative
LONG = 4  # a statement of so many operations gets a φ for its derivative


class Functions:
    """The units of a graph, and which gradients go through one of them."""

    def __init__(self, reading: Reading, taken: Iterable[str]) -> None:
        self.reading = reading
        self._answers: dict[tuple[Any, ...], bool] = {}
        self._shared = Shared()
        self.composites = calls(reading.graph.nodes)
        inside = {node for unit in self.composites for node in unit.members}
        self.statements = tuple(_named(self._candidates(inside), set(taken)))
        self.units = (*self.composites, *self.statements)
        self._phis = frozenset(self.statements)

    def closed_form(self, gradient: Gradient, unit: Unit) -> list[Node]:
        """As `closed_form` of the unit; calls of composites in it are units, too."""
        made = closed_form(unit, gradient.wrt, self.upstream(gradient.of, unit))
        found = self._shared.nodes(made)
        given = (parent for node in found for parent in node.inputs)
        self.add_calls(dict.fromkeys([*(one for one in given if one not in found), *found]))
        return found

    def add_calls(self, nodes: Iterable[Node]) -> None:
        """Calls of composites among nodes that were made to be written are units, too."""
        for one in calls(nodes):
            self.of_result.setdefault(one.result, one)

    @cached_property
    def of_result(self) -> dict[Node, Unit]:
        """The unit of which a node is the result."""
        return {unit.result: unit for unit in self.units}

    @cached_property
    def of_member(self) -> Mapping[Node, Unit]:
        """The unit inside which a node is."""
        return {node: unit for unit in self.units for node in unit.members}

    def is_written_out(self, unit: Unit) -> bool:
        """Whether the formula inside is shown, too: it is short, or the symbol stands only here."""
        return unit in self._phis or self._is_short(unit)

    @cached_property
    def gradients(self) -> Mapping[tuple[str, Node], Gradient]:
        """Each gradient by what is differentiated and by which value."""
        return {(one.of, one.wrt): one for one in self.reading.graph.gradients}

    def has_units(self, gradient: Gradient) -> bool:
        """Whether a unit uses what the gradient is by."""
        return any([term.consumer in self.of_member for term in gradient.terms])

    def unit(self, gradient: Gradient, term: Term) -> Unit | None:
        """The unit through which a term comes, if its derivative is written by its symbol.

        None for terms of no unit, and where the derivative of the unit is short.
        """
        unit = self.of_member.get(term.consumer)
        return unit if unit is not None and self._is_pulled(unit, gradient) else None

    def groups(self, gradient: Gradient) -> dict[Unit, list[Node]]:
        """The terms of a gradient that go through units, taken together by unit."""
        found: dict[Unit, list[Node]] = {}
        for term in gradient.terms:
            unit = self.unit(gradient, term)
            if unit is not None:
                found.setdefault(unit, []).append(term.value)
        return found

    def _is_pulled(self, unit: Unit, gradient: Gradient) -> bool:
        """Whether what a gradient gets through a unit is its upstream times its derivative."""
        upstream = self.gradients.get((gradient.of, unit.result))
        is_target = self.reading.graph.names.get(gradient.of) is unit.result
        if gradient.wrt not in unit.variables or (upstream is None and not is_target):
            return False
        if upstream is not None and upstream.value is gradient.value:
            return False
        is_closed = any(
            unit.call[name] is gradient.wrt for name in unit.gradients if name in unit.call
        )
        if not is_closed and self._is_short(unit) and not self.is_elementwise(unit, gradient.wrt):
            return False
        return self._is_closed(unit, gradient.of)

    def is_elementwise(self, unit: Unit, variable: Node) -> bool:
        """As `is_elementwise_in`, looked at once."""
        key = (unit, variable)
        if key not in self._answers:
            self._answers[key] = is_elementwise_in(unit, variable)
        return self._answers[key]

    def _is_short(self, unit: Unit) -> bool:
        if (unit,) not in self._answers:
            sorts = any(node.primitive is argsort for node in unit.members)
            self._answers[unit,] = len(_seen(unit.members)) <= FEW and not sorts
        return self._answers[unit,]

    def _is_closed(self, unit: Unit, of: str) -> bool:
        """Whether `of` depends on what is inside the unit through the unit's result only."""
        key = (unit, of)
        if key not in self._answers:
            inner = (self.gradients.get((of, one)) for one in unit.members - {unit.result})
            terms = (term for one in inner if one is not None for term in one.terms)
            self._answers[key] = all(term.consumer in unit.members for term in terms)
        return self._answers[key]

    def upstream(self, of: str, unit: Unit) -> Node | None:
        """The gradient of a unit's result; None where that is what is differentiated.

        Its gradient, the number 1, is no longer there where no formula needs it.
        """
        found = self.gradients.get((of, unit.result))
        return None if found is None else found.value

    @cached_property
    def slopes(self) -> Mapping[Node, tuple[Unit, Node]]:
        """Nodes that are φ'(z) itself: the factor beside the upstream gradient in a product."""
        found: dict[Node, tuple[Unit, Node]] = {}
        for gradient in filter(self.has_units, self.reading.graph.gradients):
            for unit, values in self.groups(gradient).items():
                if len(values) != 1 or not self.is_elementwise(unit, gradient.wrt):
                    continue
                upstream = self.upstream(gradient.of, unit)
                (value,) = values
                if value.primitive is multiply and upstream in value.inputs:
                    x, y = value.inputs
                    factor = y if x is upstream else x
                    if factor is not upstream and factor.primitive is where:
                        found.setdefault(factor, (unit, gradient.wrt))
        return found

    def _candidates(self, inside: set[Node]) -> Iterator[tuple[str, Unit]]:
        """Statements that are elementwise in one value, and whose derivative is long."""
        with_cases = self._with_cases()
        differentiated = {one.wrt for one in self.reading.graph.gradients}
        for statement in self.reading.statements:
            if statement.value not in differentiated or inside.intersection(statement.nodes):
                continue
            if statement not in with_cases and len(_seen(statement.nodes)) < LONG:
                continue
            if len(statement.reads) != 1 or statement.reads[0] not in differentiated:
                continue
            (variable,) = statement.reads
            nodes = frozenset(statement.nodes)
            unit = Unit(statement.value, (variable,), nodes, "", "")
            if is_elementwise_in(unit, variable) and _is_uniform(unit, variable):
                yield _signature(statement, variable), unit

    def _with_cases(self) -> set[Statement]:
        """The statements in whose derivatives a case is distinguished."""
        found: set[Statement] = set()
        for gradient in self.reading.graph.gradients:
            for term in gradient.terms:
                statement = self.reading.statement_of.get(term.consumer)
                if statement is not None and statement not in found and self._has_cases(term.value):
                    found.add(statement)
        return found

    def _has_cases(self, value: Node) -> bool:
        """Whether cases are distinguished between a term and the gradients that it is made of."""
        stack, seen = [value], {value}
        while stack and len(seen) < MOST_LOOKED_AT:
            node = stack.pop()
            if node.primitive is where:
                return True
            for parent in node.inputs:
                is_made = parent.origin.transform and parent not in self.reading.gradients
                if parent not in seen and is_made and parent not in self.reading.names:
                    seen.add(parent)
                    stack.append(parent)
        return False


def _seen(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that a formula shows."""
    return [node for node in nodes if node.primitive not in UNSEEN]


def _is_uniform(unit: Unit, variable: Node) -> bool:
    """Whether all that the function needs beside its variable is the same for each element.

    One with `stop_gradient` is no function of the variable alone: φ' would be another derivative.
    """
    inner = set(dependent(unit, variable))
    if any(node.primitive is stop_gradient for node in inner):
        return False
    others = unit.members - inner
    return all(node.primitive in UNSEEN or node.ndim == 0 for node in others)


def _signature(statement: Statement, variable: Node) -> str:
    """What a statement does to its variable, whatever the shapes are: equal for equal functions."""
    places = {variable: "z"}
    lines = []
    for node in statement.nodes:
        if node.primitive is broadcast_to:
            places[node] = places[node.inputs[0]]
            continue
        params = [(key, value) for key, value in node.params if key not in ("type", "shape")]
        lines.append(f"{node.primitive.name}{params}({[places[one] for one in node.inputs]})")
        places[node] = f"%{len(lines)}"
    return "; ".join(lines)


def _named(candidates: Iterable[tuple[str, Unit]], taken: set[str]) -> Iterator[Unit]:
    """The units with a symbol for each different function: φ, ψ, χ, then φ₁, φ₂, ..."""
    free = _free_symbols(taken)
    symbols: dict[str, tuple[str, str]] = {}
    for signature, unit in candidates:
        if signature not in symbols:
            symbols[signature] = next(free)
        plain, latex = symbols[signature]
        yield Unit(unit.result, unit.arguments, unit.members, plain, latex)


def _free_symbols(taken: set[str]) -> Iterator[tuple[str, str]]:
    for letter, latex in LETTERS.items():
        if letter not in taken:
            yield letter, latex
    number = 0
    while True:
        number += 1
        plain = f"φ{str(number).translate(SUBSCRIPTS)}"
        if plain not in taken:
            yield plain, rf"\varphi_{{{number}}}"
