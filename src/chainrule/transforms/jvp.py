"""Forward mode: from tangents of inputs to tangents of everything that depends on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.graph.node import Node, stamp
from chainrule.primitives.arithmetic import add
from chainrule.primitives.primitive import Explicit, Joint, Linear, Multilinear, Partials
from chainrule.primitives.sources import full_like


def push(
    nodes: Iterable[Node], tangents: Mapping[Node, Node], transform: str = "jvp"
) -> dict[Node, Node]:
    """The tangent of every node (given in topological order) that has one, from `tangents`.

    Nodes without an entry have tangent zero.
    """
    found: dict[Node, Node] = dict(tangents)
    for node in nodes:
        if node in found or not node.type.is_float:
            continue
        incoming = [found.get(parent) for parent in node.inputs]
        if all(tangent is None for tangent in incoming):
            continue
        value = node_tangent(node, incoming)
        if value is not None:
            stamp((value,), node.origin.derived(transform, node))
            found[node] = value
    return found


def node_tangent(node: Node, tangents: list[Node | None]) -> Any:
    """The tangent of a node from its inputs' tangents (None for zero); None if it is zero."""
    inputs = node.inputs
    live = [(i, dx) for i, dx in enumerate(tangents) if dx is not None]
    parts: list[Any] = []
    match node.primitive.derivative:
        case Partials(partials):
            for i, dx in live:
                partial = partials[i]
                if partial is not None:
                    parts.append(partial(node, *inputs) * dx)
        case Linear() as linear:
            if any(linear.transpose(i) is not None for i, _ in live):
                operands = [
                    parent if linear.transpose(i) is None else _or_zero(tangents[i], parent)
                    for i, parent in enumerate(inputs)
                ]
                parts.append(node.primitive(*operands, **dict(node.params)))
        case Multilinear():
            for i, dx in live:
                replaced = [*inputs[:i], dx, *inputs[i + 1 :]]
                parts.append(node.primitive(*replaced, **dict(node.params)))
        case Explicit(rules, _):
            for i, dx in live:
                rule = rules[i]
                if rule is not None:
                    parts.append(rule(dx, node, *inputs))
        case Joint(rule, _):
            return rule(tuple(tangents), node, *inputs)
        case _:
            return None
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total


def _or_zero(tangent: Node | None, parent: Node) -> Node:
    return full_like(parent, 0) if tangent is None else tangent
