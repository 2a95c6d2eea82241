"""Finds units that are dead: 0 for the whole batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.explain.reading.bodies import is_stacked, results
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST_UNITS = 20  # that are listed


@dataclass(frozen=True)
class DeadUnits:
    """A value of which `count` of `size` units are 0 for the whole batch of `batch` examples.

    `units` are the first of them: indices along the axes that are not of the batch.  They are 0 in
    all `iterations` of the loop that the value comes out of, and at all `places` of each example.
    """

    name: str
    count: int
    size: int
    batch: int
    units: tuple[tuple[int, ...], ...]
    iterations: int = 1
    places: int = 1


def dead_units(
    traced: Graph, graph: Graph, values: Mapping[Node, np.ndarray]
) -> Iterator[DeadUnits]:
    """The dead units of each named value that the forward pass computes."""
    own = dict(zip(graph.nodes, traced.nodes, strict=True))
    gradients = {one.value for one in graph.gradients}
    stacked = {node for node, one in results(traced).items() if is_stacked(one)}
    for name, node in graph.names.items():
        if not node.inputs or node.origin.transform or node in gradients or node not in values:
            continue
        of_loop = own[node] in stacked
        batch_axes = _batch_axes(own[node])
        array = values[node]
        if not batch_axes or len(batch_axes) == node.ndim:
            continue
        if dtype_kind(array.dtype) != "f" or not array.size:
            continue
        axes, dead = _dead(array == 0, batch_axes)
        if dead.any():
            first = np.argwhere(dead)[:MOST_UNITS].tolist()
            iterations = array.shape[0] if of_loop and 0 in axes else 1
            examples = [axis for axis in batch_axes if axis or not of_loop]
            if of_loop and not examples:  # where no size has a name
                examples = [axis for axis in axes if axis][:1]
            batch = math.prod(array.shape[axis] for axis in examples)
            places = math.prod(array.shape[axis] for axis in axes) // max(iterations * batch, 1)
            units = tuple(map(tuple, first))
            count = int(dead.sum())
            yield DeadUnits(name, count, dead.size, batch, units, iterations, places)


def _dead(is_zero: np.ndarray, batch_axes: tuple[int, ...]) -> tuple[tuple[int, ...], np.ndarray]:
    """Over which axes units are looked at, and which of these are 0 throughout.

    A unit is an index along the last axis, or of images along the first after the batch (a
    channel), if one is 0 at every place; else each place has units of its own.
    """
    others = [axis for axis in range(is_zero.ndim) if axis not in batch_axes]
    for unit in (others[-1], others[0]) if len(others) > 1 else ():
        if unit != others[-1] and is_zero.ndim < 4:
            continue
        axes = tuple(axis for axis in range(is_zero.ndim) if axis != unit)
        dead = np.all(is_zero, axis=axes)
        if dead.any():
            return axes, dead
    return batch_axes, np.all(is_zero, axis=batch_axes)


def _batch_axes(node: Node) -> tuple[int, ...]:
    """The axes of named sizes; the first of several where no size has a name."""
    named = tuple(axis for axis, size in enumerate(node.shape) if not isinstance(size, int))
    return named or ((0,) if node.ndim > 1 else ())
