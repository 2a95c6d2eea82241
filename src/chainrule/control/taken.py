"""In a batch, ends the loops of branches that an example does not take, without an error.

A batch computes both branches of a choice, and iterations of loops that have ended for some
examples. There a loop with a bound may go on beyond it, and one without for ever: nobody wants its
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chainrule.control.bodies import body_of
from chainrule.control.cost import COND, SCAN, WHILE
from chainrule.graph.body import Body, bodies_of, holds_bodies
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.primitives.families import BOOL
from chainrule.primitives.logic import logical_and
from chainrule.primitives.sources import input_


def only_taken(taken: Node, nodes: Iterable[Node]) -> dict[Node, Node]:
    """For each of the nodes (in topological order) that it changes, the one that ends, and without
    an error, where the boolean `taken` does not hold."""
    new: dict[Node, Node] = {}
    for node in nodes:
        operands = tuple([new.get(parent, parent) for parent in node.inputs])
        params = node.params
        if _may_go_on(node):
            place = 1 if node.primitive.kernel is COND else 0
            operands = (*operands[:place], taken, *operands[place:])
            params = tuple([(key, _with_taken(key, value)) for key, value in params])
        if operands != node.inputs:
            new[node] = type(node)(node.primitive, operands, params, node.type, node.origin)
    return new


def _may_go_on(node: Node) -> bool:
    """Whether it holds a loop that ends by a condition."""
    if not holds_bodies(node) or node.primitive.kernel not in (SCAN, COND, WHILE):
        return False
    if node.primitive.kernel is WHILE:
        return True
    inner = [one for body in bodies_of(node) for one in body.graph.nodes]
    return any(map(_may_go_on, inner))


def _with_taken(key: str, value: Any) -> Any:
    """A parameter of a node that gets `taken` as its first constant."""
    if key == "constants":
        return value + 1
    if not isinstance(value, Body):
        return value
    graph = value.graph
    taken: Any = input_(index=-1, type=array_type(BOOL, ()))
    new = only_taken(taken, graph.nodes)
    results: Sequence[tuple[str, Any]] = [(name, new.get(x, x)) for name, x in graph.outputs]
    if key == "condition":
        results = [(name, logical_and(taken, holds)) for name, holds in results]
    inputs = [("taken", taken), *((item.name, item.node) for item in graph.inputs)]
    names = {name: new.get(x, x) for name, x in graph.names.items()}
    return body_of(graph.name, inputs, results, names)
