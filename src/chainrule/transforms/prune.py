"""Removes nodes that no output needs; `keep="named"` keeps named values, too."""

from __future__ import annotations

from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check, refuse_no_graph
from chainrule.graph.node import topological
from chainrule.graph.rebuild import substituted
from chainrule.tracebacks import entry


@entry
def prune(graph: Graph, keep: str | list[str] | tuple[str, ...] = "outputs") -> Graph:
    """The graph without nodes that nothing asked for needs; inputs stay.

    `keep="outputs"` drops named values that the outputs do not need, `keep="named"` only unnamed
    ones; a list of names keeps these beside the outputs.  InputError for another `keep`,
    NameLookupError for an unknown name.
    """
    refuse_no_graph(graph, "cr.prune(cr.trace(objective))")
    if isinstance(keep, str) and keep not in ("outputs", "named"):
        raise InputError(
            f'keep={keep!r} is neither "outputs" nor "named" nor a list of names',
            hint=f"keep=[{keep!r}]",
        )
    roots = [item.node for item in graph.inputs]
    roots += [node for _, node in graph.outputs]
    if keep == "named":
        roots += list(graph.names.values())
    elif not isinstance(keep, str):
        roots += [graph[name] for name in keep]
    needed = set(topological(roots))
    nodes = tuple(node for node in graph.nodes if node in needed)
    return check(substituted(graph, {}, nodes))
