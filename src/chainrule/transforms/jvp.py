"""Forward mode: computes tangents of all nodes from tangents of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.graph.node import Node, stamp
from chainrule.primitives.arithmetic import add
from chainrule.primitives.primitive import Explicit, Joint, Linear, Multilinear, Partials
from chainrule.primitives.sources import full_like
from chainrule.transforms.selected import Selections


def push(
    nodes: Iterable[Node],
    tangents: Mapping[Node, Node],
    transform: str = "jvp",
    selections: Selections | None = None,
) -> dict[Node, Node]:
    """The tangent of every node (given in topological order) that has one, from `tangents`.

    Nodes without an entry have tangent zero.  `selections` has what is known of those given.
    """
    found: dict[Node, Node] = dict(tangents)
    ordered = list(nodes)
    unused = _steering_alone(ordered)
    selections = Selections(forward=True) if selections is None else selections
    for node in ordered:
        if node in found or node in unused or not node.type.is_float:
            continue
        incoming = [found.get(parent) for parent in node.inputs]
        if all(tangent is None for tangent in incoming):
            continue
        value = _tangent(node, incoming, selections)
        if value is not None:
            stamp((value,), node.origin.derived(transform, node))
            found[node] = value
    return found


def _steering_alone(nodes: list[Node]) -> set[Node]:
    """The nodes that all their users read where no derivative flows: a function inside one that
    has a rule of its own need not be differentiable."""
    if not any(isinstance(n.primitive.derivative, Joint) for n in nodes):
        return set()
    steering: set[Node] = set()
    flowing: set[Node] = set()
    for node in reversed(nodes):
        derivative = node.primitive.derivative
        steers = derivative.steers if isinstance(derivative, Joint) else ()
        for place, parent in enumerate(node.inputs):
            read_only = place in steers or (node in steering and node not in flowing)
            (steering if read_only else flowing).add(parent)
    return steering - flowing


def _tangent(node: Node, tangents: list[Node | None], selections: Selections) -> Any:
    """The tangent of a node from its inputs' tangents (None for zero); None if it is zero."""
    inputs = node.inputs
    live = [(i, dx) for i, dx in enumerate(tangents) if dx is not None]
    parts: list[Any] = []
    match node.primitive.derivative:
        case Partials(partials):
            for i, dx in live:
                partial = partials[i]
                if partial is not None:
                    parts.append(selections.passed(node, i, dx, partial(node, *inputs) * dx))
        case Linear() as linear:
            if not any(linear.transpose(i) is not None for i, _ in live):
                return None
            operands = [
                parent if linear.transpose(i) is None else _or_zero(tangents[i], parent)
                for i, parent in enumerate(inputs)
            ]
            value = node.primitive(*operands, **dict(node.params))
            return selections.joined(node, tangents, value)
        case Multilinear():
            for i, dx in live:
                replaced = [*inputs[:i], dx, *inputs[i + 1 :]]
                value = node.primitive(*replaced, **dict(node.params))
                parts.append(selections.passed(node, i, dx, value))
        case Explicit(rules, _):
            for i, dx in live:
                rule = rules[i]
                if rule is not None:
                    parts.append(selections.passed(node, i, dx, rule(dx, node, *inputs)))
        case Joint(rule, _) as joint:
            more = {"selections": selections} if joint.selects else {}
            return rule(tuple(tangents), node, *inputs, **more)
        case _:
            return None
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    if len(parts) > 1:
        selections.follow(parts, total)
        # Of a maximum one or the other is always selected, if both operands are.
        if any(selections.of(dx) is not None for _, dx in live):
            selections.added(parts, total)
    return total


def _or_zero(tangent: Node | None, parent: Node) -> Node:
    return full_like(parent, 0) if tangent is None else tangent
