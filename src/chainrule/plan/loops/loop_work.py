"""What one loop nest reads, computes and writes, point by point and row by row.

An `Instance` is a value at the places that an index map gives.  The nest goes over each row in
*sweeps*: what depends on a reduction over the row is computed in a later sweep than the reduction.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from chainrule.graph.node import Node
from chainrule.plan.loops.access import address, natural, pulled
from chainrule.plan.loops.addresses import axis_by_axis, place_in_memory
from chainrule.plan.loops.fuse import Level, Nest
from chainrule.plan.roles import Role
from chainrule.primitives.affine import Affine, Domain, IndexMap, row_major
from chainrule.primitives.reduce import folded_axes
from chainrule.primitives.sources import iota

Strides = tuple[int, ...]


class Kind(Enum):
    """How an instance comes about."""

    LOAD = auto()  # read from memory
    NUMBER = auto()  # a uniform constant
    INDEX = auto()  # a position
    MAP = auto()  # an elementwise expression
    FOLD = auto()  # a reduction over the columns
    GATHER = auto()  # read from memory at an index that was computed
    LOOKUP = auto()  # a value of this nest at a column that was computed
    ONE_HOT = auto()  # an update where the column is an index, else 0
    BEFORE = auto()  # what was stored in the column before; read from memory in the first


class NotAffineError(Exception):
    """A value that no affine index map reads; it must be stored."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


@dataclass(eq=False, slots=True)
class Instance:
    """A value at the places that an index map gives.

    `place` is the affine address of a LOAD in the array of `source` (or the fixed part of a
    GATHER's, whose index operands count `factors` elements each), or the value of an INDEX.
    `inner`: it differs from column to column; `uniform`: it is the same everywhere.  `sweep` is
    the first in which it can be computed.
    """

    node: Node
    kind: Kind
    operands: tuple[Instance, ...] = ()
    source: Node | None = None
    place: Affine = ()
    factors: Strides = ()
    inner: bool = False
    uniform: bool = False
    sweep: int = 0

    def elsewhere(self, place: Affine, operands: tuple[Instance, ...], inner: bool) -> Instance:
        """The same at other places, computed from these operands."""
        uniform, sweep = self.uniform, self.sweep
        return Instance(
            self.node, self.kind, operands, self.source, place, self.factors, inner, uniform, sweep
        )


@dataclass(eq=False, slots=True)
class Store:
    """`value` is written to the array of `node` at `place`; with `fold`, it is combined with what
    is there (a reduction over axes that the place does not depend on).  `reach` counts the points
    at which this is done; `inner`: it is done in every column.  With `indices`, the value is added
    at the place that they say, each counting `factors` elements."""

    node: Node
    value: Instance
    place: Affine
    reach: Affine
    inner: bool
    fold: bool = False
    indices: tuple[Instance, ...] = ()
    factors: Strides = ()


class Walk(NamedTuple):
    """Columns that are gone over one by one, from the last one where `backward`, as each needs what
    the one before has stored.  Where a row is cut into `blocks` of columns, these are the last axis
    of the rows, and one thread does all of them, in order."""

    backward: bool
    blocks: int = 1


@dataclass(eq=False)
class LoopNest:
    """A nest ready for code: axes, what it stores, and every instance, operands first.

    `rounded` are the nodes whose products are rounded before anything is added to them: those
    that it stores, and of a part those that the whole nest does.  Without `walk`, the order of the
    columns does not matter.
    """

    rows: Domain
    columns: Domain
    stores: list[Store]
    instances: list[Instance] = field(default_factory=list)
    rounded: frozenset[Node] = frozenset()
    walk: Walk | None = None

    def __post_init__(self) -> None:
        self.rounded |= {store.node for store in self.stores}

    @property
    def blocks(self) -> int:
        """How many neighbouring rows one thread does in their order."""
        return 1 if self.walk is None else self.walk.blocks

    @property
    def sweeps(self) -> int:
        """How often the columns of a row are gone over."""
        found = [one.sweep for one in self.instances if one.inner]
        found += [one.operands[0].sweep for one in self.instances if one.kind is Kind.FOLD]
        return max(found, default=-1) + 1

    @property
    def reads(self) -> list[Node]:
        """The stored values that it reads, but for what it writes itself."""
        kinds, written = (Kind.LOAD, Kind.GATHER), {store.node for store in self.stores}
        found = (one.source for one in self.instances if one.kind in kinds)
        return list(dict.fromkeys(one for one in found if one is not None and one not in written))


class Builder:
    """Finds the instances of one nest.

    `storage` gives the strides, in elements, of the array of every node that is in memory when
    the nest runs, and of those that it writes.
    """

    def __init__(
        self,
        nest: Nest,
        roles: Mapping[Node, Role],
        storage: Mapping[Node, Strides],
        available: Container[Node],
    ) -> None:
        self.nest, self.roles, self.storage, self.available = nest, roles, storage, available
        self.domain = nest.domain
        self.axes = len(nest.rows)
        self.instances: dict[tuple[Node, IndexMap], Instance] = {}

    def built(self, wanted: list[Node]) -> LoopNest:
        """The nest that stores `wanted`, which are members of it."""
        stores = [self._store(node) for node in wanted]
        return LoopNest(self.nest.rows, self.nest.columns, stores, self.found)

    @property
    def found(self) -> list[Instance]:
        """All instances so far, operands first."""
        return list(self.instances.values())

    def _store(self, node: Node) -> Store:
        strides = self.storage[node]
        if self.nest.members[node] is not Level.TOTAL:
            where = self.nest.where(node)
            assert where is not None
            value = self._computed(node, where)
            return self._stored(node, value, address(where, strides, self.domain), where, node)
        x = node.inputs[0]
        where = self.nest.where(x)
        assert where is not None
        axes = node.param("axes")
        out = tuple(one for axis, one in enumerate(where) if axis not in axes)
        place = address(out, strides, self.domain)
        return self._stored(node, self.at(x, where), place, where, x)

    def _stored(
        self, node: Node, value: Instance, place: Affine, where: IndexMap, points: Node
    ) -> Store:
        reach = address(where, row_major(points.shape), self.domain)
        inner = any(reach[self.axes + 1 :])
        return Store(node, value, place, reach, inner, fold=points is not node)

    def _computed(self, node: Node, where: IndexMap) -> Instance:
        """The instance of a member that this nest itself writes."""
        if self.roles[node] is Role.MOVED:
            found = pulled(node, where, self.domain)
            if found is not None:
                return self.at(node.inputs[0], found)
            if self._in_memory(node, where) is None:
                raise NotAffineError(node.inputs[0])
        return self.at(node, where)

    def at(self, node: Node, where: IndexMap) -> Instance:
        """The instance, with all that it needs; no recursion, since chains may be long."""
        root = self._base(node, where)
        pending = [root]
        while pending:
            key = pending[-1]
            if key in self.instances:
                pending.pop()
                continue
            needed = [self._base(*one) for one in self._operands(*key)]
            missing = [one for one in needed if one not in self.instances]
            if missing:
                pending += missing
                continue
            pending.pop()
            operands = tuple(self.instances[one] for one in needed)
            self.instances[key] = self._instance(*key, operands)
        return self.instances[root]

    def _base(self, node: Node, where: IndexMap) -> tuple[Node, IndexMap]:
        """Through nodes that only move elements, to where the value is stored or computed; one
        place serves for values that are the same everywhere."""
        while self.roles[node] is Role.MOVED and node not in self.available:
            found = pulled(node, where, self.domain)
            if found is None:
                if self._in_memory(node, where) is not None:
                    return node, where
                raise NotAffineError(self._wanted(node))
            node, where = node.inputs[0], found
        if node not in self.available and (
            self.roles[node] is Role.SCALAR
            or (self.roles[node] is Role.GENERATED and node.primitive is not iota)
        ):
            where = ((0,) * (len(self.domain) + 1),) * node.ndim
        return node, where

    def _in_memory(self, node: Node, where: IndexMap) -> tuple[Node, Affine] | None:
        return place_in_memory(node, where, self.domain, self.roles, self.available, self.storage)

    def _wanted(self, node: Node) -> Node:
        """What must be in memory so that a node which only moves it can be read: what the node
        moves, and if this very nest computes that, what it was made of."""
        base = self._moved(node)
        if base in self.available:
            return node
        source = node.inputs[0]
        return base if source in self.nest.members else source

    def _is_computed(self, node: Node) -> bool:
        return self._moved(node) not in self.available

    def _moved(self, node: Node) -> Node:
        """What is moved, through all that only move it."""
        while self.roles[node] is Role.MOVED and node not in self.available:
            node = node.inputs[0]
        return node

    def _operands(self, node: Node, where: IndexMap) -> list[tuple[Node, IndexMap]]:
        """What the instance is computed from, and where."""
        if node in self.available:
            return []
        match self.roles[node]:
            case Role.MAP | Role.SCALAR:
                return [(one, where) for one in node.inputs]
            case Role.FOLD:
                return [(node.inputs[0], self._folded_where(node, where))]
            case Role.SCATTER:
                update, _, column = node.inputs
                return [(update, where[:1]), (column, where[:1])]
            case Role.GATHER:
                x, *indices = node.inputs
                found = [(one, where[: one.ndim]) for one in indices]
                if self._is_computed(x):
                    inner = natural(x.shape, self.domain, len(self.domain))
                    assert inner is not None
                    return [(x, inner), found[1]]
                return found
        return []

    def _folded_where(self, node: Node, where: IndexMap) -> IndexMap:
        """Where a reduction over the columns reads its input."""
        x = node.inputs[0]
        axes = folded_axes(node)
        found = natural(x.shape, self.domain, len(self.domain))
        assert found is not None
        kept = iter(where)
        return tuple(one if axis in axes else next(kept) for axis, one in enumerate(found))

    def _instance(self, node: Node, where: IndexMap, operands: tuple[Instance, ...]) -> Instance:
        stored = self._in_memory(node, where)
        if stored is not None:
            return self._placed(Instance(node, Kind.LOAD, source=stored[0], place=stored[1]))
        if node.primitive is iota:
            return self._placed(Instance(node, Kind.INDEX, place=where[0]))
        match self.roles[node]:
            case Role.GENERATED:
                return Instance(node, Kind.NUMBER, uniform=True)
            case Role.MAP | Role.SCALAR:
                return self._combined(Instance(node, Kind.MAP, operands))
            case Role.FOLD:
                one = self._combined(Instance(node, Kind.FOLD, operands))
                one.inner, one.uniform = False, False
                one.sweep += 1
                return one
            case Role.SCATTER:
                one = self._combined(Instance(node, Kind.ONE_HOT, operands, place=where[1]))
                one.inner = one.inner or any(where[1][self.axes + 1 :])
                one.uniform = False
                return one
            case Role.GATHER:
                return self._gathered(node, where, operands)
        raise AssertionError(f"{node!r} is no member of a nest")

    def _placed(self, one: Instance) -> Instance:
        one.inner = any(one.place[self.axes + 1 :])
        one.uniform = not any(one.place[1:])
        return one

    def _combined(self, one: Instance) -> Instance:
        one.inner = any(x.inner for x in one.operands)
        one.uniform = all(x.uniform for x in one.operands)
        one.sweep = max((x.sweep for x in one.operands), default=0)
        return one

    def _gathered(self, node: Node, where: IndexMap, operands: tuple[Instance, ...]) -> Instance:
        x, *indices = node.inputs
        if self._is_computed(x):
            one = self._combined(Instance(node, Kind.LOOKUP, operands))
            one.inner, one.uniform = False, False
            return one
        shown = place_in_memory(
            x, axis_by_axis(x.shape), x.shape, self.roles, self.available, self.storage
        )
        if shown is None:
            raise NotAffineError(x)
        base, strides = shown
        rest = where[indices[0].ndim :]
        place = list(address(rest, strides[1 + len(indices) :], self.domain))
        place[0] += strides[0]
        factors = strides[1 : 1 + len(indices)]
        one = Instance(node, Kind.GATHER, operands, base, tuple(place), factors)
        one = self._combined(one)
        one.inner = one.inner or any(place[self.axes + 1 :])
        one.uniform = one.uniform and not any(place[1:])
        return one
