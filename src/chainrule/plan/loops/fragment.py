"""Fragments of a loop nest: some of what it writes, with the bits that the whole nest gives.

A fragment reads from memory what others have written.  It has the axes and vectors of the whole
nest, and its reductions add up in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import replace

from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest, Store
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.loops.sweeps import Sweep, reduces_columns


def is_readable(store: Store) -> bool:
    """Whether other fragments can read what it writes in place of computing it, point by point."""
    value = store.value
    computed = store.node is value.node and not value.uniform and value.kind is not Kind.LOAD
    return computed and not store.fold and not store.indices and store.inner == value.inner


def has_fragments(layout: NestLayout) -> bool:
    """Whether what a nest writes can be written by fragments: each value once, nothing of it is
    read there, and no index is checked."""
    nest = layout.nest
    written = {store.node for store in nest.stores}
    reads_itself = any(one.source in written for one in nest.instances)
    return not (layout.fails or reads_itself) and len(written) == len(nest.stores)


def needed_for(stores: Iterable[Store], known: Container[Instance]) -> set[Instance]:
    """What the nest computes for these stores, and what it has of the values `known`."""
    found: set[Instance] = set()
    pending = [store.value for store in stores]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            if one not in known:
                pending += one.operands
    return found


def fragment(
    layout: NestLayout, wanted: Collection[Node], known: Container[Node]
) -> NestLayout | None:
    """The nest that writes only `wanted`, and reads the values of `known` that others write;
    None where it would add up in another order."""
    nest = layout.nest
    stores = [one for one in nest.stores if one.node in wanted]
    lying = {one.value: one for one in nest.stores if one.node in known and is_readable(one)}
    needed = needed_for(stores, lying)
    made: dict[Instance, Instance] = {}
    for one in nest.instances:
        if one not in needed:
            continue
        if one in lying:
            place, inner = lying[one].place, one.inner
            made[one] = Instance(one.node, Kind.LOAD, (), one.node, place, inner=inner)
            continue
        operands = tuple(made[operand] for operand in one.operands)
        sweep = max((operand.sweep for operand in operands), default=0)
        made[one] = replace(one, operands=operands, sweep=sweep + (one.kind is Kind.FOLD))
    written = [replace(one, value=made[one.value]) for one in stores]
    found = LoopNest(nest.rows, nest.columns, written, list(made.values()), nest.rounded)
    of_it = NestLayout(found, layout.vector_nbytes, layout.sharing, layout)
    work = {one: sweep.work for sweep in layout.sweeps for one in _reduced(nest, sweep)}
    before: dict[Instance | Store, int] = {made[one]: work[one] for one in made if one in work}
    before |= {new: work[old] for old, new in zip(stores, written, strict=True) if old in work}
    for sweep in of_it.sweeps:
        there = {before[one] for one in _reduced(found, sweep)}
        if len(there) > 1:
            return None
        sweep.work = there.pop() if there else sweep.work
    return of_it


def _reduced(nest: LoopNest, sweep: Sweep) -> list[Instance | Store]:
    """What a sweep adds up in a row."""
    return [*sweep.folds, *(one for one in sweep.stores if reduces_columns(nest, one))]
