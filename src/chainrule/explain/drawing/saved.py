"""Which values of the forward pass the derivative of each circle reads: the dashed arrows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from chainrule.explain.drawing.bands import Builder
from chainrule.explain.drawing.units import Unit
from chainrule.explain.reading.statements import FORWARD, Statement
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.primitives.sources import input_
from chainrule.transforms.vjp import cotangent

Saved = dict[tuple[str, Unit], dict[Node, None]]


class Saving:
    """The values that are read for the gradients of one objective, those gradients aside.

    `drawn` are the variables whose gradients have a square.  `found` has, for each pair of a box of
    the forward pass and the unit whose derivative reads it, which values of the box it reads.
    """

    def __init__(
        self,
        builder: Builder,
        objective: str,
        gradients: Sequence[Gradient],
        drawn: Collection[Node],
    ) -> None:
        self.builder, self.objective = builder, objective
        self.gradients, self.drawn = gradients, drawn
        self.units, self.reading = builder.units, builder.units.reading
        self.found: Saved = {}
        self._known: dict[Node, set[Node]] = {}

    def add_terms(self, gradient: Gradient) -> None:
        """What the terms of the chain rule read, each for the unit that it comes through."""
        for term in gradient.terms:
            upstream = self.reading.gradient_of(term.consumer, self.objective)
            given = term.value in self._values and term.value is not gradient.value
            if self._is_forward(term.value):
                self._add(term.consumer, [term.value] if gradient.wrt in self.drawn else [])
            elif term.value in self.units.owners and term.value is not upstream and not given:
                self._add(term.consumer, self._read_by(term.value))

    def add_statement(self, statement: Statement) -> None:
        """What is computed in fact, by what it was made from: rewriting leaves terms unused."""
        for node in statement.nodes:
            if node in self._sums:
                readers = self._sums[node]
                found: dict[Node, list[Node]] = {}
                for one in node.inputs:
                    for consumer in readers.get(one, ()):
                        found.setdefault(consumer, []).append(one)
                for consumer, reads in found.items():
                    self._add(consumer, reads)
            elif node.origin.node is not None:
                self._add(node.origin.node, node.inputs)

    @cached_property
    def _values(self) -> set[Node]:
        return {one.value for one in self.gradients}

    @cached_property
    def _sums(self) -> dict[Node, dict[Node, list[Node]]]:
        """The additions of terms, and what the derivatives read through which the terms come: each
        value with the consumers whose derivatives read it.

        They are made on behalf of the variable whose gradient is added up.
        """
        found: dict[Node, dict[Node, list[Node]]] = {}
        for gradient in self.gradients:
            if gradient.value.origin.node is not gradient.wrt:
                continue
            readers: dict[Node, list[Node]] = {}
            for term in gradient.terms:
                for one in self._operands(term.consumer):
                    readers.setdefault(one, []).append(term.consumer)
            stack = [gradient.value]
            while stack:
                node = stack.pop()
                if node.origin.node is gradient.wrt and node not in found:
                    found[node] = readers
                    stack.extend(node.inputs)
        return found

    def _add(self, consumer: Node, reads: Iterable[Node]) -> None:
        """The values of the forward pass among what the derivative of `consumer` reads.

        One of them may be the gradient that its circle is given: with s = tanh(x) and L = s * v,
        that of s is v.  It is saved only if the derivative reads it beside.
        """
        owners = self.units.owners.get(consumer)
        if not owners:
            return
        rest = list(reads)
        given = self.reading.gradient_of(owners[0].value, self.objective)
        if given in rest and given not in self._operands(consumer):
            rest.remove(given)  # once: in cos(x) * cos(x) one of them may be the gradient
        for node in rest:
            value = self.units.resolved(node) if self._is_forward(node) else None
            source = None if value is None else self.builder.shown(value)
            if value is not None and source is not None and self._is_forward(value):
                self.found.setdefault((source, owners[0]), {})[value] = None

    def _operands(self, consumer: Node) -> set[Node]:
        """The values of the graph that the derivative of `consumer` reads, whatever gradient it is
        given: among its result and its inputs, and what is computed from these anyway."""
        if consumer not in self._known:
            gradient = input_(index=-1, type=consumer.type)  # no input of the graph
            parts = (
                cotangent(consumer, index, gradient)
                for index, parent in enumerate(consumer.inputs)
                if self.reading.gradient_of(parent, self.objective) is not None
            )
            found = {one: one for one in (consumer, *consumer.inputs)}
            read: set[Node] = set()
            for node in _inputs_first([part for part in parts if part is not None], found):
                inputs = tuple(found.get(one, one) for one in node.inputs)
                twin = self._nodes.get((node.primitive, inputs, node.params, node.type))
                if node not in found and twin is not None:
                    found[node] = twin
                if node in found:
                    read.add(found[node])
            self._known[consumer] = read
        return self._known[consumer]

    @cached_property
    def _nodes(self) -> dict[object, Node]:
        """The nodes of the graph by what they compute."""
        nodes = self.reading.graph.nodes
        return {(one.primitive, one.inputs, one.params, one.type): one for one in nodes}

    def _read_by(self, term: Node) -> dict[Node, None]:
        """The forward values from which a term is computed, gradients being given."""
        found: dict[Node, None] = {}
        stack, seen = [term], {term}
        while stack:
            for parent in stack.pop().inputs:
                if parent in seen or parent in self._values:
                    continue
                seen.add(parent)
                if self._is_forward(parent):
                    found[parent] = None
                else:
                    stack.append(parent)
        return found

    def _is_forward(self, node: Node) -> bool:
        if node in self.units.sources:
            return True
        owners = self.units.owners.get(node)
        return bool(owners) and owners[0].during == FORWARD


def _inputs_first(roots: Iterable[Node], leaves: Collection[Node]) -> list[Node]:
    """The roots and what they are computed from, down to the leaves; inputs before users."""
    order: dict[Node, None] = {}
    stack = [(root, False) for root in roots]
    while stack:
        node, is_after = stack.pop()
        if is_after or node in leaves:
            order.setdefault(node)
        elif node not in order:
            stack.append((node, True))
            stack.extend((one, False) for one in node.inputs)
    return [*order]
