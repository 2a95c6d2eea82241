"""Reverse mode: computes cotangents of all nodes from cotangents of outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.graph.node import Node, stamp
from chainrule.graph.parts import Term
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import Explicit, Flat, Joint, Linear, Multilinear, Partials
from chainrule.primitives.sources import full_like
from chainrule.transforms.selected import Selections


def depends_on(nodes: Iterable[Node], wrt: Iterable[Node]) -> set[Node]:
    """The nodes (in topological order) through which a derivative with respect to `wrt` flows."""
    active = set(wrt)
    for node in nodes:
        if node in active or not node.type.is_float:
            continue
        if any(parent in active for parent in node.inputs) and not isinstance(
            node.primitive.derivative, Flat
        ):
            active.add(node)
    return active


def cotangent(node: Node, index: int, g: Any) -> Any:
    """What the `index`-th input of `node` gets from the node's cotangent g; None for nothing."""
    inputs = node.inputs
    match node.primitive.derivative:
        case Partials(partials):
            partial = partials[index]
            return None if partial is None else g * partial(node, *inputs)
        case Linear(_, variadic) as linear:
            rule = linear.transpose(index)
            if rule is None:
                return None
            return rule(index, g, node) if variadic else rule(g, node, *inputs)
        case Multilinear(transposes):
            return transposes[index](g, node, *inputs)
        case Explicit(_, cotangents):
            rule = cotangents[index]
            return None if rule is None else rule(g, node, *inputs)
        case Joint(_, cotangents):
            return cotangents(g, node, (index,), *inputs)[index]
        case _:
            return None


def _cotangents(
    node: Node, active: tuple[int, ...], g: Any, selections: Selections
) -> Iterable[tuple[int, Any]]:
    """(index, cotangent) of each input in `active` that gets something."""
    match node.primitive.derivative:
        case Joint(_, cotangents) as joint:
            more = {"selections": selections} if joint.selects else {}
            values = cotangents(g, node, active, *node.inputs, **more)
            found = ((index, values[index]) for index in active)
        case _:
            found = ((index, cotangent(node, index, g)) for index in active)
    return (pair for pair in found if pair[1] is not None)


def pull(
    nodes: Iterable[Node],
    seeds: Mapping[Node, Any],
    wrt: Iterable[Node],
    transform: str = "backward",
    selections: Selections | None = None,
) -> tuple[dict[Node, Node], dict[Node, tuple[Term, ...]]]:
    """Cotangents of every node between `wrt` and the seeded outputs, and their chain-rule terms.

    `nodes` are in topological order and hold the outputs; `seeds` gives each output's cotangent.
    Walks from the outputs, only along nodes that depend on `wrt`; contributions to one node are
    added in the order in which its consumers stand in the program.  `selections` has what is known
    of the seeds.
    """
    ordered = list(nodes)
    active = depends_on(ordered, wrt)
    parts: dict[Node, list[Node]] = {}
    terms: dict[Node, list[Term]] = {}
    for node, seed in seeds.items():
        parts.setdefault(node, []).append(seed)
    cotangents: dict[Node, Node] = {}
    selections = Selections() if selections is None else selections
    for node in reversed(ordered):
        contributions = parts.pop(node, None)
        if contributions is None or node not in active:
            continue
        contributions.reverse()  # the first consumer's part comes first, as textbooks write it
        total = contributions[0]
        origin = node.origin.derived(transform, node)
        if len(contributions) > 1 and not node.inputs and node in terms:  # not where it is given
            origin = terms[node][-1].consumer.origin.derived(transform, node)
        for part in contributions[1:]:
            total = add(total, part)
        if len(contributions) > 1:
            selections.added(contributions, total)
        stamp((total,), origin)
        cotangents[node] = total
        live = tuple([i for i, parent in enumerate(node.inputs) if parent in active])
        for index, value in _cotangents(node, live, total, selections):
            parent = node.inputs[index]
            value = selections.passed(node, index, total, value)
            if value.type is not parent.type and value.type.weak != parent.type.weak:
                part, value = value, cast(value, dtype=parent.type.dtype, weak=parent.type.weak)
                selections.moved(part, value)
            stamp((value,), origin)
            parts.setdefault(parent, []).append(value)
            terms.setdefault(parent, []).append(Term(node, index, value))
    return cotangents, {node: tuple(found[::-1]) for node, found in terms.items()}


def seed_one(node: Node, transform: str = "backward") -> Node:
    """The cotangent 1 of a scalar output."""
    one = full_like(node, 1)
    stamp((one,), node.origin.derived(transform, node))
    return one


def summed_seeds(nodes: Iterable[Node], seeds: Iterable[Node]) -> dict[Node, Node]:
    """The cotangent of each output; where outputs are one node, the sum of theirs."""
    found: dict[Node, Node] = {}
    for node, seed in zip(nodes, seeds, strict=True):
        found[node] = add(found[node], seed) if node in found else seed
    return found
