"""`zeros`: which elements of gradients are 0, why, and which units are dead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.execute.arguments import bound_to
from chainrule.execute.leaves import leaves_of
from chainrule.execute.reference import evaluate
from chainrule.execute.refusal import refuse_reference
from chainrule.explain.nonfinite.inside import names_within
from chainrule.explain.zeros.found import Zeros
from chainrule.explain.zeros.units import dead_units
from chainrule.explain.zeros.walk import Walker
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.transforms.backward import gradient_name


def zeros(
    graph: Graph, arguments: Mapping[str, Any], *, of: str | Iterable[str] | None = None
) -> Zeros:
    """Why elements of gradients are exactly 0 in a run, and which units are dead.

    `arguments` are those of `graph.run`.  From each gradient (or each value that `of` names) the
    walk goes back to the first factor that is 0: an operation that passes nothing back (a ReLU at
    a negative number), a forward value that is 0, an input, a constant.  It goes through the
    iterations of loops, and through the branch of a choice that was taken.  A unit is dead where a
    value is 0 for the whole batch: along all axes of named sizes, or the first axis without these.
    A unit of the last axis (or a channel of images) that is 0 at every place counts as one.
    The graph runs on the reference executor, and all values that the gradients need are kept.
    Raises what `graph.run` raises, and KeyError for a name that the graph lacks.
    """
    concrete, inputs = bound_to(graph, leaves_of(graph, arguments))
    wanted = _wanted(concrete, of)
    named = [node for node in concrete.names.values() if not node.origin.transform]
    kept = topological([*wanted.values(), *named])
    refuse_reference(concrete, kept, inputs)
    values = evaluate(concrete, inputs, kept, graph)
    walker = Walker(concrete, {**names_within(graph), **names_within(concrete)}, values)
    found = [walker.explained(name, node) for name, node in wanted.items()]
    return Zeros(
        graph.name,
        tuple(one for one in found if one.count),
        tuple(dead_units(graph, concrete, values)),
    )


def _wanted(graph: Graph, of: str | Iterable[str] | None) -> dict[str, Node]:
    if of is not None:
        return {name: graph[name] for name in ([of] if isinstance(of, str) else of)}
    made = {gradient_name(one.of, graph.name_of.get(one.wrt, "")): one for one in graph.gradients}
    return {name: one.value for name, one in made.items() if graph.names.get(name) is one.value}
