"""Loops and choices, which hold graphs: what one repeats, how often, its equations, its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.control import unwind
from chainrule.control.replay import carried
from chainrule.control.wording import body_in_words, gives_derivatives
from chainrule.explain.equations import Equation, Equations
from chainrule.explain.reading.bodies import is_loop_or_choice, results
from chainrule.explain.report.plain import lines as lines_of
from chainrule.explain.report.plain import size, text
from chainrule.explain.report.sources import Sources
from chainrule.graph.body import bodies_of, inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST_INSIDE = 200  # names of what one loop computes


def loops_of(
    graph: Graph,
    written: Graph,
    equations: Equations,
    ids: Mapping[Node, int],
    sources: Sources,
) -> dict[Node, dict[str, Any]]:
    """The `loop` of each value of `ids` that is a result of a loop or a choice.

    `equations` are those of `written`, which is `graph` with its named sizes; `sources` are asked
    for the lines of what loops compute.
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
        loops[holder]["inside"] = _inside(holder, sources)
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


def _inside(holder: Node, sources: Sources) -> list[dict[str, Any]]:
    """The names that the user's functions give to what they compute, with their lines; then the
    lines on which nothing has a name.

    The state that an iteration leaves has the name of the one that it begins with.
    """
    found: dict[str, Any] = {}
    lines: dict[tuple[int, int], Any] = {}
    bodies = list(bodies_of(holder))
    if any(map(gives_derivatives, bodies)):
        return []
    repeated = dict(holder.params).get("body")
    for body in bodies:
        names = {node: name for name, node in body.graph.names.items() if node.inputs}
        if body is repeated:
            constants, carries = carried(holder)
            states = body.graph.inputs[constants : constants + carries]
            for state, (_, after) in zip(states, body.graph.outputs, strict=False):
                if after in names:
                    names[after] = state.name
        for node, name in names.items():
            found.setdefault(name, sources.place(node.origin))
        for place in [sources.place(node.origin) for node in body.graph.nodes if node.inputs]:
            if place is not None:
                lines.setdefault((place["file"], place["line"]), place)
    for place in filter(None, found.values()):
        lines.pop((place["file"], place["line"]), None)
    few = [*found.items(), *(("", place) for place in lines.values())][:MOST_INSIDE]
    return [{"name": text(name), "source": place} for name, place in few]


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
        "text": "\n".join(lines_of(str(one)) for one in said),
        "results": ids,
        "reads": reads,
    }
