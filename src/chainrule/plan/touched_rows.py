"""Finds updates of which only the rows need be done that a batch touches: see `rows_work`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from chainrule.graph.node import Node
from chainrule.plan.checks import reliance
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Kind, LoopNest
from chainrule.plan.order import Alone, Unit
from chainrule.plan.roles import Role, nbytes_of
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.speeds import speeds_of
from chainrule.plan.work import NestWork, Work, Worker
from chainrule.primitives.affine import row_major
from chainrule.primitives.arithmetic import add, multiply, negative, subtract
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape

Made = list[tuple[Unit, Work]]
MOST_ROWS = 2**31  # what a slot can number
MOST = 2  # half of the rows: 30,000 of 50,000 in any order took longer than all in theirs


def with_touched_rows(
    made: Made, worker: Worker, values: set[Node], taken: Mapping[Node, Node]
) -> Made:
    """The works where such updates are one with the scatter that they read; what is stored no
    longer leaves `values`.  `taken` maps results to the given values whose arrays they take."""
    roles = worker.roles
    scatters = {
        unit.node: number
        for number, (unit, _) in enumerate(made)
        if isinstance(unit, Alone) and roles[unit.node] is Role.SCATTER
    }
    if not scatters or not taken:
        return made
    stops, _ = reliance([work for _, work in made])
    readers = Counter(node for _, work in made for node in work.reads)
    found: dict[int, RowsWork] = {}
    gone: set[int] = set()
    available = {node for node, role in roles.items() if role is Role.GIVEN}
    for number, (unit, work) in enumerate(made):
        before = set(available)
        available.update(work.writes)
        if not isinstance(unit, Nest) or len(work.writes) != 1 or work.writes[0] not in taken:
            continue
        for node in work.reads:
            first = scatters.get(node)
            if first is None or readers[node] > 1 or stops[first]:
                continue
            rows = _rows_work(made[first], (unit, work), worker, before, taken)
            if rows is not None and _pays(rows, (made[first][1], work), worker):
                found[number] = rows
                gone.add(first)
                values.discard(node)
    if not found:
        return made
    return [
        (made[number][0], found.get(number, made[number][1]))
        for number in range(len(made))
        if number not in gone
    ]


def _pays(rows: RowsWork, others: Sequence[Work], worker: Worker) -> bool:
    """Whether it is quicker than both works that it replaces, in no more bytes."""
    if rows.count * MOST > rows.height or rows.workspace_nbytes > nbytes_of(rows.scattered):
        return False
    speeds = speeds_of(worker.vector_nbytes)
    return work_nanoseconds(rows, speeds) < sum(work_nanoseconds(one, speeds) for one in others)


def _rows_work(
    scatter: tuple[Unit, Work],
    update: tuple[Unit, Work],
    worker: Worker,
    available: set[Node],
    taken: Mapping[Node, Node],
) -> RowsWork | None:
    """Both as one work; None where that cannot be."""
    (alone, adding), (nest, updating) = scatter, update
    assert isinstance(alone, Alone) and isinstance(nest, Nest)
    assert isinstance(adding, NestWork) and isinstance(updating, NestWork)
    node, (result,) = alone.node, updating.writes
    table, (_, *indices) = taken[result], node.inputs
    if len(indices) != 1 or node.ndim < 2 or not node.type.size or len(updating.layouts) != 1:
        return None
    if table.shape != node.shape or table.dtype != node.dtype or table.shape[0] >= MOST_ROWS:
        return None
    if nest.rows != node.shape[:-1] or not _leaves(result, table, node):
        return None
    index = indices[0]
    while index.primitive is reshape:
        (index,) = index.inputs
    if worker.strides.get(index) != row_major(index.shape) or index.dtype.kind != "i":
        return None  # not in memory as it is
    if index.dtype.itemsize not in (4, 8) or not {*taken.values()}.isdisjoint(adding.reads):
        return None  # what it reads may be overwritten until the update runs
    adds = worker.rows_of_scatter(node, available)
    layout = worker.rows_of_nest(nest, result, available)
    if adds.part_nbytes or layout.part_nbytes or not _is_elementwise(layout.nest):
        return None
    reads = [*adds.nest.reads, *layout.nest.reads, index]
    return RowsWork(
        scattered=node,
        table=table,
        indices=index,
        adds=adds,
        update=layout,
        writes=(result,),
        reads=tuple([one for one in dict.fromkeys(reads) if one is not node]),
        inner=(*adding.inner, node, *updating.inner),
        label=f"{adding.label}, {updating.label}",
        checks=adding.checks,
    )


def _leaves(result: Node, table: Node, scattered: Node) -> bool:
    """Whether the result is the table where `scattered` is 0 (for finite scales)."""
    if result.primitive not in (add, subtract):
        return False
    one, other = result.inputs
    if result.primitive is add and other is table:
        one, other = other, one
    return one is table and _is_multiple(other, scattered)


def _is_multiple(node: Node, scattered: Node) -> bool:
    """Whether the node is `scattered` times one number."""
    match node.primitive, node.inputs:
        case (p, (one,)) if p is negative:
            return _is_multiple(one, scattered)
        case (p, (one, other)) if p is multiply and _is_number(one):
            return _is_multiple(other, scattered)
        case (p, (one, other)) if p is multiply and _is_number(other):
            return _is_multiple(one, scattered)
    return node is scattered


def _is_number(node: Node) -> bool:
    """Whether it is the same for all elements."""
    while node.primitive in (broadcast_to, reshape, cast):
        (node,) = node.inputs
    return node.type.size == 1


def _is_elementwise(nest: LoopNest) -> bool:
    """Whether each element it stores is computed of what lies in the same place, and of numbers."""
    (store,) = nest.stores
    kinds = (Kind.LOAD, Kind.NUMBER, Kind.MAP)
    loads = [one for one in nest.instances if one.kind is Kind.LOAD and not one.uniform]
    alike = all(one.place == store.place for one in loads)
    return alike and not store.fold and all(one.kind in kinds for one in nest.instances)
