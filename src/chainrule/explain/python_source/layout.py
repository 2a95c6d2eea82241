"""Decides which values are in C order if the inputs are; NumPy's sums depend on the order.

Where an operand of an operator is a large intermediate that no variable holds, NumPy writes the
result into it.  The result then has the order of that operand, and not the one that NumPy chooses
for a new array, which is C order where operands disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import identity, stop_gradient
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.movement import pad, slice_, transpose
from chainrule.primitives.primitive import MOVING, Contract
from chainrule.primitives.products import contract, matmul
from chainrule.primitives.sources import constant

UNCHANGED = (identity, stop_gradient)


def in_c_order(nodes: Iterable[Node]) -> set[Node]:
    """Those of the nodes, given in topological order, whose values surely lie in C order."""
    found: set[Node] = set()
    for node in nodes:
        if _is_made_in_c_order(node) and all(parent in found for parent in node.inputs):
            found.add(node)
        elif node.ndim < 2 or _is_always_in_c_order(node):
            found.add(node)
    return found


def multiplied(nodes: Sequence[Node]) -> set[Node]:
    """Those of the nodes that matrix products read, as they are or as views."""
    found: set[Node] = set()
    for node in reversed(nodes):
        is_view = isinstance(node.primitive.kernel, MOVING) or node.primitive in UNCHANGED
        if isinstance(node.primitive.kernel, Contract) or (is_view and node in found):
            found.update(node.inputs)
    return found


def _is_always_in_c_order(node: Node) -> bool:
    """Whether the result is in C order, however the operands lie."""
    if node.primitive is contract:
        return list(node.param("out_axes")) == sorted(node.param("out_axes"))
    return node.primitive in (pad, scatter_add) or (node.primitive is matmul and node.ndim == 2)


def _is_made_in_c_order(node: Node) -> bool:
    """Whether operands in C order give a result in C order."""
    if node.primitive is constant:
        return bool(node.param("value").array.flags.c_contiguous)
    if node.primitive is transpose:
        return node.param("permutation") == tuple(range(node.ndim))
    if node.primitive is slice_:
        return all(step > 0 for step in node.param("step"))
    return node.primitive is not contract
