"""Batching: the graph that does for a whole batch what a graph does for one example."""

from __future__ import annotations

from collections.abc import Iterable

from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import Node, stamp
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered
from chainrule.graph.sizes import Size
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.sources import input_


def batch(graph: Graph, size: int | Size, inputs: Iterable[str]) -> Graph:
    """The graph in which each of `inputs` has a further first axis of length `size`.

    Every output gets that axis too.  Nodes that no batched input reaches are computed once; the
    number of nodes does not depend on `size`.  Names and origins are those of `graph`.
    """
    chosen = set(inputs)
    unknown = chosen - {item.name for item in graph.inputs}
    if unknown:
        raise InputError(
            f"{graph.name} has no input called {sorted(unknown)[0]!r}",
            hint=f"its inputs are: {', '.join(item.name for item in graph.inputs)}",
        )
    new: dict[Node, Node] = {}
    batched: set[Node] = set()
    made: list[Input] = []
    for index, item in enumerate(graph.inputs):
        node = item.node
        if item.name in chosen:
            type_ = node.type.with_shape((size, *node.type.shape))
            new[node] = input_(index=index, type=type_)
            stamp((new[node],), node.origin)
            batched.add(node)
            made.append(Input(item.name, new[node]))
        else:
            new[node] = node
            made.append(item)
    for node in graph.nodes:
        if node in new:
            continue
        has = tuple([parent in batched for parent in node.inputs])
        operands = tuple([new[parent] for parent in node.inputs])
        if not any(has):
            new[node] = node
            continue
        rule = node.primitive.batch
        assert rule is not None  # a primitive with inputs has one
        new[node] = rule(size, operands, has, node)
        stamp((new[node],), node.origin.derived("batch", node))
        batched.add(node)
    outputs = []
    names = {name: new[node] for name, node in graph.names.items()}
    for name, node in graph.outputs:
        value = new[node]
        if node not in batched:
            value = add_batch_axis(value, size)
            stamp((value,), node.origin.derived("batch", node))
            if any(item.name == name for item in made):
                name += "_batched"
            names[name] = value
        outputs.append((name, value))
    result = graph.replace(inputs=tuple(made), outputs=tuple(outputs), names=names, gradients=())
    return check(result.replace(nodes=ordered(result)))
