"""Windows added back into an array, as one loop nest: what they overlap in is added in their order.

A row of the nest is all that one array of the last axes is made of, so that threads that share the
rows never meet, and the columns go over the places in a window, and for each over its positions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import lcm

from chainrule.graph.node import Node
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, LoopNest, Store
from chainrule.plan.loops.successive import combined, read_before
from chainrule.plan.roles import Role
from chainrule.primitives.affine import Domain, row_major
from chainrule.primitives.arithmetic import add

Strides = tuple[int, ...]


def split_shape(node: Node) -> tuple[Domain, Domain, Domain]:
    """Of the windows that a `fold_windows` node adds: batch axes, positions, places in a window."""
    shape, count = node.inputs[0].shape, len(node.param("stride"))
    first = len(shape) - 2 * count
    return shape[:first], shape[first : first + count], shape[first + count :]


def strides_by_place(node: Node) -> Strides:
    """Strides of the windows under which the positions of one place in them lie side by side."""
    batch, positions, window = split_shape(node)
    strides = row_major((*batch, *window, *positions))
    first, count = len(batch), len(window)
    return (*strides[:first], *strides[first + count :], *strides[first : first + count])


def windows_meet(node: Node) -> bool:
    """Whether some elements are in several windows."""
    return any(
        lcm(s, d) // d < size and lcm(s, d) // s < count
        for s, d, count, size in zip(
            node.param("stride"), node.param("dilation"), *split_shape(node)[1:], strict=True
        )
    )


def windows_cover(node: Node) -> bool:
    """Whether every element is in exactly one window."""
    batch, positions, window = split_shape(node)
    pairs = zip(positions, window, node.shape[len(batch) :], strict=True)
    return not windows_meet(node) and all(count * size == length for count, size, length in pairs)


def windows_nest(
    node: Node,
    roles: Mapping[Node, Role],
    strides: Mapping[Node, Strides],
    available: Collection[Node],
) -> LoopNest:
    """The nest that writes each window to its place, or adds it to what is there."""
    batch, positions, window = split_shape(node)
    nest = Nest(batch, (*window, *positions), roles, available, (), strides)
    builder = Builder(nest, roles, strides, available)
    shape = (*batch, *window, *positions)
    where = natural(shape, builder.domain, len(builder.domain))
    assert where is not None
    first, count = len(batch), len(window)
    rows, places, starts = where[:first], where[first : first + count], where[first + count :]
    value = builder.at(node.inputs[0], (*rows, *starts, *places))
    region = tuple(
        tuple(s * a + d * b for a, b in zip(start, place, strict=True))
        for start, place, s, d in zip(
            starts, places, node.param("stride"), node.param("dilation"), strict=True
        )
    )
    place = address((*rows, *region), row_major(node.shape), builder.domain)
    reach = address(where, row_major(shape), builder.domain)
    found = builder.found
    if windows_meet(node):
        before = read_before(node, place, len(nest.rows))
        value = combined(add, before, value)
        found += [before, value]
    inner = any(reach[len(nest.rows) + 1 :])
    return LoopNest(nest.rows, nest.columns, [Store(node, value, place, reach, inner)], found)
