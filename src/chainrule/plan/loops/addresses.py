"""Where in an array in memory the elements of a value lie that only shows them otherwise."""

from __future__ import annotations

from collections.abc import Container, Mapping

from chainrule.graph.node import Node
from chainrule.plan.loops.access import address, pulled
from chainrule.plan.roles import Role
from chainrule.primitives.affine import Affine, Domain, IndexMap, combined, row_major

Strides = tuple[int, ...]


def axis_by_axis(shape: tuple[int, ...]) -> IndexMap:
    """The map under which the domain is the value's own axes."""
    count = len(shape) + 1
    return tuple(tuple(int(k == axis) for k in range(count)) for axis in range(1, count))


def strides_of(node: Node, storage: Mapping[Node, Strides]) -> Strides:
    """The strides of a node's array in elements: C order, if `storage` does not say otherwise."""
    return storage[node] if node in storage else row_major(node.shape)


def place_in_memory(
    node: Node,
    where: IndexMap,
    domain: Domain,
    roles: Mapping[Node, Role],
    available: Container[Node],
    storage: Mapping[Node, Strides],
) -> tuple[Node, Affine] | None:
    """The value in memory that the node shows, and the affine place, in elements, of `where`.

    None where the value is not `available`, or the place is not affine.  A reshape of what lies
    in C order is, even where the indices are not.
    """
    while node not in available:
        if roles[node] is not Role.MOVED:
            return None
        found = pulled(node, where, domain)
        if found is None:
            return _reshaped(node, where, domain, roles, available, storage)
        node, where = node.inputs[0], found
    return node, address(where, strides_of(node, storage), domain)


def _reshaped(
    node: Node,
    where: IndexMap,
    domain: Domain,
    roles: Mapping[Node, Role],
    available: Container[Node],
    storage: Mapping[Node, Strides],
) -> tuple[Node, Affine] | None:
    source = node.inputs[0]
    own = axis_by_axis(source.shape)
    found = place_in_memory(source, own, source.shape, roles, available, storage)
    if found is None:
        return None
    base, place = found
    ordered = zip(source.shape, place[1:], row_major(source.shape), strict=True)
    if any(size != 1 and stride != wanted for size, stride, wanted in ordered):
        return None
    flat = combined(where, row_major(node.shape), len(domain) + 1)
    return base, (place[0] + flat[0], *flat[1:])
