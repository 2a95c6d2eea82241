"""Batching: makes a graph for a whole batch from a graph for one example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from chainrule.errors import InputError
from chainrule.graph.free_names import free_name
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check, refuse_no_graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.sources import input_
from chainrule.tracebacks import entry


@entry
def batch(graph: Graph, size: int | Size, inputs: Iterable[str]) -> Graph:
    """The graph in which each of `inputs` has a further first axis of length `size`.

    Every output gets that axis too.  Nodes that no batched input reaches are computed once; the
    number of nodes does not depend on `size`.  Names and origins are those of `graph`.
    """
    refuse_no_graph(graph, "cr.transforms.batch(cr.trace(f), size, inputs)")
    chosen = set(inputs)
    unknown = chosen - {item.name for item in graph.inputs}
    if unknown:
        raise InputError(
            f"{graph.name} has no input called {sorted(unknown)[0]!r}",
            hint=f"its inputs are: {', '.join(item.name for item in graph.inputs)}",
        )
    given: dict[Node, Node] = {}
    made: list[Input] = []
    for index, item in enumerate(graph.inputs):
        node = item.node
        if item.name in chosen:
            type_ = node.type.with_shape((size, *node.type.shape))
            given[node] = input_(index=index, type=type_)
            stamp((given[node],), node.origin)
            made.append(Input(item.name, given[node]))
        else:
            made.append(item)
    batched = batch_nodes(graph.nodes, given, size)
    outputs = []
    names = {name: batched.get(node, node) for name, node in graph.names.items()}
    for name, node in graph.outputs:
        value = batched.get(node, node)
        if node not in batched:
            value = add_batch_axis(value, size)
            stamp((value,), node.origin.derived("batch", node))
            if any(item.name == name for item in made):
                name = free_name(f"{name}_batched", names)
            names[name] = value
        outputs.append((name, value))
    result = graph.replace(inputs=tuple(made), outputs=tuple(outputs), names=names, gradients=())
    return check(result.replace(nodes=ordered(result)))


def batch_nodes(
    nodes: Iterable[Node],
    given: Mapping[Node, Node],
    size: int | Size,
    origin: Callable[[Node], Origin] | None = None,
) -> dict[Node, Node]:
    """For each node (in topological order) that depends on those in `given`, the one that has its
    values for the whole batch, along a first axis of length `size`.

    `given` has the same for where the walk begins.  `origin` says where a new node comes from, by
    default "batch" because of the old one.
    """
    found = dict(given)
    for node in nodes:
        has = tuple([parent in found for parent in node.inputs])
        if node in found or not any(has):
            continue
        rule = node.primitive.batch
        assert rule is not None  # a primitive with inputs has one
        found[node] = rule(size, tuple([found.get(one, one) for one in node.inputs]), has, node)
        where = node.origin.derived("batch", node) if origin is None else origin(node)
        stamp((found[node],), where)
    return found
