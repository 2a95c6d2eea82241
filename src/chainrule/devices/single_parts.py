"""Lets gradients be their own sums where a rank works on one part of a batch alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from chainrule.devices.parts import Parts
from chainrule.devices.pieces import is_everywhere
from chainrule.devices.tensor.collectives import is_collective
from chainrule.graph.node import topological
from chainrule.primitives.arithmetic import add
from chainrule.primitives.sources import input_


def without_sums(parts: Parts) -> Parts:
    """The parts in which what follows a sum is the gradient itself, rather than 0 and the gradient.

    That is so for gradients which the backward pass computes for this sum, and for nothing else;
    others, such as those that are constant, are added to 0 as before.
    """
    graph = parts.summing
    names = dict(graph.names)
    readers = Counter(one for node in graph.nodes for one in node.inputs)
    others = {*topological([names[parts.objective]]), *is_everywhere(graph.nodes)}
    changed = {}
    for name, then in parts.sums.items():
        total = names[then]
        if total.primitive is not add or total.inputs[0] is not names[name]:
            continue
        gradient = total.inputs[1]
        alone = readers[gradient] == 1 and gradient not in others
        if alone and gradient.primitive is not input_ and not is_collective(gradient):
            changed[total] = gradient
    if not changed:
        return parts
    names = {name: changed.get(node, node) for name, node in names.items()}
    outputs = tuple((name, changed.get(node, node)) for name, node in graph.outputs)
    nodes = tuple(node for node in graph.nodes if node not in changed)
    return replace(parts, summing=graph.replace(nodes=nodes, outputs=outputs, names=names))
