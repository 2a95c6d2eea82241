"""Finds whether an objective grows with the batch: then its mean over parts is another objective.

A plan may cut the batch only where that is the same step, as for a mean over the batch.
"""

from __future__ import annotations

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.sizes.sizes import Size, divide_exactly, names, product, size
from chainrule.primitives.arithmetic import divide
from chainrule.primitives.primitive import (
    Assemble,
    Contract,
    Fold,
    Given,
    Library,
    Linear,
    Map,
    Move,
    Multilinear,
)
from chainrule.primitives.products import matmul
from chainrule.primitives.sources import size_value


def growth(graph: Graph, value: Node, name: str) -> int | None:
    """The power of the size `name` with which a value grows, for data of the same kind: 0 for a
    mean over that size, 1 for a sum; None where it is not known."""
    found: dict[Node, int | None] = {}
    for node in topological([value]):
        found[node] = _of(node, [found[one] for one in node.inputs], name)
    return found[value]


def _of(node: Node, powers: list[int | None], name: str) -> int | None:
    if node.primitive is size_value:
        return _power(node.param("size"), name)
    known = [one for one in powers if one is not None]
    if len(known) < len(powers):
        return None
    derivative, kernel = node.primitive.derivative, node.primitive.kernel
    match kernel:
        case Given():
            return 0
        case Map() if node.primitive is divide:
            return known[0] - known[1]
        case Map() if isinstance(derivative, Multilinear):
            return sum(known)
        case Map() if isinstance(derivative, Linear):
            return max(known)
        case Fold(combine="x + y"):
            summed = divide_exactly(product(node.inputs[0].shape), product(node.shape))
            power = None if summed is None else _power(summed, name)
            return None if power is None else known[0] + power
        case Contract():
            power = _contracted(node, name)
            return None if power is None else sum(known) + power
        case Fold() | Move() | Assemble():
            return max(known, default=0)
        case Library() if any(name in names(one) for x in node.inputs for one in x.shape):
            return None
    return 0 if not any(known) else None


def _contracted(node: Node, name: str) -> int | None:
    """The power in which a product sums over the size."""
    x = node.inputs[0]
    if node.primitive is matmul:
        return _power(x.shape[-1], name)
    labels = zip(node.param("x_axes"), x.shape, strict=True)
    summed = [one for label, one in labels if label not in node.param("out_axes")]
    return _power(product(tuple(summed)), name)


def _power(number: int | Size, name: str) -> int | None:
    """1 for a multiple of the size, 0 for what it is not in; None for others."""
    if name not in names(number):
        return 0
    rest = divide_exactly(number, size(name))
    return 1 if rest is not None and name not in names(rest) else None
