"""Names values in sentences."""

from __future__ import annotations

from chainrule.control.wording import in_words
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.words import UNSAID, operation
from chainrule.plan.products.formula import operand_text
from chainrule.primitives.products import PRODUCTS


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
        found = operation(node, operand)
    return f"{name} = {found}" if name else found
