"""Whether a kernel may write a result over a given array that it also reads."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.graph.node import Node
from chainrule.plan.loops import Instance, Kind, Store
from chainrule.plan.nest import NestLayout
from chainrule.plan.work import ForeignWork, NestWork, ProductWork, Work


def harmful(work: Work, taken: Mapping[Node, Node]) -> list[Node]:
    """The results that would be written over elements which the work still has to read.

    `taken` maps a result to the given value whose array it is to take.
    """
    found = [node for node in work.writes if taken.get(node) in work.reads]
    return [node for node in found if not _may_take(work, node, taken[node])]


def _may_take(work: Work, result: Node, given: Node) -> bool:
    match work:
        case ForeignWork():
            return True  # it is evaluated elsewhere, and then copied
        case ProductWork():
            read = [one.node for call in work.calls for one in (call.x, call.y)]
            read += _read_for(work.products.scalars, work)
            return work.products.base is given and given not in read
        case NestWork(layouts=(layout,)):
            stores = [one for one in layout.nest.stores if one.node is result]
            return all(_takes_element_by_element(layout, one, given) for one in stores)
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
