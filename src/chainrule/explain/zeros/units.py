"""Finds units that are dead: 0 for the whole batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST_UNITS = 20  # that are listed


@dataclass(frozen=True)
class DeadUnits:
    """A value of which `count` of `size` units are 0 for the whole batch of `batch` elements.

    `units` are the first of them: indices along the axes that are not of the batch.
    """

    name: str
    count: int
    size: int
    batch: int
    units: tuple[tuple[int, ...], ...]


def dead_units(
    traced: Graph, graph: Graph, values: Mapping[Node, np.ndarray]
) -> Iterator[DeadUnits]:
    """The dead units of each named value that the forward pass computes."""
    own = dict(zip(graph.nodes, traced.nodes, strict=True))
    gradients = {one.value for one in graph.gradients}
    for name, node in graph.names.items():
        if not node.inputs or node.origin.transform or node in gradients or node not in values:
            continue
        axes = _batch_axes(own[node])
        array = values[node]
        if not axes or len(axes) == node.ndim or array.dtype.kind != "f" or not array.size:
            continue
        dead = np.all(array == 0, axis=axes)
        if dead.any():
            first = np.argwhere(dead)[:MOST_UNITS].tolist()
            batch = int(np.prod([array.shape[axis] for axis in axes]))
            count = int(dead.sum())
            yield DeadUnits(name, count, dead.size, batch, tuple(map(tuple, first)))


def _batch_axes(node: Node) -> tuple[int, ...]:
    """The axes of named sizes; the first of several where no size has a name."""
    named = tuple(axis for axis, size in enumerate(node.shape) if not isinstance(size, int))
    return named or ((0,) if node.ndim > 1 else ())
