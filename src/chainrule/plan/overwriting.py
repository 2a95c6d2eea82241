"""Whether a kernel may write a result over a given array that it also reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard

from chainrule.graph.node import Node
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.loops.fuse import is_one_hot, is_row_lookup
from chainrule.plan.loops.loop_work import Instance, Kind, Store
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.roles import size_of
from chainrule.plan.rows_work import RowsWork
from chainrule.plan.work import NestWork, ProductWork, Work
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.primitive import MOVING, Gather, Library

IN_ORDER = (reshape, broadcast_to)  # of those that move elements


def harmful(work: Work, taken: Mapping[Node, Node]) -> list[Node]:
    """The results that would be written over elements which the work still has to read.

    `taken` maps a result to the given value whose array it is to take.
    """
    found = [node for node in work.writes if taken.get(node) in work.reads]
    return [node for node in found if not _may_take(work, node, taken[node])]


def takes_over(work: Work) -> TypeGuard[NestWork]:
    """Whether values of a work may take over the bytes of those that it reads last."""
    return isinstance(work, NestWork) and len(work.layouts) == 1


def successors(work: Work, dying: Collection[Node], written: Iterable[Node]) -> dict[Node, Node]:
    """For values that a work writes, the values whose bytes they may take over in place.

    `dying` are values that the work is the last to read, `written` those to find bytes for, the
    most important first.  Each value is taken once, by one with as many elements.
    """
    if not takes_over(work):
        return {}
    found: dict[Node, Node] = {}
    for result in written:
        for value in dying:
            same = value.dtype.itemsize == result.dtype.itemsize
            if not same or size_of(value) != size_of(result) or value in found.values():
                continue
            known = work.may_take.get((result, value))
            if known is None:
                known = work.may_take[result, value] = _may_take(work, result, value)
            if known:
                found[result] = value
                break
    return found


def _keeps_order(work: NestWork, value: Node) -> bool:
    """Whether elements of the value stay in their order all the way to what the work writes.

    So much can be seen without knowing the loops: the simulator asks for it.
    """
    pending = [(node, False) for node in work.writes]
    seen = set(pending)
    while pending:
        node, moved = pending.pop()
        if node is value and moved:
            return False
        if node in work.reads:
            continue
        kernel = node.primitive.kernel
        moved = moved or (isinstance(kernel, (*MOVING, Library)) and node.primitive not in IN_ORDER)
        moved = moved or (
            isinstance(kernel, Gather) and not (is_one_hot(node) or is_row_lookup(node))
        )
        found = {(one, moved) for one in node.inputs} - seen
        seen |= found
        pending += found
    return True


def _may_take(work: Work, result: Node, given: Node) -> bool:
    match work:
        case ForeignWork():
            return True  # it is evaluated elsewhere, and then copied
        case RowsWork():
            return given is work.table
        case ProductWork():
            read = [one.node for call in work.calls for one in (call.x, call.y)]
            read += _read_for(work.products.scalars, work)
            return work.products.base is given and given not in read
        case NestWork(layouts=(layout,)):
            stores = [one for one in layout.nest.stores if one.node is result]
            return _keeps_order(work, given) and all(
                _takes_element_by_element(layout, one, given) for one in stores
            )
    return False


def _read_for(scalars: list[Node], work: ProductWork) -> list[Node]:
    """The values in memory that the scalars of a product are computed from."""
    pending, found = list(scalars), []
    while pending:
        node = pending.pop()
        if node in work.reads:
            found.append(node)
        else:
            pending += node.inputs
    return found


def _takes_element_by_element(layout: NestLayout, store: Store, given: Node) -> bool:
    """Each element of the given array is read where, and not after, its own is written."""
    nest = layout.nest
    loads = [one for one in nest.instances if one.source is given]
    if store.fold or any(one.kind is not Kind.LOAD or one.place != store.place for one in loads):
        return False
    axes = nest.rows + nest.columns if store.inner else nest.rows
    repeats = any(size > 1 and not k for size, k in zip(axes, store.place[1:], strict=False))
    if repeats and (any(store.place[1:]) or layout.parts > 1):
        return False  # what is written for one row would be read for another
    last = store.value.sweep
    later = [one for sweep in layout.sweeps[last + 1 :] for one in sweep.computes]
    later += [one for one in nest.instances if one.kind is Kind.LOOKUP and one.sweep > last]
    return not any(_reads(one, given) for one in later)


def _reads(one: Instance, given: Node) -> bool:
    """Whether the instance is computed in a column from elements of the given array."""
    pending, seen = [one], set()
    while pending:
        now = pending.pop()
        if now.source is given:
            return True
        if now not in seen:
            seen.add(now)
            pending += [x for x in now.operands if x.inner]
    return False
