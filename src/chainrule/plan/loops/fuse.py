"""Which nodes one loop nest computes: elementwise trees, reductions, chains over rows.

A nest runs over rows, and within a row over columns, once or several times (sweeps).  A member is
computed for every POINT, or once in a ROW (from a reduction over the columns), or is a TOTAL: a
reduction that is complete only when the whole nest has run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from enum import Enum, auto
from math import prod
from typing import Literal

from chainrule.graph.node import Node
from chainrule.plan.loops.access import natural, pulled, refined
from chainrule.plan.loops.addresses import place_in_memory
from chainrule.plan.roles import TRANSPARENT, Role, sources
from chainrule.primitives.affine import Domain, IndexMap
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.reduce import PLACES, folded_axes
from chainrule.primitives.sources import iota

SMALL_TOTAL = 2048  # elements of a whole reduction that its own nest may go on with
LARGEST = 96  # nodes in one nest: what LLVM's register allocator sees at once stays bounded


class Level(Enum):
    """How often a member of a nest is computed."""

    POINT = auto()
    ROW = auto()
    TOTAL = auto()


class Nest:
    """Nodes that one loop nest over `rows` and `columns` computes, growing while it is planned.

    `done` are the nodes whose values exist before the nest runs; `storage` has the strides, in
    elements, of those that do not lie in C order.
    """

    def __init__(
        self,
        rows: Domain,
        columns: Domain,
        roles: Mapping[Node, Role],
        done: Collection[Node],
        stored: Collection[Node],
        storage: Mapping[Node, tuple[int, ...]],
    ) -> None:
        self._storage = storage
        self.rows = tuple(size for size in rows if size != 1)
        self.columns = tuple(size for size in columns if size != 1)
        self.members: dict[Node, Level] = {}
        self._roles, self._done, self._stored = roles, done, stored

    @property
    def domain(self) -> Domain:
        """The lengths of all axes, rows first."""
        return self.rows + self.columns

    @property
    def is_full(self) -> bool:
        """Whether it takes no more nodes."""
        return len(self.members) >= LARGEST

    def join(self, node: Node) -> bool:
        """Take the node in where the nest can compute it."""
        if self.is_full:
            return False
        while True:
            level = self._level(node)
            if isinstance(level, Level):
                self.members[node] = level
                return True
            if level is None or not self._refine(level):
                return False

    def joined_by(self, nodes: Iterable[Node]) -> Nest:
        """A nest that takes these nodes in as well, where it can."""
        found = copy(self)
        found.members = dict(self.members)
        for node in nodes:
            found.join(node)
        return found

    def where(self, node: Node) -> IndexMap | None:
        """The place of the node that a point of the domain means, if it is of every point or of
        every row."""
        for axes in (len(self.domain), len(self.rows)):
            found = natural(node.shape, self.domain, axes)
            if found is not None:
                return found
        return None

    def unreadable(self, node: Node) -> Node | None:
        """What the node, which cannot join, reads at places that no index map says, and nobody has
        stored; None if there is no such value."""
        match self._roles[node]:
            case Role.FOLD:
                reads = node.inputs[:1]
            case Role.GATHER:
                reads = node.inputs[1:]
            case Role.MAP:
                reads = node.inputs
            case _:
                reads = (node,)
        for one in reads:
            where = self.where(one)
            while where is not None and self._roles[one] is Role.MOVED and one not in self._done:
                source, found = one.inputs[0], pulled(one, where, self.domain)
                if found is None and not self._in_memory(one, where):
                    free = self._roles[source] in TRANSPARENT and source not in self._stored
                    return source if free else None
                one, where = source, found
        return None

    def _refine(self, shape: tuple[int, ...]) -> bool:
        """Cut the axes finer, so that those of a value fit; False where that changes nothing."""
        finer = refined(self.domain, shape) if prod(shape) == prod(self.domain) else None
        if finer is None:
            rows = refined(self.rows, shape) if prod(shape) == prod(self.rows) else None
            finer = None if rows is None else rows + self.columns
        if finer is None or finer == self.domain:
            return False
        count, total = len(finer), 1
        while total < prod(self.columns):
            count -= 1
            total *= finer[count]
        self.rows, self.columns = finer[:count], finer[count:]
        return True

    def _level(self, node: Node) -> Level | tuple[int, ...] | None:
        """The node's level; the shape for which the axes are too coarse; None if it cannot join."""
        match self._roles[node]:
            case Role.MAP | Role.MOVED | Role.GENERATED | Role.SCALAR:
                return self._elementwise(node, node.inputs)
            case Role.FOLD:
                return self._fold(node)
            case Role.GATHER:
                return self._gather(node)
            case Role.SCATTER if is_one_hot(node):
                return self._elementwise(node, node.inputs[:1] + node.inputs[2:], one_hot=True)
        return None

    def _own_level(self, where: IndexMap) -> Level:
        inner = len(self.rows) + 1
        varies = any(any(one[inner:]) for one in where)
        return Level.POINT if varies or not self.columns else Level.ROW

    def _elementwise(
        self, node: Node, operands: tuple[Node, ...], one_hot: bool = False
    ) -> Level | tuple[int, ...] | None:
        where = self.where(node)
        if where is None:
            return node.shape if self._could_refine(node) else None
        for operand in operands:
            place = where
            if one_hot or operand.ndim != node.ndim:
                place = where[: operand.ndim]
            if self._roles[node] is Role.MOVED:
                found = pulled(node, where, self.domain)
                if found is None and self._in_memory(node, where):
                    continue
                if found is None:
                    return operand.shape
                place = found
            reads = self._reads(operand, place)
            if reads is not True:
                return reads
        return self._own_level(where)

    def _could_refine(self, node: Node) -> bool:
        return prod(node.shape) in (prod(self.domain), prod(self.rows))

    def _reads(self, node: Node, where: IndexMap) -> Literal[True] | tuple[int, ...] | None:
        """Whether the value can be read at these places: True, or the shape for which the axes
        are too coarse, or None."""
        while True:
            role = self._roles[node]
            if node in self.members:
                same = self.members[node] is not Level.TOTAL and self.where(node) == where
                return True if same else None
            if node in self._done:
                return True
            if role is Role.GENERATED:
                return True
            if role is Role.SCALAR:
                return self._all_done(node)
            if role is not Role.MOVED or node in self._stored:
                return None
            found = pulled(node, where, self.domain)
            if found is None:
                return True if self._in_memory(node, where) else node.inputs[0].shape
            node, where = node.inputs[0], found

    def _in_memory(self, node: Node, where: IndexMap) -> bool:
        """Whether the node shows, at affine places, what is done (and so may be in memory)."""
        found = place_in_memory(node, where, self.domain, self._roles, self._done, self._storage)
        return found is not None

    def _all_done(self, node: Node) -> Literal[True] | None:
        needed = sources(node, self._roles, self._stored)
        return True if all(one in self._done for one in needed) else None

    def _fold(self, node: Node) -> Level | tuple[int, ...] | None:
        x = node.inputs[0]
        where = self.where(x)
        if where is None:
            return x.shape if self._could_refine(x) else None
        reads = self._reads(x, where)
        if reads is not True:
            return reads
        axes = folded_axes(node)
        reduced = {place for axis in axes for place, k in enumerate(where[axis][1:]) if k}
        columns = set(range(len(self.rows), len(self.domain)))
        if reduced == columns and columns:
            if len(axes) == x.ndim and self._in_parts(node):
                return Level.TOTAL
            return Level.ROW
        # A vector runs along the last axis: its lanes are added to each other in a row only.
        within = len(self.domain) - 1 in reduced and not columns <= reduced
        return None if node.primitive in PLACES or (within and columns) else Level.TOTAL

    def _in_parts(self, node: Node) -> bool:
        """Make the only row, where it is long, rows of one point, so that threads share them; False
        where its values are needed as those of a row."""
        if self.rows or node.primitive in PLACES or prod(self.columns) <= SMALL_TOTAL:
            return False
        if Level.ROW in self.members.values():
            return False
        self.rows, self.columns = self.columns, ()
        return True

    def _gather(self, node: Node) -> Level | tuple[int, ...] | None:
        x, *indices = node.inputs
        where = self.where(node)
        if where is None:
            return node.shape if self._could_refine(node) else None
        for index in indices:
            reads = self._reads(index, where[: index.ndim])
            if reads is not True:
                return reads
        base = x
        while self._roles[base] is Role.MOVED and base not in self._stored:
            base = base.inputs[0]
        if base in self._done:
            return self._own_level(where)
        if base is x and is_row_lookup(node) and self.members.get(x) is Level.POINT:
            rows, columns = x.shape
            fits = rows == prod(self.rows) and columns == prod(self.columns)
            return Level.ROW if fits and self._own_level(where) is Level.ROW else None
        return None


def is_one_hot(node: Node) -> bool:
    """Whether a scatter puts one update into each row: it is elementwise then."""
    rows = node.inputs[1]
    return (
        node.primitive is scatter_add
        and len(node.inputs) == 3
        and node.ndim == 2
        and rows.primitive is iota
        and rows.shape == node.shape[:1]
    )


def is_row_lookup(node: Node) -> bool:
    """Whether a gather takes one element of each row of a matrix."""
    x, *indices = node.inputs
    rows = indices[0]
    return (
        len(indices) == 2 and x.ndim == 2 and rows.primitive is iota and rows.shape == x.shape[:1]
    )
