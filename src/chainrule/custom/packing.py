"""Packs several arrays into one, and unpacks them, because a node has one array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from chainrule.frontend.functions.elementwise import to_dtype
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import promoted
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import concatenate, reshape, slice_


def packed_type(types: Sequence[ArrayType]) -> ArrayType:
    """The type of the array that holds all elements, one array after another."""
    if len(types) == 1:
        return types[0]
    dtype = promoted(*[one.dtype for one in types])
    return array_type(dtype, (sum((one.size for one in types), 0),))


def packed(trace: Trace, nodes: Sequence[Node]) -> Node:
    """One array of all elements; a single array as it is."""
    if len(nodes) == 1:
        return nodes[0]
    dtype = packed_type([node.type for node in nodes]).dtype
    rows = [to_dtype(trace, node, dtype) for node in nodes]
    flat = [trace.build(reshape, row, shape=(sizes.product(row.type.shape),)) for row in rows]
    return trace.build(concatenate, *flat, axis=0)


def unpacked(trace: Trace, whole: Node, types: Sequence[ArrayType]) -> list[Node]:
    """The arrays of these types out of the one that holds them."""
    if len(types) == 1:
        return [whole]
    found: list[Node] = []
    starts = accumulate((one.size for one in types), initial=0)
    for start, one in zip(starts, types, strict=False):
        part = trace.build(slice_, whole, start=(start,), step=(1,), shape=(one.size,))
        part = trace.build(reshape, part, shape=one.shape)
        if part.type != one:
            part = trace.build(cast, part, dtype=one.dtype, weak=one.weak)
        found.append(part)
    return found
