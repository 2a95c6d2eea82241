"""Diagnoses a loop or a choice: finds the iteration or branch, and the value in its body."""

from __future__ import annotations

from dataclasses import replace

from chainrule.explain.nonfinite.describe import Replay, diagnosis
from chainrule.explain.nonfinite.diagnosis import Diagnosis
from chainrule.explain.nonfinite.fault import Fault
from chainrule.explain.nonfinite.phrases import Names
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def with_inside(found: Diagnosis, fault: Fault, replay: Replay) -> Diagnosis:
    """What is told of the first fault in a turn, of which `fault` is the whole, and `found` its
    diagnosis; `found` itself where the fault is in no loop and no choice."""
    around = {**replay.around, **names_within(replay.traced)} if fault.inside else {}
    while fault.inside is not None:
        inside = fault.inside
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
        fault = inside.fault
    return found


def names_within(graph: Graph) -> Names:
    """The names of the nodes in all bodies of a graph, of which origins in its derivative know."""
    names: dict[Node, str] = {}
    pending = [graph]
    while pending:
        one = pending.pop()
        names.update(one.name_of)
        pending += [body.graph for node in one.nodes for body in bodies_of(node)]
    return names
