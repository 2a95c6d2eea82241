"""The invariants of every graph, by name; transforms end by checking them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.errors import InputError, InvariantError
from chainrule.graph.graph import Graph


def inputs_come_first(graph: Graph) -> bool:
    """Every node comes after its inputs, and every node is there once."""
    seen = set()
    for node in graph.nodes:
        for parent in node.inputs:
            if parent not in seen:
                return False
        if node in seen:
            return False
        seen.add(node)
    return True


def references_are_nodes(graph: Graph) -> bool:
    """Inputs, outputs, names and gradients refer to nodes of the graph."""
    nodes = set(graph.nodes)
    found = [item.node for item in graph.inputs] + [node for _, node in graph.outputs]
    found += list(graph.names.values())
    for gradient in graph.gradients:
        found += [gradient.wrt, gradient.value]
    return all(node in nodes for node in found)


def sources_are_inputs(graph: Graph) -> bool:
    """Every node of the input primitive is an input of the graph, once."""
    inputs = [item.node for item in graph.inputs]
    free = {node for node in graph.nodes if node.primitive.name == "input"}
    return len(set(inputs)) == len(inputs) and free == set(inputs)


def names_are_unique(graph: Graph) -> bool:
    """No two inputs and no two outputs share a name, and an input's name is its own."""
    inputs = [item.name for item in graph.inputs]
    outputs = [name for name, _ in graph.outputs]
    if len(set(inputs)) != len(inputs) or len(set(outputs)) != len(outputs):
        return False
    return all(graph.names.get(item.name) is item.node for item in graph.inputs)


def types_are_inferred(graph: Graph) -> bool:
    """The type of each node is what its primitive says for its inputs."""
    for node in graph.nodes:
        infer = node.primitive.result_type
        if node.inputs or node.primitive.inputs:
            types = [parent.type for parent in node.inputs]
            if infer(*types, **dict(node.params)) != node.type:
                return False
    return True


def gradients_have_the_type_of_their_value(graph: Graph) -> bool:
    """A gradient has its variable's shape and dtype."""
    return all(
        g.value.type.shape == g.wrt.type.shape and g.value.type.dtype == g.wrt.type.dtype
        for g in graph.gradients
        if g.of
    )


INVARIANTS: tuple[Callable[[Graph], bool], ...] = (
    inputs_come_first,
    references_are_nodes,
    sources_are_inputs,
    names_are_unique,
    types_are_inferred,
    gradients_have_the_type_of_their_value,
)
QUICK_INVARIANTS = (inputs_come_first, references_are_nodes, sources_are_inputs, names_are_unique)


def check(
    graph: Graph, invariants: tuple[Callable[[Graph], bool], ...] = QUICK_INVARIANTS
) -> Graph:
    """The same graph, or InvariantError naming the invariant that it breaks."""
    for invariant in invariants:
        if not invariant(graph):
            raise InvariantError(
                f"the graph {graph.name} breaks the invariant {invariant.__name__}: "
                f"{invariant.__doc__}",
                hint="this is an error in a transform; please report it with the program",
            )
    return graph


def refuse_no_graph(value: Any, instead: str) -> None:
    """InputError where a transform is given something else than a graph, a function for instance;
    `instead` is how it is called."""
    if not isinstance(value, Graph):
        call = instead.partition("(")[0].removeprefix("cr.")
        raise InputError(
            f"{call} needs a graph, got {type(value).__name__}",
            hint=f"trace the function first: {instead}",
        )
