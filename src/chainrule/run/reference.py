"""The reference executor: one NumPy call a node, in order; reading it is the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from chainrule.errors import EvaluationError, IndexOutOfRangeError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

Names = tuple[Mapping[Node, str], ...]


def evaluate(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
) -> dict[Node, np.ndarray]:
    """The values of the nodes in `keep`; every other value is dropped after its last use.

    The graph is concrete (bound).  Nothing in `inputs` is modified, and no kept array shares
    memory with one of them.  `traced` is the graph before it was bound, for messages.
    """
    kept = set(keep)
    last: dict[Node, Node] = {}
    for node in graph.nodes:
        for parent in node.inputs:
            last[parent] = node
    names = tuple(one.name_of for one in (graph, traced) if one is not None)
    values: dict[Node, np.ndarray] = {}
    result: dict[Node, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.primitive.name == "input":
                value = inputs[node]
            elif node in last or node in kept:
                value = apply(node, [values[parent] for parent in node.inputs], names)
            else:
                continue
            if node in kept:
                operands = [values[parent] for parent in node.inputs]
                result[node] = _owned(value, operands)
            values[node] = value
            for parent in node.inputs:
                if last[parent] is node:
                    values.pop(parent, None)
    return result


def apply(node: Node, operands: list[np.ndarray], names: Names) -> np.ndarray:
    """The value of one node; `names` are for messages."""
    try:
        value = np.asarray(node.primitive.evaluate(np, *operands, **dict(node.params)))
    except IndexError as error:
        raise IndexOutOfRangeError(
            f"{_named(node, names)}: {error}",
            where=node.origin.describe(),
            hint="check the indices (labels, tokens) against the size of what they index",
        ) from error
    except ValueError as error:
        raise EvaluationError(
            f"{_named(node, names)} failed: {error}",
            where=node.origin.describe(),
            hint="check the values of its inputs, and their dtypes",
        ) from error
    return value if value.dtype == node.type.dtype else value.astype(node.type.dtype)


def _owned(value: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """The value in memory of its own: inputs, constants, views and operands are copied."""
    fresh = operands and value.base is None and value.flags.owndata
    return value if fresh and all(value is not one for one in operands) else value.copy()


def _named(node: Node, names: Names) -> str:
    """The user's call that the node belongs to, by the user's names: `cross_entropy(o, y)`."""
    scope, composite = node.origin.scope, None
    while scope is not None:
        composite = scope if scope.symbol else composite
        scope = scope.parent
    if composite is None:
        return f"{node.primitive.name}({', '.join(_name(parent, names) for parent in node.inputs)})"
    given = [v for _, v in composite.arguments]
    shown = [_name(v, names) if isinstance(v, Node) else repr(v) for v in given]
    return f"{composite.name}({', '.join(shown)})"


def _name(node: Node, names: Names) -> str:
    """The node's name, or that of what it was before it was reshaped, cast, ..."""
    while True:
        for known in names:
            if node in known:
                return known[node]
        if len(node.inputs) != 1:
            return "..."
        node = node.inputs[0]
