"""Names values in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.control.wording import in_words
from chainrule.explain.drawing.expressions import is_silent, short_expression
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.words import UNSAID, operation
from chainrule.plan.products.formula import operand_text
from chainrule.primitives.primitive import Map
from chainrule.primitives.products import PRODUCTS

LONGEST, DEEPEST = 60, 3  # characters and operations of an expression


def _short(node: Node, names: Mapping[Node, str]) -> str:
    """`xᵀ dJ/dz + weight_decay W1`: arithmetic as it is written; '' for what is not."""
    if not isinstance(node.primitive.kernel, Map) or len(node.inputs) > 2:
        return ""
    best = ""
    for depth in range(DEEPEST):
        text = short_expression(
            node, _inside(node, depth, names), lambda one: names.get(one, UNSAID), LONGEST
        )
        best = best if text is None else text
        if text is None or UNSAID not in text:
            break
    return best


def _inside(node: Node, depth: int, names: Mapping[Node, str]) -> set[Node]:
    """The node and the values without a name that it is made of, as many operations deep."""
    inside, stack = {node}, [(one, depth) for one in node.inputs]
    while stack:
        one, left = stack.pop()
        if one in names or not one.inputs or not (is_silent(one) or left > 0):
            continue
        inside.add(one)
        stack += [(parent, left if is_silent(one) else left - 1) for parent in one.inputs]
    return inside


def expression(graph: Graph, node: Node) -> str:
    """How a value is computed: `dJ/dW2 = hᵀ · dJ/do`, `dJ/dz = where(...)`, `the loop over f`."""
    name = graph.name_of.get(node)
    names = graph.name_of

    def operand(one: Node) -> str:
        return operand_text(one, lambda base: names.get(base, UNSAID), names)

    if holds_bodies(node):
        found = in_words(node)
    elif node.primitive in PRODUCTS:
        found = " · ".join(operand(one).replace("^T", "ᵀ") for one in node.inputs)
    else:
        found = _short(node, names) or operation(node, operand)
    return f"{name} = {found}" if name else found
