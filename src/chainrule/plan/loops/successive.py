"""Loop nests that read what they wrote at an earlier point: running sums and products, recurrences.

See docs/decisions/0079.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, Instance, Kind, LoopNest, Store, Walk
from chainrule.plan.loops.row_lanes import FEWEST, LONGEST
from chainrule.plan.roles import Role
from chainrule.primitives.affine import Affine, IndexMap, row_major
from chainrule.primitives.arithmetic import add, identity, maximum, minimum, multiply
from chainrule.primitives.cumulative import cummax, cummin, cumprod, cumsum, recurrence
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import full

Strides = tuple[int, ...]
# What the value before and an element are combined by.
STEPS = {cumsum: add, cumprod: multiply, cummax: maximum, cummin: minimum}


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


def running_nests(
    node: Node,
    roles: Mapping[Node, Role],
    strides: Mapping[Node, Strides],
    available: Collection[Node],
) -> list[LoopNest]:
    """The first elements along the axis, and then all others, each from the one before it.

    Rows are the axes before the axis: threads that share them never meet.  Where each row is one
    line of numbers, and there are enough rows for the lanes of vectors, long ones are cut into
    blocks, which these bring into tiles.
    """
    running = _Running(node, roles, strides, available)
    length, rows = node.shape[running.axis], prod(node.shape[: running.axis])
    if length < 2:
        return [running.nest(0, length, is_first=True)]
    if not running.is_line:
        return [running.nest(0, 1, is_first=True), running.nest(1, length - 1)]
    blocks = (length - 1) // LONGEST if rows >= FEWEST else 0
    blocks = blocks if blocks > 1 else 0
    rest = length - 1 - blocks * LONGEST
    nests = [running.nest(0, 1, is_first=True)]
    nests += [running.nest(1, rest)] if rest else []
    nests += [running.nest(1 + rest, blocks * LONGEST, blocks)] if blocks else []
    return nests


@dataclass(frozen=True, eq=False)
class _Running:
    """The nests of a node whose elements come from those before them along an axis."""

    node: Node
    roles: Mapping[Node, Role]
    strides: Mapping[Node, Strides]
    available: Collection[Node]

    @property
    def axis(self) -> int:
        """The axis."""
        return self.node.param("axis")

    @property
    def reverse(self) -> bool:
        """Whether they come from its end."""
        return self.node.param("reverse")

    @property
    def is_line(self) -> bool:
        """Whether elements along the axis lie side by side."""
        return prod(self.node.shape[self.axis + 1 :]) == 1

    def nest(self, start: int, count: int, blocks: int = 1, *, is_first: bool = False) -> LoopNest:
        """So many elements along the axis, from the `start`-th on in the order in which they come;
        the first of all come from none before them."""
        node, axis = self.node, self.axis
        shape = (*node.shape[:axis], count, *node.shape[axis + 1 :])
        outer, columns = shape[:axis], shape[axis:]
        if self.is_line:
            outer = (*outer, blocks) if blocks > 1 else outer
            columns = (count // blocks,)
        nest = Nest(outer, columns, self.roles, self.available, (), self.strides)
        builder = Builder(nest, self.roles, self.strides, self.available)
        domain, rows = builder.domain, len(nest.rows)
        own = natural(shape, domain, len(domain))
        assert own is not None
        where, before = self._places(own, start, count)
        operands = [builder.at(one, where) for one in node.inputs]
        value, found = operands[-1], builder.found
        walk = None
        if not is_first:
            last = read_before(node, address(before, row_major(node.shape), domain), rows)
            if self.is_line and last.inner:
                last.kind, walk = Kind.BEFORE, Walk(self.reverse, blocks)
            made = self._following(last, operands)
            found += [last, *made]
            value = made[-1]
        place = address(where, row_major(node.shape), domain)
        reach = address(own, row_major(shape), domain)
        stores = [Store(node, value, place, reach, any(reach[rows + 1 :]))]
        return LoopNest(nest.rows, nest.columns, stores, found, walk=walk)

    def _places(self, own: IndexMap, start: int, count: int) -> tuple[IndexMap, IndexMap]:
        """Where elements are, and those before them.  A line is walked, and its places rise."""
        length = self.node.shape[self.axis]
        step = -1 if self.reverse else 1
        if self.is_line:
            begin = length - start - count if self.reverse else start
            return self._along(own, begin, 1), self._along(own, begin - step, 1)
        begin = length - 1 - start if self.reverse else start
        return self._along(own, begin, step), self._along(own, begin - step, step)

    def _along(self, where: IndexMap, begin: int, step: int) -> IndexMap:
        """The map with the index along the axis counted from `begin` in steps."""
        index = where[self.axis]
        moved = (begin + step * index[0], *(step * k for k in index[1:]))
        return (*where[: self.axis], moved, *where[self.axis + 1 :])

    def _following(self, last: Instance, operands: list[Instance]) -> list[Instance]:
        """What elements are computed by, of those before them; the value last."""
        if self.node.primitive is not recurrence:
            return [combined(STEPS[self.node.primitive], last, *operands)]
        factor, value = operands
        product = combined(multiply, factor, last)
        rounded = combined(identity, product)  # as NumPy does, and not within the addition
        return [product, rounded, combined(add, value, rounded)]
