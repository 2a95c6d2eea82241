"""The diagnosis of a loop or a choice: which turn of it, and which value in its body."""

from __future__ import annotations

from dataclasses import replace

from chainrule.explain.nonfinite.describe import Replay, diagnosis
from chainrule.explain.nonfinite.diagnosis import Diagnosis
from chainrule.explain.nonfinite.phrases import Names
from chainrule.explain.nonfinite.trail import Trail
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def with_inside(found: Diagnosis, node: Node, trail: Trail, replay: Replay) -> Diagnosis:
    """What is told of the first fault in the node, of whose result `found` is the diagnosis;
    `found` itself of a node that is no loop and no choice."""
    around = {**replay.around, **_names_within(replay.traced)} if trail.inside else {}
    while node in trail.inside:
        inside = trail.inside[node]
        body = inside.turn.body.graph
        own = replace(replay, traced=body, graph=body, inputs=inside.given, around=around)
        inner = diagnosis(inside.fault, inside.trail, own)
        found = replace(
            inner,
            graph=found.graph,
            phase=found.phase,
            forward=found.forward,
            inside=(*found.inside, inside.turn.said),
            poisoned=(*inner.poisoned, *found.poisoned),
        )
        node, trail = inside.fault.node, inside.trail
    return found


def _names_within(graph: Graph) -> Names:
    """The names of the nodes in all bodies of a graph, of which origins in its derivative know."""
    names: dict[Node, str] = {}
    pending = [graph]
    while pending:
        one = pending.pop()
        names.update(one.name_of)
        pending += [body.graph for node in one.nodes for body in bodies_of(node)]
    return names
