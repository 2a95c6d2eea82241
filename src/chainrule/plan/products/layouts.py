"""In which order products lie in memory: that of the one node that reads them, where it can be."""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import prod

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.loops.windows import strides_by_place
from chainrule.plan.products.fold import Products
from chainrule.plan.roles import Role
from chainrule.primitives.affine import row_major
from chainrule.primitives.movement import reshape, transpose
from chainrule.primitives.windows import fold_windows, windows

SWEPT = (Role.MAP, Role.FOLD)  # by loop nests, whose columns are the last axis


def product_layouts(
    graph: Graph,
    products: Mapping[Node, Products],
    roles: Mapping[Node, Role],
    stored: Container[Node],
) -> dict[Node, tuple[int, ...]]:
    """The strides of products that lie in the order of the one node that reads them: a transpose,
    so that its reshape needs no copy, or loop nests find its last axis side by side; or the sum of
    windows, place by place.  `stored` are results, and what else must be in memory as it is."""
    found: dict[Node, tuple[int, ...]] = {}
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for parent in dict.fromkeys(node.inputs):
            users.setdefault(parent, []).append(node)
    for root in products:
        readers = users.get(root, [])
        if root in stored or len(readers) != 1:
            continue
        reader = readers[0]
        if reader.primitive is fold_windows and roles[reader] is Role.ASSEMBLED:
            found[root] = strides_by_place(reader)
            continue
        again = users.get(reader, [])
        if reader.primitive is not transpose or reader in stored:
            continue
        order = reader.param("permutation")
        swept = order[-1] != root.ndim - 1 and all(roles[one] in SWEPT for one in again)
        operands = (one for term, _ in products[root].terms for one in term.inputs)
        if any(one.primitive is reshape for one in again) or (
            swept and not any(_has_windows(one, roles) for one in operands)
        ):
            moved = dict(zip(order, row_major(reader.shape), strict=True))
            found[root] = tuple(moved[axis] for axis in range(root.ndim))
    return found


def _has_windows(node: Node, roles: Mapping[Node, Role]) -> bool:
    """Whether it shows an array in windows of more than one element, which tiles read best where
    rows of the result are channels."""
    while roles[node] is Role.MOVED:
        if node.primitive is windows and prod(node.param("window")) > 1:
            return True
        (node,) = node.inputs
    return False
