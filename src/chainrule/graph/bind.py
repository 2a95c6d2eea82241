"""`bind` replaces named sizes by integers, and checks every condition that tracing left open."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chainrule.errors import SizeError
from chainrule.graph.body import Body
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.graph.parts import Condition
from chainrule.graph.rebuild import rebuild
from chainrule.graph.sizes import size_values, sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType


def bind_value(value: Any, values: Mapping[str, int]) -> Any:
    """A static parameter with named sizes replaced."""
    if isinstance(value, Size):
        return size_values.evaluate(value, values)
    if isinstance(value, (ArrayType, Body)):
        return value.bind(values)
    if isinstance(value, tuple):
        return tuple(bind_value(item, values) for item in value)
    return value


def check_conditions(graph: Graph, values: Mapping[str, int]) -> None:
    """Raise SizeError for the first condition that is false under `values`."""
    for condition in graph.conditions:
        got = size_values.evaluate(condition.expression, values)
        if isinstance(got, Size) or condition.holds(got):
            continue
        hint = "choose sizes for which it holds"
        if condition.relation == "!=":
            hint = _traced_for(graph, condition, values)
        given = ", ".join(f"{k}={v}" for k, v in values.items())
        raise SizeError(
            f"{condition.text}; not so for {given}", where=condition.origin.describe(), hint=hint
        )


def _traced_for(graph: Graph, condition: Condition, values: Mapping[str, int]) -> str:
    """How to trace the branch that these sizes take."""
    wanted = sizes.names(condition.expression) & values.keys()
    holder = {leaf: root for root, one in graph.structures.items() for leaf in one.leaf_names}
    shown = {
        holder.get(item.name, item.name): None
        for item in graph.inputs
        if any(wanted & sizes.names(size) for size in item.type.shape)
    }
    numbers = " and ".join(f"{values[name]} for {name}" for name in sorted(wanted))
    arrays = ", ".join(f"{name}={name}" for name in shown)
    return (
        f"trace it for these sizes: cr.trace({graph.name}, {arrays}) with the arrays themselves,\n"
        f"or write {numbers} in the types of {', '.join(shown)}"
    )


def check_sizes(graph: Graph, values: Mapping[str, int]) -> None:
    """Raise SizeError for a name that is no size of the graph, or a value that none can have."""
    known = graph.sizes
    for name, value in values.items():
        if name not in known:
            raise SizeError(
                f"the graph {graph.name} has no size called {name!r}",
                hint=f"its sizes are: {', '.join(known) or 'none, all are integers'}",
            )
        if not _is_positive_integer(value):
            raise SizeError(
                f"the size {name} must be an integer of at least 1, got {value!r}",
                hint="for a size of 0, write the literal 0 in the array type",
            )


def _is_positive_integer(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 1
    except TypeError:
        return False


def bind(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph with `values` in place of named sizes; see `Graph.bind`."""
    check_sizes(graph, values)
    values = {name: int(value) for name, value in values.items()}
    if not values:
        return graph
    check_conditions(graph, values)
    conditions = []
    for condition in graph.conditions:
        expression = size_values.evaluate(condition.expression, values)
        if isinstance(expression, Size):
            conditions.append(replace(condition, expression=expression))
    return with_sizes(graph, values).replace(conditions=tuple(conditions))


def with_sizes(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph with named sizes replaced in every node; its conditions are as they were."""

    def bound(node: Node, inputs: tuple[Node, ...], origin: Origin) -> Node:
        params = tuple((key, bind_value(value, values)) for key, value in node.params)
        return type(node)(node.primitive, inputs, params, node.type.bind(values), origin)

    return rebuild(graph, bound)


def named_nodes(graph: Graph, concrete: Graph) -> dict[Node, Node]:
    """For each node of `concrete`, which is `graph` with sizes bound, the node it comes from.

    `bind` makes one node of each, in the same order.
    """
    pairs = list(zip(concrete.nodes, graph.nodes, strict=True))
    assert all(one.primitive is other.primitive for one, other in pairs), graph.name
    return dict(pairs)
