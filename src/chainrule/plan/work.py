"""The work of one instruction: loop nests, a product, or one node by the reference evaluation."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import ClassVar

from chainrule.dataclass import dataclass, field
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.types import array_type
from chainrule.plan.checks import Check, checks_of
from chainrule.plan.flow_work import FlowWork, flow_work
from chainrule.plan.foreign import ForeignWork, OfBody, needs
from chainrule.plan.loops.access import address, natural
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, Instance, Kind, LoopNest, Store
from chainrule.plan.loops.nest import NestLayout, computed_by, nest_label
from chainrule.plan.loops.successive import running_nests
from chainrule.plan.loops.windows import windows_cover, windows_nest
from chainrule.plan.order import Alone
from chainrule.plan.products.calls import Call, Multiplying, widened
from chainrule.plan.products.fold import Products
from chainrule.plan.roles import Role, needed, sources_of
from chainrule.plan.routine_work import RoutineWork, routine_work
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.sharing import nest_nanoseconds, sharing
from chainrule.primitives.affine import at_steps, row_major
from chainrule.primitives.cumulative import CUMULATIVE
from chainrule.primitives.primitive import Assemble
from chainrule.primitives.sources import full
from chainrule.primitives.windows import fold_windows
from chainrule.schedule.records import aligned

Strides = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NestWork:
    """Loop nests, one after another.

    `may_take` remembers which values may be written over which that are read (`overwriting`).
    """

    layouts: tuple[NestLayout, ...]
    writes: tuple[Node, ...]
    reads: tuple[Node, ...]
    inner: tuple[Node, ...] = ()
    label: str = ""
    checks: tuple[Check, ...] = ()
    fails: bool = False
    may_take: dict[tuple[Node, Node], bool] = field(default_factory=dict, repr=False)

    allocated_nbytes: ClassVar[int] = 0

    @cached_property
    def workspace_nbytes(self) -> int:
        """What the largest of them needs."""
        return max((aligned(one.workspace_nbytes) for one in self.layouts), default=0)

    @property
    def nanoseconds_alone(self) -> float:
        """About how long it takes on one thread, as `sharing` counts."""
        return sum(one.sharing.nanoseconds for one in self.layouts)


@dataclass(frozen=True, eq=False)
class ProductWork:
    """The products whose sum is `products.root`, with the scalars that scale them."""

    products: Products
    calls: tuple[Call, ...]
    writes: tuple[Node, ...]
    reads: tuple[Node, ...]
    inner: tuple[Node, ...] = ()
    label: str = ""
    workspace_nbytes: int = 0
    checks: tuple[Check, ...] = ()
    fails: bool = False

    allocated_nbytes: ClassVar[int] = 0

    @property
    def nanoseconds_alone(self) -> float:
        """About how long it takes on one thread, as `sharing` counts."""
        packs = sum(pack.sharing.nanoseconds for call in self.calls for pack in call.packs)
        return packs + sum(call.sharing.nanoseconds for call in self.calls)


Work = NestWork | ProductWork | RoutineWork | RowsWork | FlowWork | ForeignWork


def with_bodies(works: Iterable[Work]) -> Iterator[Work]:
    """The works, and those of the bodies of loops and choices among them."""
    for work in works:
        yield work
        if isinstance(work, FlowWork):
            yield from with_bodies(work.works)


def parts_of(work: Work) -> int:
    """The most parts that an instruction has, or anything that it does."""
    if isinstance(work, NestWork):
        return max((one.parts for one in work.layouts), default=1)
    if isinstance(work, ProductWork):
        packs = [m.pack.parts for c in work.calls for m in (c.x, c.y) if m.pack is not None]
        return max([*packs, *(call.parts for call in work.calls)])
    if isinstance(work, RoutineWork):
        return work.sharing.parts
    if isinstance(work, FlowWork):
        begun = (one.layout.parts for one in work.before)
        return max([parts_inside(work), work.parts, *begun])
    return 1


def parts_inside(work: FlowWork) -> int:
    """The most parts of anything that iterations or branches do."""
    return max([1, *(one.layout.parts for one in work.rows), *map(parts_of, work.works)])


@dataclass(frozen=True, eq=False)
class Worker:
    """Makes works from units; `strides` are those of every value in memory.

    `overwriting` are the results that take the array of a given value; `of_body` is what iterations
    of a compiled body take; `nested`: they are those of such a body.
    """

    roles: Mapping[Node, Role]
    strides: Mapping[Node, Strides]
    overwriting: Container[Node]
    threads: int
    vector_nbytes: int
    multiplies_pairs: bool
    blas_from: float
    of_body: OfBody
    nested: bool = False

    def nest(self, nest: LoopNest) -> NestWork:
        """A nest as an instruction; what it computes is told by the nodes of the graph."""
        return self._nests([nest], computed_by([nest]))

    def _nests(self, nests: list[LoopNest], nodes: list[Node], name: str = "") -> NestWork:
        layouts = tuple(self.layout(one) for one in nests)
        writes = tuple(dict.fromkeys(store.node for one in nests for store in one.stores))
        reads = tuple(dict.fromkeys(node for one in nests for node in one.reads))
        inner = tuple(node for node in nodes if node not in writes)
        label = name or nest_label((*inner, *writes))
        return NestWork(layouts, writes, reads, inner, label, checks_of((*inner, *writes)))

    def layout(self, nest: LoopNest) -> NestLayout:
        """How the nest is cut."""
        decided = sharing(nest_nanoseconds(nest), self.threads)
        if any(store.indices for store in nest.stores):
            decided = decided.prevented("updates may meet")
        layout = NestLayout(nest, self.vector_nbytes, decided)
        turns = layout.turns
        if turns >= decided.parts:
            return layout
        fewer = decided.at_most(turns) if turns > 1 else decided.prevented(_rows(layout.row_count))
        return NestLayout(nest, self.vector_nbytes, fewer)

    def rows_of_scatter(self, node: Node, available: set[Node]) -> NestLayout:
        """The updates of a scatter; any rows of them can be added alone."""
        return self._by_row(self._scatter(node, available)[1])

    def rows_of_nest(self, nest: Nest, result: Node, available: set[Node]) -> NestLayout:
        """The nest that stores one result, of which any rows can be computed alone."""
        return self._by_row(Builder(nest, self.roles, self.strides, available).built([result]))

    def _by_row(self, nest: LoopNest) -> NestLayout:
        alone = sharing(nest_nanoseconds(nest), 1)
        return NestLayout(nest, self.vector_nbytes, alone, by_row=True)

    def alone(self, unit: Alone, available: set[Node]) -> list[Work]:
        """A node that no loop nest takes in with others."""
        node, operands = unit.node, unit.operands
        match self.roles[node]:
            case Role.SCATTER:
                nests = self._scatter(node, available)
                return [self._nests(nests, computed_by(nests), "scatter_add")]
            case Role.ASSEMBLED:
                nests = self._assemble(node, available)
                computed = [one for one in computed_by(nests) if one in self.roles]
                return [self._nests(nests, computed, node.primitive.name)]
        reads = [n for n in sources_of(operands, self.roles, available) if n in available]
        inner = _scalar_nodes([*operands], self.roles, available)
        if self.roles[node] is Role.ROUTINE:
            places = self.roles, available, self.strides
            return [routine_work(node, operands, reads, inner, *places, self.threads)]
        if node not in self.overwriting:
            found = flow_work(node, tuple(reads), tuple(inner), self, available)
            if found is not None:
                return [found]
        label = node.primitive.name
        fails = self.roles[node] is Role.FOREIGN
        given = {one: self.strides.get(one) or row_major(one.shape) for one in reads}
        took = needs(node, given, self.of_body, direct=node not in self.overwriting)
        return [ForeignWork(node, tuple(reads), fails, tuple(inner), label, *took[:-1])]

    def builder(self, shape: tuple[int, ...], available: set[Node]) -> Builder:
        """What finds the instances of a nest over these axes."""
        nest = Nest(shape[:-1], shape[-1:], self.roles, available, (), self.strides)
        return Builder(nest, self.roles, self.strides, available)

    def _zeros(self, node: Node, available: set[Node]) -> LoopNest:
        """Zeros in the whole array."""
        builder = self.builder(node.shape, available)
        domain = builder.domain
        zero = full(value=0, type=array_type(node.dtype, node.shape))
        where = natural(node.shape, domain, len(domain))
        assert where is not None
        value = Instance(zero, Kind.NUMBER, uniform=True)
        place = address(where, row_major(node.shape), domain)
        inner = any(place[len(builder.nest.rows) + 1 :])
        store = Store(node, value, place, place, inner)
        return LoopNest(builder.nest.rows, builder.nest.columns, [store], [store.value])

    def _scatter(self, node: Node, available: set[Node]) -> list[LoopNest]:
        """Zeros, and then each update added at its place."""
        updates, *indices = node.inputs
        builder = self.builder(updates.shape, available)
        where = natural(updates.shape, builder.domain, len(builder.domain))
        assert where is not None
        value = builder.at(updates, where)
        found = tuple(builder.at(one, where[: one.ndim]) for one in indices)
        strides, count = row_major(node.shape), len(indices)
        rest = where[indices[0].ndim :]
        place = address(rest, strides[count:], builder.domain)
        reach = address(where, row_major(updates.shape), builder.domain)
        inner = any(reach[len(builder.nest.rows) + 1 :])
        store = Store(node, value, place, reach, inner, True, found, strides[:count])
        nest = LoopNest(builder.nest.rows, builder.nest.columns, [store], builder.found)
        return [self._zeros(node, available), nest]

    def _assemble(self, node: Node, available: set[Node]) -> list[LoopNest]:
        """Copies of the inputs into regions of the result, on zeros where these leave gaps."""
        if node.primitive in CUMULATIVE:
            return running_nests(node, self.roles, self.strides, available)
        if node.primitive is fold_windows:
            nest = windows_nest(node, self.roles, self.strides, available)
            return [nest] if windows_cover(node) else [self._zeros(node, available), nest]
        strides = row_major(node.shape)
        nests: list[LoopNest] = []
        kernel = node.primitive.kernel
        assert isinstance(kernel, Assemble)
        if kernel.gaps:
            nests.append(self._zeros(node, available))
        for source, (start, step) in zip(node.inputs, kernel.regions(node), strict=True):
            builder = self.builder(source.shape, available)
            where = natural(source.shape, builder.domain, len(builder.domain))
            assert where is not None
            value = builder.at(source, where)
            place = address(at_steps(start, step, where), strides, builder.domain)
            reach = address(where, row_major(source.shape), builder.domain)
            inner = any(reach[len(builder.nest.rows) + 1 :])
            store = Store(node, value, place, reach, inner)
            nests.append(LoopNest(builder.nest.rows, builder.nest.columns, [store], builder.found))
        return nests

    def products(self, unit: Products, available: set[Node]) -> list[Work]:
        """Matrix products as calls of tiles or of BLAS."""
        calls_of = Multiplying(
            self.roles,
            self.strides,
            self.threads,
            self.vector_nbytes,
            self.multiplies_pairs,
            self.blas_from,
            self.layout,
        )
        calls: list[Call] = []
        reads: dict[Node, None] = {}
        workspace = 0
        out_strides = self.strides[unit.root]
        for term, alpha in unit.terms:
            call, nbytes = calls_of.call(term, alpha, out_strides, available)
            calls.append(call)
            workspace = max(workspace, nbytes)  # one call ends before the next begins
            for matrix in (call.x, call.y):
                reads.setdefault(matrix.node)
        for scalar in unit.scalars:
            reads.update(dict.fromkeys(needed(scalar, self.roles, available)))
        if unit.base is not None:
            reads.setdefault(unit.base)
        scalars = _scalar_nodes(unit.scalars, self.roles, available)
        label = "product" if len(calls) == 1 else f"{len(calls)} products"
        casts = [one for term, _ in unit.terms for one in widened(term, available)]
        found = tuple(dict.fromkeys([*unit.absorbed, *scalars, *casts]))
        return [
            ProductWork(unit, tuple(calls), (unit.root,), tuple(reads), found, label, workspace)
        ]


def _rows(count: int) -> str:
    return f"it has {count} row{'s' * (count > 1)}" if count else "it has no rows"


def _scalar_nodes(
    nodes: list[Node], roles: Mapping[Node, Role], available: set[Node]
) -> list[Node]:
    """The scalars that are computed where they are used, with all that they need."""
    found: dict[Node, None] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node in available:
            continue
        if node not in found and roles[node] is Role.SCALAR:
            found.setdefault(node)
            pending += node.inputs
        elif roles[node] is Role.MOVED:
            pending += node.inputs
    return list(found)
