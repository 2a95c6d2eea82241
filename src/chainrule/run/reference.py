"""The reference executor: one NumPy call a node, in order; reading it is the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from chainrule.errors import EvaluationError, IndexOutOfRangeError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def evaluate(
    graph: Graph, inputs: Mapping[Node, np.ndarray], keep: Iterable[Node]
) -> dict[Node, np.ndarray]:
    """The values of the nodes in `keep`; every other value is dropped after its last use.

    The graph is concrete (bound).  Nothing in `inputs` is modified, and no kept array shares
    memory with one of them.
    """
    kept = set(keep)
    last: dict[Node, Node] = {}
    for node in graph.nodes:
        for parent in node.inputs:
            last[parent] = node
    values: dict[Node, np.ndarray] = {}
    result: dict[Node, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.primitive.name == "input":
                value = inputs[node]
            elif node in last or node in kept:
                value = apply(node, [values[parent] for parent in node.inputs], graph.name_of)
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


def apply(node: Node, operands: list[np.ndarray], names: Mapping[Node, str]) -> np.ndarray:
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


def _named(node: Node, names: Mapping[Node, str]) -> str:
    """The operation and what it is applied to, by the user's names: `gather(logits, y)`."""
    found = []
    for operand in node.inputs:
        while operand not in names and len(operand.inputs) == 1:
            operand = operand.inputs[0]  # what it was before it was reshaped, cast, ...
        found.append(names.get(operand, "..."))
    return f"{node.primitive.name}({', '.join(found)})"
