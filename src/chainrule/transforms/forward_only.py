"""Makes graphs for evaluation and prediction: forward only, without dropout."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.errors import InputError
from chainrule.graph.body import inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import Scope
from chainrule.graph.rebuild import substituted
from chainrule.primitives.logic import cast

DROPOUT = "dropout"  # the symbol of the composite


def prediction_graph(graph: Graph, names: Sequence[str]) -> Graph:
    """What `names` need of a graph, and nothing else: other inputs (labels) are left out."""
    for name in names:
        if name not in graph:
            raise graph.unknown_name(name)
    outputs = tuple((name, graph[name]) for name in names)
    needed = set(topological(node for _, node in outputs))
    inputs = tuple(item for item in graph.inputs if item.node in needed)
    if not needed:
        raise InputError("no value was chosen to predict", hint='predict="o", or a list of names')
    return graph.replace(
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(node for node in graph.nodes if node in needed),
        names={name: node for name, node in graph.names.items() if node in needed},
        gradients=(),
        unreached=(),
        structures={},
        result=None,
    )


def evaluation_graph(graph: Graph, names: Sequence[str]) -> Graph:
    """The named values of a graph and what they need, each dropout replaced by what it is given.

    Inputs that nothing needs any more are left out, and containers of inputs are taken apart.
    NameLookupError for a name that the graph does not have.
    """
    pruned = prediction_graph(graph, names)
    return prediction_graph(_without_dropout(pruned), names)


def predicting_graph(graph: Graph, names: Sequence[str]) -> Graph:
    """As `evaluation_graph`, with the dropout of loops and branches, which cannot be left out."""
    try:
        return evaluation_graph(graph, names)
    except InputError:
        return prediction_graph(graph, names)


def _without_dropout(graph: Graph) -> Graph:
    kept = _dropped(graph)
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in kept:
            array = new[kept[node]]
            same = array.type == node.type
            new[node] = array if same else cast(array, dtype=node.dtype, weak=False)
            continue
        inputs = tuple(new[one] for one in node.inputs)
        changed = inputs != node.inputs
        new[node] = node.with_inputs(inputs) if changed else node
    made = substituted(graph, new, tuple(dict.fromkeys(new.values())))
    left = prediction_graph(made, [name for name, _ in made.outputs])
    for node in inner_nodes(left):
        if any(map(_is_dropout, node.origin.scopes)):
            raise InputError(
                f"the dropout in {graph.name} cannot be taken out for evaluation: it is inside "
                "of a loop or a branch",
                where=node.origin.describe(),
                hint="draw the mask before the loop (cr.dropout of ones), and multiply by it in a "
                "step; for evaluation give an objective without dropout",
            )
    for node in left.nodes:
        if any(map(_is_dropout, node.origin.scopes)):
            raise InputError(
                f"the dropout in {graph.name} cannot be taken out for evaluation: its call is no "
                "longer to be seen in a graph that was transformed",
                where=node.origin.describe(),
                hint="give the objective as a function, or as cr.trace gives it",
            )
    return left


def _dropped(graph: Graph) -> dict[Node, Node]:
    """The results of the calls of dropout, and which array each was given."""
    present, found = set(graph.nodes), {}
    for node in graph.nodes:
        for scope in filter(_is_dropout, node.origin.scopes):
            given = dict(scope.arguments).get("x")
            if len(scope.result) == 1 and isinstance(given, Node) and given in present:
                found[scope.result[0]] = given
    return found


def _is_dropout(scope: Scope) -> bool:
    return scope.symbol == DROPOUT
