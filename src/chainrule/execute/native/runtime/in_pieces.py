"""The reference evaluation of one node, piece by piece, into the memory of its value."""

from __future__ import annotations

import numpy as np

from chainrule.execute.reference import Names, apply
from chainrule.graph.node import Node
from chainrule.plan.pieces import pieces


def apply_in_pieces(
    node: Node, piece: tuple[int, ...], operands: list[np.ndarray], names: Names, into: np.ndarray
) -> None:
    """Write the value of one node into an array, by pieces of this shape; at once if it is ()."""
    if not piece:
        into[...] = apply(node, operands, names)
        return
    for part, needed in pieces(node, piece):
        cut = [one[key] for one, key in zip(operands, needed, strict=True)]
        into[part] = apply(node, cut, names)
