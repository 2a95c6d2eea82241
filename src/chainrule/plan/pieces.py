"""Nodes without a kernel evaluated piece by piece, so that NumPy makes little beside the result.

Along the axes that a primitive declares independent, a piece of the result needs only a piece of
the operands.  What the evaluation allocates, its own result among it, is then as large as a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.schedule.in_numpy import outline_in_c_order, taken_nbytes

PIECE_NBYTES = 1 << 20  # that a piece takes, about; quarters of it cost up to 1.25 of the time

Place = tuple[slice, ...]


def piece_of(node: Node) -> tuple[int, ...]:
    """The shape of the pieces in which a node is evaluated; () where it is evaluated at once."""
    axes = [axis for axis, _ in node.primitive.independent(node)]
    if not axes or not node.type.size:
        return ()
    operands = [outline_in_c_order(one) for one in node.inputs]
    whole = node.type.nbytes + taken_nbytes(node, operands)
    shape, nbytes = list(node.shape), whole
    for axis in axes:
        if nbytes <= PIECE_NBYTES:
            break
        shape[axis] = max(1, PIECE_NBYTES * shape[axis] // nbytes)
        nbytes = nbytes * shape[axis] // node.shape[axis]
    return tuple(shape) if nbytes < whole else ()


def pieces(node: Node, piece: Sequence[int]) -> Iterator[tuple[Place, list[Place]]]:
    """Where each piece lies in the result, and what of each operand it needs."""
    lengths = node.shape
    cuts = [one for one in node.primitive.independent(node) if piece[one[0]] < lengths[one[0]]]
    for starts in product(*[range(0, lengths[axis], piece[axis]) for axis, _ in cuts]):
        into = [slice(None)] * node.ndim
        needed = [[slice(None)] * one.ndim for one in node.inputs]
        for (axis, places), start in zip(cuts, starts, strict=True):
            into[axis] = slice(start, start + piece[axis])
            for key, place in zip(needed, places, strict=True):
                if place is not None:
                    key[place] = into[axis]
        yield tuple(into), [tuple(key) for key in needed]


def evaluation_nbytes(node: Node, piece: Sequence[int], operands: Sequence[np.ndarray]) -> int:
    """What one evaluation takes at its fullest, its result among it; `operands` are outlines."""
    part = node
    if piece:
        _, needed = next(pieces(node, piece))
        operands = [one[key] for one, key in zip(operands, needed, strict=True)]
        part = type(node)(
            node.primitive, node.inputs, node.params, array_type(node.dtype, tuple(piece))
        )
    return int(part.type.nbytes) + taken_nbytes(part, operands)
