"""Names values in formulas: a pass uses its own names and earlier ones, not later ones.

A value that an earlier pass needs may be the gradient of something: that of b in c * b is c, in
b's shape.  If it has no name of its own, formulas of the earlier pass write it out, as if it were
no gradient; from the pass on in which the gradient belongs, it has the gradient's name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from chainrule.explain.reading.statements import FORWARD, Direction, Pass, Reading
from chainrule.explain.reading.symbols import parted
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.primitives.sources import full
from chainrule.transforms.backward import gradient_name


class Names:
    """The names of one graph's values, by pass; `reading` has no statement with a late name.

    `local` are names of derivatives ∂s/∂W that stand in the chain rule of others (see `local`).
    """

    def __init__(self, graph: Graph, local: Collection[str] = ()) -> None:
        self.graph, self.local = graph, local
        self.gradients: Mapping[str, Gradient] = _by_name(graph)
        self.gradient_names = {(one.of, one.wrt): name for name, one in self.gradients.items()}
        self._orders = self._orders_of_targets()
        self._levels = self._earliest()
        self.late = self._late()
        self.only_gradients = frozenset(
            one.value
            for one in graph.gradients
            if self._is_gradients(graph.name_of.get(one.value, ""))
        )
        self._readings: dict[int, Reading] = {}
        self.reading = self._reading(0)
        self._said = self._first_said()
        self._said_until: dict[float, Mapping[Node, str]] = {}

    def said(self, during: Pass) -> Mapping[Node, str]:
        """The names by which formulas of a pass call nodes; '' or none where they are written out.

        In the passes after all gradients, every name is said.
        """
        is_any = during.direction not in (Direction.FORWARD, Direction.BACKWARD)
        order = math.inf if is_any else during.order
        if order not in self._said_until:
            unsaid = {node for node, late in self.late.items() if late > order}
            if during != FORWARD:  # zeros that derivatives begin with are not what the user named
                unsaid |= self.zeros
            said = {node: name for node, name in self._said.items() if node not in unsaid}
            self._said_until[order] = said if unsaid else self._said
        return self._said_until[order]

    def is_said(self, node: Node) -> bool:
        """Whether formulas of some pass call the node by a name."""
        return bool(self._said.get(node))

    def is_doubtful(self, gradient: Node, name: str) -> bool:
        """Whether a gradient, meant by this name, is said by another, or is something else, too."""
        is_else = gradient in self.late or gradient.primitive is full
        return is_else or self._said.get(gradient) != name

    def order(self, gradient: Gradient) -> int:
        """1 for a gradient of a value, 2 for one of a gradient or tangent, and so on."""
        return self._orders[gradient.of]

    def is_made_for(self, gradient: Gradient) -> bool:
        """Whether the gradient's value is computed for gradients only, and for no earlier pass."""
        return self._levels.get(gradient.value) == self.order(gradient)

    def is_forward(self, node: Node) -> bool:
        """Whether the forward pass needs the node."""
        return self._levels.get(node) == 0

    def before(self, gradient: Gradient) -> Reading:
        """The statements that a gradient goes back through: those of the passes before its own."""
        return self._reading(self.order(gradient) - 1)

    def _reading(self, order: int) -> Reading:
        """The statements, with the late names that may be said in the backward pass `order`."""
        if order not in self._readings:
            unsaid = {node for node, late in self.late.items() if late > order}
            names = self.graph.name_of
            if unsaid:
                names = {node: name for node, name in names.items() if node not in unsaid}
            same = (one for one in self._readings.values() if len(one.names) == len(names))
            self._readings[order] = next(same, None) or Reading(self.graph, names)
        return self._readings[order]

    def _orders_of_targets(self) -> dict[str, int]:
        """By what is differentiated."""
        orders: dict[str, int] = {}
        for one in self.graph.gradients:
            if one.of not in orders:
                target = self.graph.names.get(one.of)
                is_tangent = target is not None and target.origin.transform == "jvp"
                inner = self.gradients.get(one.of)
                orders[one.of] = (
                    2 if is_tangent else 1 if inner is None else orders.get(inner.of, 1) + 1
                )
        return orders

    def _is_gradients(self, name: str) -> bool:
        return name in self.gradients or parted(name) is not None

    def _earliest(self) -> dict[Node, int]:
        """The first pass that needs a node: 0 is forward, 1 backward, ..."""
        found = {node: 0 for node in self.graph.nodes if not node.origin.transform}
        found |= {item.node: 0 for item in self.graph.inputs}
        for one in self.graph.gradients:
            found[one.value] = min(found.get(one.value, self.order(one)), self.order(one))
        for node in reversed(self.graph.nodes):
            level = found.get(node)
            if level is not None:
                for parent in node.inputs:
                    found[parent] = min(found.get(parent, level), level)
        return found

    def _late(self) -> dict[Node, int]:
        """Nodes whose only names are gradients', of a later pass than the one that needs them."""
        orders: dict[Node, int] = {}
        for one in self.graph.gradients:
            orders[one.value] = min(orders.get(one.value, self.order(one)), self.order(one))
        return {
            node: order
            for node, order in orders.items()
            if self._levels[node] < order and self._is_gradients(self.graph.name_of.get(node, ""))
        }

    def _first_said(self) -> dict[Node, str]:
        """Of gradients that are equal, the name of the one that stands first: ∂J/∂o, not ∂J/∂b.

        What has a name of its own keeps it: w stays w where it is the gradient of something.
        """
        found, ranks = {**self.reading.sources, **self.graph.name_of}, self.ranks
        for name, node in self.graph.names.items():
            if name in ranks and found[node] in ranks and ranks[name] < ranks[found[node]]:
                found[node] = name
        return found

    @cached_property
    def zeros(self) -> frozenset[Node]:
        """Arrays of zeros that have a name of their own: derivatives begin with the same."""
        return frozenset(
            node
            for node, name in self._said.items()
            if name and node.primitive is full and node.ndim and node.param("value") == 0
        )

    @cached_property
    def only_intermediate(self) -> frozenset[Node]:
        """Of the nodes whose names are gradients' only, those that are no input's gradient."""
        inputs = {item.node for item in self.graph.inputs}
        return self.only_gradients - {
            one.value for one in self.graph.gradients if one.wrt in inputs
        }

    @cached_property
    def ranks(self) -> Mapping[str, tuple[int, int, bool, int, int]]:
        """Where a gradient stands among all, by its name: pass by pass as the book has them.

        First those of the values that are used last; of the values that one statement reads, inputs
        before computed values.  A local derivative ∂s/∂W follows ∂J/∂s.
        """
        places = {node: place for place, node in enumerate(self.graph.nodes)}
        found: dict[str, tuple[int, int, bool, int, int]] = {}
        for name, gradient in self.gradients.items():
            reading = self.before(gradient)
            consumers = (reading.statement_of.get(term.consumer) for term in gradient.terms)
            first = min((places[one.value] for one in consumers if one), default=-1)
            is_computed = gradient.wrt not in reading.sources
            found[name] = (self.order(gradient), -first, is_computed, places[gradient.wrt], -1)
        for name in self.local:
            gradient = self.gradients[name]
            through = self.graph.names[gradient.of]
            above = (key for (_, wrt), key in self.gradient_names.items() if wrt is through)
            first = min(found[key][:-1] for key in above)
            found[name] = (*first, places[gradient.wrt])
        return found


def _by_name(graph: Graph) -> dict[str, Gradient]:
    """The gradients of named values by the names that `backward` gives them."""
    found: dict[str, Gradient] = {}
    for gradient in graph.gradients:
        variable = graph.name_of.get(gradient.wrt)
        if variable is not None:
            name = gradient_name(gradient.of, variable)
            if graph.names.get(name) is gradient.value:
                found[name] = gradient
    return found
