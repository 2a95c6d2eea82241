"""Evaluates the graph of a group of ranks for all of them, node by node, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.devices.tensor.collectives import (
    all_gather,
    all_reduce,
    is_collective,
    own_part,
    reduce_scatter,
)
from chainrule.devices.tensor.layouts import Layout
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def part_of(array: np.ndarray, layout: Layout, place: int, ways: int) -> np.ndarray:
    """What the rank at a place of its group has."""
    if layout.axis is None:
        return array
    return np.ascontiguousarray(np.split(array, ways, layout.axis)[place])


def together(node: Node, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What each rank has after an exchange."""
    if node.primitive is all_gather:
        return [np.concatenate(parts, node.param("axis"))] * len(parts)
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    if node.primitive is all_reduce:
        return [total] * len(parts)
    assert node.primitive is reduce_scatter
    return np.split(total, len(parts), node.param("axis"))


def in_lockstep(
    graph: Graph, given: Sequence[Mapping[str, np.ndarray]]
) -> list[dict[Node, np.ndarray]]:
    """The values of all nodes on each rank; `given` has the inputs of each."""
    ways = len(given)
    names = {item.node: item.name for item in graph.inputs}
    found: list[dict[Node, np.ndarray]] = [{} for _ in given]
    for node in graph.nodes:
        if node in names:
            made = [np.asarray(one[names[node]], node.dtype) for one in given]
        elif is_collective(node):
            made = together(node, [one[node.inputs[0]] for one in found])
        elif node.primitive is own_part:
            axis = node.param("axis")
            made = [np.split(found[i][node.inputs[0]], ways, axis)[i] for i in range(ways)]
        else:
            made = [
                np.asarray(
                    node.primitive.evaluate(
                        np, *[one[parent] for parent in node.inputs], **dict(node.params)
                    ),
                    node.dtype,
                )
                for one in found
            ]
        for one, array in zip(found, made, strict=True):
            assert array.shape == node.shape, node
            one[node] = array
    return found
