"""Bytes and values in words."""

from __future__ import annotations

from chainrule.control.wording import in_words
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.formula import operand_text
from chainrule.primitives.products import PRODUCTS

UNITS = ("KiB", "MiB", "GiB", "TiB")


def in_bytes(nbytes: int) -> str:
    """`40 bytes`, `256 KiB`, `1.5 GiB`: three digits, in powers of 1024."""
    if nbytes < 1024:
        return f"{nbytes} byte{'s' if nbytes != 1 else ''}"
    place = 1
    while place < len(UNITS) and nbytes >= 999.5 * 1024**place:
        place += 1
    value = nbytes / 1024**place
    text = f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
    return f"{text} {UNITS[place - 1]}"


def expression(graph: Graph, node: Node) -> str:
    """How a value is computed: `dJ/dW2 = hᵀ · dJ/do`, `dJ/dz = where(...)`, `the loop over f`."""
    name = graph.name_of.get(node)
    names = graph.name_of

    def word(one: Node) -> str:
        return names.get(one, "...")

    operands = [operand_text(one, word, names) for one in node.inputs]
    if holds_bodies(node):
        found = in_words(node)
    elif node.primitive in PRODUCTS:
        found = " · ".join(one.replace("^T", "ᵀ") for one in operands)
    else:
        found = f"{node.primitive.name}({', '.join(operands)})"
    return f"{name} = {found}" if name else found
