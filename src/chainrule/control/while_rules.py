"""Derivatives and batching of while loops: while loops again, and `unwind` backward.

An `unwind` is written as a loop whose first carries are those of the loop that it goes back
through: which way a carry goes does not matter to tangents and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.control.bodies import between, reached
from chainrule.control.cond_node import select
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import (
    is_zero,
    matched,
    packed,
    packed_batch,
    taken_apart,
    zeros_like,
)
from chainrule.control.repeated import repeated
from chainrule.control.scan_rules import flowing_carries, shown_carries, variable, with_tangents
from chainrule.control.seeds import Seeds
from chainrule.control.taken import only_taken
from chainrule.control.wording import loop_text
from chainrule.errors import NotDifferentiableError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast, greater
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full_like
from chainrule.transforms.batch import batch_nodes
from chainrule.transforms.selected import Selections
from chainrule.transforms.vjp import depends_on, pull, summed_seeds

COUNT = np.dtype(np.int64)
Made = dict[int, Any]  # the nodes of final carries, by their numbers
Repeat = Callable[..., Made]  # made(loop, states, wanted, limit): see `while_node`


def loop_of(out: Node, inputs: Sequence[Node]) -> tuple[Loop, list[Node]]:
    """The loop that a node is, its condition as the one stacked value; and the nodes of an
    iteration.

    Of an `unwind`, the loop it goes back through and the way back as one.
    """
    does = repeated(out)
    body, forth, constants = does.body.graph, does.forth.graph, does.constants
    names = [item.name for item in body.inputs]
    inner = [item.node for item in body.inputs]
    nodes, (after,) = list(body.nodes), ([node for _, node in body.outputs],)
    if does.step:
        same = _joined(nodes, forth, inner)
        after = [*(same[node] for _, node in forth.outputs), *after]
    same = _joined(nodes, does.condition.graph, inner)
    holds = same[does.condition.graph.outputs[0][1]]
    given = [Given(*one) for one in zip(names, inputs, inner, strict=True)]
    carries = [
        Carry(one.name, one.outer, one.inner, last)
        for one, last in zip(given[constants:], after, strict=True)
    ]
    fixed = tuple(given[:constants])
    return Loop(forth.name, fixed, tuple(carries), (), (holds,), 0, False, body.names), nodes


def _joined(nodes: list[Node], graph: Graph, inner: Sequence[Node]) -> dict[Node, Node]:
    """The nodes of a graph on the first of these inputs; they are added to `nodes`."""
    same = dict(zip([item.node for item in graph.inputs], inner, strict=False))
    for node in graph.nodes:
        if node not in same:
            operands = tuple([same[parent] for parent in node.inputs])
            same[node] = node.with_inputs(operands)
            nodes.append(same[node])
    return same


def _going_forth(out: Node, loop: Loop) -> int:
    """How many carries go forth: all, or the first ones."""
    return repeated(out).states if repeated(out).step else len(loop.carries)


def _shown(out: Node, loop: Loop) -> list[int]:
    """The numbers of the carries whose final values the node gives."""
    return [i for i in shown_carries(out, loop) if i >= repeated(out).states]


# Forward mode ------------------------------------------------------------------------------------


def tangent(
    made: Repeat,
    dxs: tuple[Any, ...],
    out: Node,
    *inputs: Node,
    selections: Selections | None = None,
) -> Any:
    """The same loop, or way back, on carries and their tangents, under the same condition."""
    loop, nodes = loop_of(out, inputs)
    moving = with_tangents(loop, dxs, nodes, selections or Selections(forward=True))
    both, count = moving.loop, _going_forth(out, loop)
    order = [i for i in range(len(both.carries)) if _goes_forth(i, loop, moving.where, count)]
    states = len(order)
    order += [i for i in range(len(both.carries)) if i not in set(order)]
    new = {old: place for place, old in enumerate(order)}
    joint = replace(both, carries=tuple([both.carries[i] for i in order])).tidied()
    where = {i: new[place] for i, place in moving.where.items()}
    shown = _shown(out, loop)
    some = [where[i] for i in shown if i in where]
    if not some:
        return None
    finals = made(joint, states, some, out.param("limit"))
    return packed(
        [finals[where[i]] if i in where else zeros_like(loop.carries[i].before) for i in shown],
        out.dtype,
    )


def _goes_forth(number: int, loop: Loop, where: dict[int, int], states: int) -> bool:
    """Whether a carry, or the carry that it is the tangent of, is one of the first."""
    of = {place: i for i, place in where.items()}
    return of.get(number, number) < states


# Reverse mode ------------------------------------------------------------------------------------


def while_cotangents(
    made: Repeat,
    g: Any,
    out: Node,
    active: tuple[int, ...],
    *inputs: Node,
    selections: Selections | None = None,
) -> tuple[Any | None, ...]:
    """A loop the other way, on the cotangents of the carries; what all iterations read has a sum.

    The condition of g says nothing of a cotangent in an earlier iteration: it ends here.
    """
    limit = out.param("limit")
    if limit is None:
        raise NotDifferentiableError(
            f"the gradient through {loop_text(out.param('body'))} would need the values of every "
            "iteration, and how many there will be is not known before it runs",
            where=out.origin.describe(),
            hint="say how many iterations there are at most: cr.while_loop(..., max_steps=1000) "
            "has a gradient, and so has cr.fori_loop with Python integers as bounds; forward mode "
            "works: cr.jvp",
        )
    loop, nodes = loop_of(out, inputs)
    chosen = {loop.inner[i] for i in active}
    seeds = Seeds(g, replace(loop, stacked=()), shown_carries(out, loop))
    flowing = seeds.reached(nodes, flowing_carries(loop, nodes, chosen), chosen)
    later = {i: variable(loop.carries[i].before) for i in flowing}
    starts = {i: seeds.final(i) for i in flowing}
    back = _back(loop, nodes, chosen, seeds.of(later), later, starts)
    found = _unwound(made, loop, (), back, chosen, limit)
    return tuple([found.get(node) for node in loop.inner])


def unwind_cotangents(
    made: Repeat,
    g: Any,
    out: Node,
    active: tuple[int, ...],
    *inputs: Node,
    selections: Selections | None = None,
) -> tuple[Any | None, ...]:
    """The cotangents of what goes back go forth, with the loop; those of the loop come back.

    The way back is linear in what it carries: so the former need nothing of that.
    """
    loop, nodes = loop_of(out, inputs)
    count, limit = _going_forth(out, loop), out.param("limit")
    chosen = {loop.inner[i] for i in active}
    flowing = flowing_carries(loop, nodes, chosen)
    befores = {loop.carries[i].before for i in flowing}
    shown = _shown(out, loop)
    parts = taken_apart(g, [loop.carries[i].before.type for i in shown])
    seeded = {i: p for i, p in zip(shown, parts, strict=True) if i in flowing and not is_zero(p)}
    live = depends_on(nodes, chosen | befores)
    going = _reached(loop, nodes, live, {i for i in flowing if i >= count}, set(seeded), set())
    read = _reached(loop, nodes, live, {i for i in flowing if i < count}, set(), going)
    moves = {i: variable(loop.carries[i].before) for i in sorted(going)}
    seeds = summed_seeds([loop.carries[i].after for i in moves], [*moves.values()])
    found, _ = pull(nodes, seeds, [loop.carries[i].before for i in moves])
    forth = []
    for i, before in moves.items():
        one = loop.carries[i]
        after = matched(found[one.before], before.type) if one.before in found else None
        start = matched(seeded[i], before.type) if i in seeded else zeros_like(before)
        new = full_like(before, 0) if after is None else after
        forth.append(Carry(f"d{one.name}", start, before, new))
    states, gone = loop.carries[:count], loop.carries[count:]
    ahead = replace(loop, carries=(*states, *forth)).tidied()
    result: dict[Node, Any] = {}
    wanted = [k for k, i in enumerate(moves, count) if loop.carries[i].before in chosen]
    finals = made(ahead, len(ahead.carries), wanted, limit)
    for k, i in enumerate(moves, count):
        if k in finals:
            result[loop.carries[i].before] = finals[k]
    later = {i: variable(loop.carries[i].before) for i in sorted(read)}
    ends = [*(loop.carries[i].after for i in later), *(loop.carries[i].after for i in moves)]
    seeds = summed_seeds(ends, [*later.values(), *moves.values()])
    starts = {i: zeros_like(loop.carries[i].before) for i in later}
    ahead = replace(loop, carries=(*states, *forth))
    fixed = {one.inner for one in loop.constants} | {one.before for one in states}
    back = _back(ahead, nodes, chosen & fixed, seeds, later, starts)
    result |= _unwound(made, ahead, gone, back, chosen, limit)
    return tuple([result.get(node) for node in loop.inner])


def _reached(
    loop: Loop, nodes: list[Node], live: set[Node], some: set[int], found: set[int], fixed: set[int]
) -> set[int]:
    """Which of some carries get a cotangent: those found, and from these and the fixed ones."""
    found = set(found)
    while True:
        needed = {loop.carries[i].after for i in found | fixed}
        for node in reversed(nodes):
            if node in needed:
                needed.update(parent for parent in node.inputs if parent in live)
        more = {i for i in some if loop.carries[i].before in needed} - found
        if not more:
            return found
        found |= more


def _back(
    loop: Loop,
    nodes: list[Node],
    chosen: set[Node],
    seeds: dict[Node, Any],
    later: dict[int, Any],
    starts: dict[int, Any],
) -> dict[Node, Carry]:
    """For each carry with a cotangent, and each constant, what goes back for it."""
    wrt = {*chosen, *(loop.carries[i].before for i in later)}
    found, _ = pull(nodes, seeds, wrt)

    def pulled(node: Node) -> Any:
        return matched(found[node], node.type) if node in found else full_like(node, 0)

    back = {}
    for i, before in later.items():
        one = loop.carries[i]
        back[one.before] = Carry(f"d{one.name}", starts[i], before, pulled(one.before))
    for one in loop.constants:
        if one.inner in chosen and one.inner in found:
            total = variable(one.inner)
            after = add(total, pulled(one.inner))
            back[one.inner] = Carry(f"d{one.name}", zeros_like(one.inner), total, after)
    return back


def _unwound(
    made: Repeat,
    loop: Loop,
    gone: Sequence[Carry],
    back: dict[Node, Carry],
    chosen: set[Node],
    limit: int,
) -> dict[Node, Any]:
    """The cotangents of what the loop reads and begins with."""
    states = len(loop.carries)
    joint = replace(loop, carries=(*loop.carries, *gone, *back.values())).tidied()
    places = {node: place for place, node in enumerate(back, states + len(gone))}
    wanted = [place for node, place in places.items() if node in chosen]
    finals = made(joint, states, wanted, limit)
    return {node: finals[place] for node, place in places.items() if place in finals}


# Batches -----------------------------------------------------------------------------------------


def batch(
    made: Repeat, size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node
) -> Any:
    """The same loop, or way back, on the whole batch.  Where the condition differs between
    examples, it goes on until it holds for none; examples for which it holds no more, and what
    goes back through an iteration that an example did not take, stay as they are."""
    loop, nodes = loop_of(out, inputs)
    has = dict(zip(loop.inner, batched, strict=True))
    (holds,) = loop.stacked
    while True:
        found = reached(nodes, [node for node, is_batched in has.items() if is_batched])
        own = holds in found
        more = [c.before for c in loop.carries if (own or c.after in found) and not has[c.before]]
        if not more:
            break
        has.update(dict.fromkeys(more, True))
    given = {node: variable(node, size) for node in loop.inner if has[node]}
    afters = {c.after: c.after for c in loop.carries}
    if own:
        guarded = only_taken(holds, between(loop.inner, afters))
        afters = {node: guarded.get(node, node) for node in afters}
        nodes = between(loop.inner, [holds, *afters.values()])
    new = batch_nodes(nodes, given, size)
    carries = []
    for one in loop.carries:
        if not has[one.before]:
            carries.append(one)
            continue
        start: Any = one.initial
        if not batched[loop.inner.index(one.before)]:
            start = add_batch_axis(start, size)
        start = matched(start, array_type(start.dtype, start.shape))
        after = afters[one.after]
        after = new[after] if after in new else add_batch_axis(after, size)
        if own:
            after = select(new[holds], after, given[one.before])
        carries.append(Carry(one.name, start, given[one.before], after))
    many = replace(
        loop,
        constants=tuple([replace(c, inner=given.get(c.inner, c.inner)) for c in loop.constants]),
        carries=tuple(carries),
        stacked=(_any(new[holds]) if own else holds,),
        names={name: new.get(node, node) for name, node in loop.names.items()},
    )
    shown = _shown(out, loop)
    finals = made(many, _going_forth(out, loop), shown, out.param("limit"))
    befores = [loop.carries[i].before for i in shown]
    values = [
        finals[i] if has[before] else add_batch_axis(finals[i], size)
        for i, before in zip(shown, befores, strict=True)
    ]
    return packed_batch(values, [before.type.size for before in befores])


def _any(holds: Any) -> Any:
    count = sum_(cast(holds, dtype=COUNT, weak=False), axes=(0,))
    return greater(count, full_like(count, 0))
