"""Makes up arrays for the inputs of a concrete graph, so that it can be run to see how long it
takes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.primitives.indexing import bounds
from chainrule.primitives.primitive import Gather

LEAST, MOST = 0, 1  # of an integer that is no index
BLOCK = 2**18 + 1  # floats, which are repeated


def made_up(graph: Graph, known: Mapping[str, Any] | None = None) -> dict[Node, np.ndarray]:
    """An array for each input of a concrete graph: the same at every call.

    Inputs named in `known` have these elements, repeated or cut to their shape.  Numbers with a
    default have it.  Other floats are normal, divided by the root of the length of the axis before
    the last, so that products with them neither grow nor vanish; integers are indices in range.
    """
    random, known = np.random.default_rng(0), known or {}
    highest = _highest(graph)
    return {
        item.node: _array(item, known.get(item.name, item.default), highest, random)
        for item in graph.inputs
    }


def _array(
    item: Input, known: Any, highest: Mapping[Node, int], random: np.random.Generator
) -> np.ndarray:
    shape, dtype = item.node.shape, item.node.dtype
    if known is not None:
        return np.resize(np.asarray(known, dtype), shape)
    if dtype.kind not in "iub":
        block = random.standard_normal(min(prod(shape), BLOCK)) / prod(shape[-2:-1]) ** 0.5
        return np.resize(block.astype(dtype), shape)
    if dtype.kind == "u" and shape == (2,):  # a key
        return random.integers(0, 1 << 31, shape, dtype)
    return random.integers(LEAST, highest.get(item.node, MOST) + 1, shape).astype(dtype)


def _highest(graph: Graph) -> dict[Node, int]:
    """The largest index that each input may hold, of those that are indices."""
    found: dict[Node, int] = {}
    for node in graph.nodes:
        if isinstance(node.primitive.kernel, Gather):
            for index, _, high in bounds(node):
                while len(index.inputs) == 1:  # cast, reshaped, broadcast
                    (index,) = index.inputs
                found[index] = min(found.get(index, high), high)
    return {node: max(high, LEAST) for node, high in found.items()}
