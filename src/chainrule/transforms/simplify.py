"""Applies the rewrite rules until none applies, to clean up what derivative rules leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chainrule.graph.body import with_bodies
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check, refuse_no_graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.rebuild import resting_on
from chainrule.primitives.arithmetic import identity
from chainrule.tracebacks import entry
from chainrule.transforms.rules import RULES_BY_ROOT


@entry
@without_collector
def simplify(graph: Graph, frozen: Iterable[Node] = ()) -> Graph:
    """The graph after all rewrite rules; nodes in `frozen`, and nodes without a rule, stay.

    Idempotent.  Values differ by at most 2 ulp for each scalar factor that was reassociated;
    x·0 stays (it may be NaN).
    """
    refuse_no_graph(graph, "cr.simplify(cr.trace(objective))")
    new = _simplified(graph.nodes, set(frozen))
    changed = {old: node for old, node in new.items() if old is not node}
    if not changed:
        return graph
    return check(resting_on(graph, changed))  # without what rewriting left unused


def simplified(nodes: Iterable[Node], frozen: Iterable[Node] = ()) -> dict[Node, Node]:
    """For each node (in topological order) its simplified form.

    The variables of derivatives that are still being taken (`identity` nodes) stay what they are:
    what was computed of one of them would no longer depend on it.
    """
    several = list(nodes)
    return _simplified(several, {*frozen, *variables(several)})


def variables(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that stand for what a derivative is taken with respect to."""
    return (node for node in nodes if node.primitive is identity)


def _simplified(nodes: Iterable[Node], settled: set[Node]) -> dict[Node, Node]:
    new: dict[Node, Node] = {}
    for node in nodes:
        if node in settled:
            new[node] = node
            continue
        inputs = node.inputs
        for parent in inputs:
            if new[parent] is not parent:
                inputs = tuple([new[parent] for parent in inputs])
                node_now = node.with_inputs(inputs)
                break
        else:
            node_now = node
        node_now = with_bodies(node_now, "simplified", simplify)
        new[node] = _rewrite(node_now, settled) if node.primitive in RULES_BY_ROOT else node_now
        settled.add(new[node])
    return new


def _rewrite(node: Node, settled: set[Node]) -> Node:
    """The node after its rules, again and again; what a rule built anew is settled inside out."""
    applied = True
    while applied:
        applied = False
        for rule in RULES_BY_ROOT.get(node.primitive, ()):
            after = rule.after(node)
            if after is None or after.type != node.type:
                continue
            stamp((after,), node.origin)
            if after in settled:
                return after
            node, applied = _settle_inputs(after, settled), True
            break
    settled.add(node)
    return node


def _settle_inputs(node: Node, settled: set[Node]) -> Node:
    """The node with its new inputs rewritten; a rule's result is only a few nodes deep."""
    inputs = tuple(
        [
            parent if parent in settled else _rewrite(_settle_inputs(parent, settled), settled)
            for parent in node.inputs
        ]
    )
    if inputs == node.inputs:
        return node
    return node.with_inputs(inputs)
