"""Batches a scan: a scan of the batched body."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chainrule.control.bodies import reached
from chainrule.control.loops import Carry, Given
from chainrule.control.packing import matched, packed_batch
from chainrule.control.scan_rules import loop_of, shown_carries, variable
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import array_type
from chainrule.primitives.movement import add_batch_axis, transpose
from chainrule.transforms.batch import batch_nodes


def batch(size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node) -> Any:
    """The same loop on the whole batch: what no batched value reaches has no further axis."""
    loop = loop_of(out, inputs)
    nodes = list(out.param("body").graph.nodes)
    has = dict(zip(loop.inner, batched, strict=True))
    while True:
        found = reached(nodes, [node for node, is_batched in has.items() if is_batched])
        more = [c.before for c in loop.carries if c.after in found and not has[c.before]]
        if not more:
            break
        has.update(dict.fromkeys(more, True))
    given = {node: variable(node, size) for node in loop.inner if has[node]}
    new = batch_nodes(nodes, given, size)

    def whole(node: Node) -> Any:
        return new[node] if node in new else add_batch_axis(node, size)

    first = len(loop.constants) + len(loop.carries)
    slices = []
    for one, is_batched in zip(loop.slices, batched[first:], strict=True):
        outer: Any = one.outer
        if is_batched:
            outer = transpose(outer, permutation=(1, 0, *range(2, outer.ndim)))
        slices.append(Given(one.name, outer, given.get(one.inner, one.inner)))
    carries = []
    for one, is_batched in zip(loop.carries, batched[len(loop.constants) :], strict=False):
        if not has[one.before]:
            carries.append(one)
            continue
        start = one.initial if is_batched else add_batch_axis(one.initial, size)
        start = matched(start, array_type(start.dtype, start.shape))
        carries.append(Carry(one.name, start, given[one.before], whole(one.after)))
    many = replace(
        loop,
        constants=tuple([replace(c, inner=given.get(c.inner, c.inner)) for c in loop.constants]),
        carries=tuple(carries),
        slices=tuple(slices),
        stacked=tuple([whole(node) for node in loop.stacked]),
        names={name: new.get(node, node) for name, node in loop.names.items()},
    )
    shown = shown_carries(out, loop)
    finals, rows = many.run(out.primitive, shown, range(len(many.stacked)))
    befores = [loop.carries[i].before for i in shown]
    values = [
        finals[i] if has[before] else add_batch_axis(finals[i], size)
        for i, before in zip(shown, befores, strict=True)
    ]
    for i, node in enumerate(loop.stacked):
        values.append(transpose(rows[i], permutation=(1, 0, *range(2, node.ndim + 2))))
    sizes = [before.type.size for before in befores]
    return packed_batch(values, [*sizes, *(loop.length * one.type.size for one in loop.stacked)])
