"""Writes second derivatives of elementwise functions: that of ∂J/∂h ⊙ φ′(z) has φ″(z)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from chainrule.dataclass import dataclass
from chainrule.explain.equations.formula import Unit
from chainrule.explain.equations.functions import Functions
from chainrule.explain.reading.statements import GENERATED
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node, topological
from chainrule.graph.parts import Gradient


@dataclass(frozen=True, eq=False)
class Block:
    """The nodes that compute `values`, whose sum is the `upstream` gradient times φ′(z).

    `upstream` is None where it is the number 1 that is no longer there.
    """

    unit: Unit
    variable: Node
    upstream: Node | None
    values: tuple[Node, ...]
    members: frozenset[Node]


class Curvatures:
    """The blocks of a graph, and which gradients go back through them."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self._answers: dict[tuple[Block, str], bool] = {}

    def block(self, gradient: Gradient, consumer: Node) -> Block | None:
        """The block through which a gradient of second order comes from a consumer, if any."""
        for block in self._blocks.get(consumer, ()):
            is_by = gradient.wrt in (block.variable, block.upstream)
            if is_by and self._is_closed(block, gradient.of):
                return block
        return None

    @cached_property
    def _blocks(self) -> Mapping[Node, list[Block]]:
        """By their nodes and those of their units."""
        found: dict[Node, list[Block]] = {}
        for block in self._all():
            for node in (*block.unit.members, *block.members):
                found.setdefault(node, []).append(block)
        return found

    def _all(self) -> Iterator[Block]:
        functions = self.functions
        for gradient in filter(functions.has_units, functions.reading.graph.gradients):
            for unit, values in functions.groups(gradient).items():
                if unit.variables != (gradient.wrt,):
                    continue
                if functions.is_elementwise(unit, gradient.wrt):
                    upstream = functions.upstream(gradient.of, unit)
                    if len(values) == len(gradient.terms):
                        values = [gradient.value]
                    members = _between(values, {upstream, gradient.wrt, *unit.members})
                    if members and len(set(values)) == len(values):  # or one counts twice
                        yield Block(unit, gradient.wrt, upstream, tuple(values), members)

    def _is_closed(self, block: Block, of: str) -> bool:
        """Whether `of` depends on what is inside only through the function and its derivative."""
        if (block, of) not in self._answers:
            self._answers[block, of] = self._looked_at(block, of)
        return self._answers[block, of]

    def _looked_at(self, block: Block, of: str) -> bool:
        gradients, unit = self.functions.gradients, block.unit
        above = {gradients[of, one].value for one in block.values if (of, one) in gradients}
        if len(above) != 1 or any((of, one) not in gradients for one in block.values):
            return False
        inside = unit.members | block.members
        for node in inside.difference(block.values, (unit.result,)):
            gradient = gradients.get((of, node))
            if gradient is not None and any(one.consumer not in inside for one in gradient.terms):
                return False
        result = gradients.get((of, unit.result))
        if result is None:  # or what is left of it is part of another value
            return not self._has_other_readers(of, unit.result, inside)
        return all(one.consumer not in block.members for one in result.terms)

    def _has_other_readers(self, of: str, node: Node, inside: Collection[Node]) -> bool:
        """Whether a node that is not inside reads this one on the way to `of`."""
        graph = self.functions.reading.graph
        return any(node in one.inputs and one not in inside for one in topological([graph[of]]))


def _between(values: Collection[Node], ends: set[Node | None]) -> frozenset[Node]:
    """The nodes that compute values from the `ends`; none where that takes others, too."""
    found, stack = set(values), [*values]
    while stack:
        for node in stack.pop().inputs:
            if node in ends or node in found:
                continue
            if not node.inputs and node.primitive not in GENERATED:
                return frozenset()
            found.add(node)
            stack.append(node)
    return frozenset(found)
