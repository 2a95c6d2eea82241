"""Loop nests that read what they wrote at an earlier point: sums in memory, and recurrences."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, Instance, Kind, LoopNest, Store
from chainrule.plan.roles import Role
from chainrule.primitives.affine import Affine, IndexMap, row_major
from chainrule.primitives.arithmetic import add, identity, multiply
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import full

Strides = tuple[int, ...]


def read_before(node: Node, place: Affine, rows: int) -> Instance:
    """What is in the array of `node`, which the nest writes, before a point does; the nest has so
    many row axes."""
    inner, uniform = any(place[rows + 1 :]), not any(place[1:])
    return Instance(node, Kind.LOAD, (), node, place, inner=inner, uniform=uniform)


def combined(primitive: Primitive, *operands: Instance) -> Instance:
    """An elementwise operation on values of one dtype, which is no node of the graph."""
    number = full(value=0, type=array_type(operands[0].node.dtype, ()))
    inner = any(one.inner for one in operands)
    uniform = all(one.uniform for one in operands)
    node = primitive(*[number] * len(operands))
    return Instance(node, Kind.MAP, operands, inner=inner, uniform=uniform)


def recurrence_nests(
    node: Node,
    roles: Mapping[Node, Role],
    strides: Mapping[Node, Strides],
    available: Collection[Node],
) -> list[LoopNest]:
    """The first elements along the axis, and then all others, each from the one before it.

    Rows are the axes before the axis: threads that share them never meet.
    """
    return [
        _recurrence_nest(node, first, roles, strides, available)
        for first in ((True, False) if node.shape[node.param("axis")] != 1 else (True,))
    ]


def _recurrence_nest(
    node: Node,
    first: bool,
    roles: Mapping[Node, Role],
    strides: Mapping[Node, Strides],
    available: Collection[Node],
) -> LoopNest:
    axis, reverse = node.param("axis"), node.param("reverse")
    length = node.shape[axis]
    count = min(length, 1) if first else max(length - 1, 0)
    shape = (*node.shape[:axis], count, *node.shape[axis + 1 :])
    nest = Nest(shape[:axis], shape[axis:], roles, available, (), strides)
    builder = Builder(nest, roles, strides, available)
    domain, rows = builder.domain, len(nest.rows)
    own = natural(shape, domain, len(domain))
    assert own is not None
    step = -1 if reverse else 1
    begin = (length - 1 if reverse else 0) + (0 if first else step)
    where, before = _along(own, axis, begin, step), _along(own, axis, begin - step, step)
    a, b = node.inputs
    factor, value = builder.at(a, where), builder.at(b, where)
    found = builder.found
    if not first:
        last = read_before(node, address(before, row_major(node.shape), domain), rows)
        product = combined(multiply, factor, last)
        rounded = combined(identity, product)  # as NumPy does, and not within the addition
        total = combined(add, value, rounded)
        found += [last, product, rounded, total]
        value = total
    place = address(where, row_major(node.shape), domain)
    reach = address(own, row_major(shape), domain)
    inner = any(reach[rows + 1 :])
    return LoopNest(nest.rows, nest.columns, [Store(node, value, place, reach, inner)], found)


def _along(where: IndexMap, axis: int, begin: int, step: int) -> IndexMap:
    """The map with the index along one axis counted from `begin` in steps."""
    index = where[axis]
    moved = (begin + step * index[0], *(step * k for k in index[1:]))
    return (*where[:axis], moved, *where[axis + 1 :])
