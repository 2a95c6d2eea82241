"""Loops and choices, which hold graphs: what one repeats, how often, its equations, its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.control import unwind
from chainrule.control.wording import body_in_words
from chainrule.explain.equations import Equation, Equations
from chainrule.explain.reading.bodies import is_loop_or_choice, results
from chainrule.explain.report.plain import lines, size, text
from chainrule.graph.body import bodies_of, inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def loops_of(
    graph: Graph, written: Graph, equations: Equations, ids: Mapping[Node, int]
) -> dict[Node, dict[str, Any]]:
    """The `loop` of each value of `ids` that is a result of a loop or a choice.

    `equations` are those of `written`, which is `graph` with its named sizes.
    """
    every = results(graph)
    found = {node: one for node, one in every.items() if node in ids}
    siblings: dict[Node, dict[int, int]] = {}
    for node, one in found.items():
        siblings.setdefault(one.holder, {})[one.place] = ids[node]
    shown = dict(zip(written.nodes, graph.nodes, strict=True))
    said: dict[Node, list[Equation]] = {}
    for one, holder in of_bodies(equations, written).items():
        said.setdefault(shown[holder], []).append(one)
    loops: dict[Node, dict[str, Any]] = {}
    for holder, places in siblings.items():
        before = dict.fromkeys(every[one].holder for one in holder.inputs if one in every)
        reads = [min(siblings[one].items())[1] for one in before if one in siblings]
        given = [at for _, at in sorted(places.items())]
        loops[holder] = _loop(holder, said.get(holder, []), given, reads)
    return {node: loops[one.holder] for node, one in found.items()}


def first_results(graph: Graph, ids: Mapping[str, int]) -> dict[Node, int]:
    """For each loop or choice the first of its results that have names."""
    found = results(graph)
    named = {
        found[node]: at for name, at in ids.items() if (node := graph.names.get(name)) in found
    }
    first: dict[Node, int] = {}
    for one in sorted(named, key=lambda result: result.place):
        first.setdefault(one.holder, named[one])
    return first


def of_bodies(equations: Equations, graph: Graph) -> dict[Equation, Node]:
    """The equations of what loops and choices hold, and the node of the graph that holds it."""
    holders: dict[Node, Node] = {}
    for holder in filter(is_loop_or_choice, graph.nodes):
        for body in bodies_of(holder):
            for node in (*body.graph.nodes, *inner_nodes(body.graph)):
                holders.setdefault(node, holder)
    return {one: holders[one.node] for one in equations if one.node in holders}


def _loop(holder: Node, said: list[Equation], ids: list[int], reads: list[int]) -> dict[str, Any]:
    params = dict(holder.params)
    length = params.get("length")
    is_back = holder.primitive is unwind
    return {
        "operation": "while" if is_back else holder.primitive.name.rstrip("_"),
        "bodies": [text(body_in_words(body)) for body in list(bodies_of(holder))[:2]],
        "length": None if length is None else size(length),
        "limit": params.get("limit"),
        "reverse": True if is_back else params.get("reverse"),
        "latex": [one.latex() for one in said],
        "text": "\n".join(lines(str(one)) for one in said),
        "results": ids,
        "reads": reads,
    }
