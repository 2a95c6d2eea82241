"""Derivatives of a scan: scans of a transformed body."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import matched, packed, stacked_type, unpacked, zeros_like
from chainrule.control.seeds import Seeds, inner_condition
from chainrule.dataclass import dataclass, replace
from chainrule.errors import MemoryLimitError
from chainrule.graph.node import Node, stamp
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import add
from chainrule.primitives.movement import concatenate, reshape, slice_
from chainrule.primitives.reduce import any_
from chainrule.primitives.sources import full_like, input_
from chainrule.transforms.conditions import Condition, leaving
from chainrule.transforms.jvp import push
from chainrule.transforms.selected import Selections
from chainrule.transforms.vjp import depends_on, pull


def loop_of(out: Node, inputs: Sequence[Node]) -> Loop:
    """The loop that a scan node is, on these inputs."""
    graph = out.param("body").graph
    constants, carries = out.param("constants"), out.param("carries")
    names = [item.name for item in graph.inputs]
    inner = [item.node for item in graph.inputs]
    results = [node for _, node in graph.outputs]
    given = [Given(*one) for one in zip(names, inputs, inner, strict=True)]
    moving = given[constants : constants + carries]
    return Loop(
        graph.name,
        tuple(given[:constants]),
        tuple(
            [
                Carry(one.name, one.outer, one.inner, after)
                for one, after in zip(moving, results, strict=False)
            ]
        ),
        tuple(given[constants + carries :]),
        tuple(results[carries:]),
        out.param("length"),
        out.param("reverse"),
        graph.names,
    )


def shown_carries(out: Node, loop: Loop) -> list[int]:
    """The numbers of the carries whose final values the node gives."""
    return [i for i, one in enumerate(loop.carries) if one.before.dtype == out.dtype]


def variable(like: Node, *axes: int | Size) -> Any:
    """What stands in a body for something that the loop gives it; `body_of` numbers it."""
    shape = (*axes, *like.shape)
    type_ = array_type(like.dtype, shape) if axes else like.type
    return input_(index=-1, type=type_)


def flowing_carries(loop: Loop, nodes: list[Node], starts: Iterable[Node]) -> set[int]:
    """The carries that have a derivative, where the inner inputs in `starts` have."""
    live = set(starts)
    found: set[int] = set()
    while True:
        active = depends_on(nodes, live)
        more = {i for i, one in enumerate(loop.carries) if one.after in active} - found
        if not more:
            return found | {i for i, one in enumerate(loop.carries) if one.before in live}
        found |= more
        live |= {loop.carries[i].before for i in more}


# Forward mode ------------------------------------------------------------------------------------


def tangent(
    dxs: tuple[Any, ...], out: Node, *inputs: Node, selections: Selections | None = None
) -> Any:
    """The same loop on carries and their tangents."""
    loop = loop_of(out, inputs)
    known = Selections(forward=True) if selections is None else selections
    nodes = list(out.param("body").graph.nodes)
    moving = with_tangents(loop, dxs, nodes, known)
    both, where = moving.loop, moving.where
    tangents = [moving.tangent(node) for node in loop.stacked]
    rows = [i for i, node in enumerate(tangents) if node is not None]
    shown = [i for i in shown_carries(out, loop) if i in where]
    if not rows and not shown:
        return None
    given = replace(both, stacked=tuple([tangents[i] for i in rows])).tidied()
    finals, stacks = given.run(out.primitive, [where[i] for i in shown], range(len(rows)))
    of_row = dict(zip(rows, stacks.values(), strict=True))
    for i, row in of_row.items():
        known.put(row, moving.selected(out, loop.stacked[i]))
        known.inherit(moving.inside, [moving.tangents[loop.stacked[i]]], row)
    parts = [
        finals[where[i]] if i in where else zeros_like(loop.carries[i].before)
        for i in shown_carries(out, loop)
    ]
    parts += [
        of_row[i] if i in of_row else zeros_like(node, loop.length)
        for i, node in enumerate(loop.stacked)
    ]
    return packed(parts, out.dtype, known)


@dataclass(frozen=True, eq=False)
class Moving:
    """A loop on carries and tangents, and where among its carries the tangent of each is.

    `tangents` are those of values in the iteration, of which `inside` knows the conditions; for
    some of these `outside` has those of all iterations.
    """

    loop: Loop
    where: dict[int, int]
    tangents: dict[Node, Any]
    inside: Selections
    outside: dict[Condition, Condition]

    def tangent(self, node: Node) -> Any:
        """The tangent of a value in the iteration; None where it is zero."""
        return matched(self.tangents[node], node.type) if node in self.tangents else None

    def selected(self, out: Node, node: Node) -> Condition | None:
        """The condition of the tangent of a value in all iterations of the scan `out`."""
        within = self.inside.of(self.tangents[node])

        def rows() -> Node:
            assert within is not None
            return _rows_selected(self.loop, within).run(out.primitive, (), [0])[1][0]

        return leaving(within, self.outside, rows)


def _rows_selected(loop: Loop, within: Condition) -> Loop:
    """The loop that stacks nothing but a condition of its iteration."""
    return replace(loop, name=f"{loop.name}_selected", stacked=(within.node(),)).tidied()


def with_tangents(
    loop: Loop, dxs: Sequence[Any], nodes: list[Node], selections: Selections
) -> Moving:
    """The loop on carries and their tangents; an iteration knows what `selections` knows of dxs."""
    moves = dict(zip(loop.inner, dxs, strict=True))
    flowing = flowing_carries(loop, nodes, [one for one, dx in moves.items() if dx is not None])
    tangents: dict[Node, Any] = {}
    inside = Selections(forward=True)
    outside: dict[Condition, Condition] = {}

    def given(several: Sequence[Given]) -> list[Given]:
        found = []
        for one in several:
            dx = moves[one.inner]
            if dx is not None:
                tangents[one.inner] = variable(one.inner)
                inside.inherit(selections, [dx], tangents[one.inner])
                found.append(Given(f"d{one.name}", dx, tangents[one.inner]))
                condition = selections.of(dx)
                if condition is not None:
                    row, within = inner_condition(f"selected_{one.name}", condition, one.inner)
                    found.append(row)
                    inside.put(tangents[one.inner], within)
                    if several is loop.slices:
                        outside[within] = condition
        return found

    constants, slices = given(loop.constants), given(loop.slices)
    for i in sorted(flowing):
        before = loop.carries[i].before
        tangents[before] = variable(before)
        inside.inherit(selections, [moves[before]], tangents[before])
    found = Moving(loop, {}, push(nodes, tangents, selections=inside), inside, outside)
    carries = []
    for i in sorted(flowing):
        one = loop.carries[i]
        start = moves[one.before]
        after = found.tangent(one.after)
        found.where[i] = len(loop.carries) + len(carries)
        carries.append(
            Carry(
                f"d{one.name}",
                zeros_like(one.initial) if start is None else start,
                tangents[one.before],
                full_like(one.after, 0) if after is None else after,
            )
        )
    both = replace(
        loop,
        name=f"{loop.name}_tangent",
        constants=(*loop.constants, *constants),
        carries=(*loop.carries, *carries),
        slices=(*loop.slices, *slices),
    )
    return replace(found, loop=both)


# Reverse mode ------------------------------------------------------------------------------------


def cotangents(
    g: Any,
    out: Node,
    active: tuple[int, ...],
    *inputs: Node,
    selections: Selections | None = None,
) -> tuple[Any | None, ...]:
    """A loop the other way, on the cotangents of the carries.

    It reads the carries that each iteration began with and does the iteration again; the cotangents
    of what all iterations read are added up in its own carries.
    """
    loop = loop_of(out, inputs)
    nodes = list(out.param("body").graph.nodes)
    inner = loop.inner
    chosen = {inner[i] for i in active}
    seeds = Seeds(g, loop, shown_carries(out, loop), selections)
    flowing = seeds.reached(nodes, flowing_carries(loop, nodes, chosen), chosen)
    later = {i: variable(loop.carries[i].before) for i in flowing}
    ends = {*chosen, *(loop.carries[i].before for i in flowing)}
    found, _ = pull(nodes, seeds.of(later), ends, selections=seeds.inside)
    summed = [one for one in loop.constants if one.inner in chosen & set(found)]
    sliced = [one for one in loop.slices if one.inner in chosen & set(found)]

    def pulled(node: Node) -> Any:
        return matched(found[node], node.type) if node in found else full_like(node, 0)

    carries = []
    for i in flowing:
        one = loop.carries[i]
        carries.append(Carry(f"d{one.name}", seeds.final(i), later[i], pulled(one.before)))
    for one in summed:
        total = variable(one.inner)
        after = add(total, pulled(one.inner))
        carries.append(Carry(f"d{one.name}", zeros_like(one.inner), total, after))
    given = Loop(
        f"{loop.name}_cotangent",
        loop.constants,
        tuple(carries),
        (*loop.slices, *seeds.rows, *(Given(c.name, c.initial, c.before) for c in loop.carries)),
        tuple([pulled(one.inner) for one in sliced]),
        loop.length,
        not loop.reverse,
        loop.names,
    )
    back = given.tidied()
    starts = [place for place, i in enumerate(flowing) if loop.carries[i].before in chosen]
    sums = range(len(flowing), len(carries))
    back = _with_saved(out, loop, back, [*starts, *sums])
    finals, stacks = back.run(out.primitive, [*starts, *sums], range(len(sliced)))
    result: list[Any] = [None] * len(inputs)
    place_of = {node: place for place, node in enumerate(inner)}
    selections = Selections() if selections is None else selections
    for place in starts:
        result[place_of[loop.carries[flowing[place]].before]] = finals[place]
    for one, place in zip(summed, sums, strict=True):
        result[place_of[one.inner]] = finals[place]
        selections.inherit(seeds.inside, [found[one.inner]], finals[place])
        if (within := seeds.inside.of(found[one.inner])) is not None:
            some = partial(_in_some_step, out, loop, given, within)
            selections.put(finals[place], Condition(some, (), True))
    for place, one in enumerate(sliced):
        result[place_of[one.inner]] = stacks[place]
        selections.inherit(seeds.inside, [found[one.inner]], stacks[place])
        if (within := seeds.inside.of(found[one.inner])) is not None:
            rows = partial(_rows_back, out, loop, given, within)
            selections.put(stacks[place], leaving(within, seeds.outside, rows))
    return tuple(result)


def _in_some_step(out: Node, loop: Loop, back: Loop, within: Condition) -> Node:
    """Where a condition of the iteration that goes back holds in any iteration."""
    return any_(_rows_back(out, loop, back, within), axes=(0,))


def _rows_back(out: Node, loop: Loop, back: Loop, within: Condition) -> Node:
    """A condition of the iteration that goes back, in all iterations."""
    asked = _with_saved(out, loop, _rows_selected(back, within), ())
    return asked.run(out.primitive, (), [0])[1][0]


def _with_saved(out: Node, loop: Loop, back: Loop, wanted: Collection[int]) -> Loop:
    """The loop back for these carries and all that it stacks, which reads from memory what the
    carries of `loop` were."""
    needed = back.reads(wanted, range(len(back.stacked)))
    saved = _saved(out, loop, [i for i, c in enumerate(loop.carries) if c.before in needed])
    rows = {loop.carries[i].before: node for i, node in saved.items()}
    slices = [replace(one, outer=rows.get(one.inner, one.outer)) for one in back.slices]
    return replace(back, slices=tuple([one for one in slices if one.inner in needed]))


def _saved(out: Node, loop: Loop, wanted: list[int]) -> dict[int, Any]:
    """For each wanted carry its values at the beginning of the iterations.

    They are stacked by another loop, except where the node itself stacks what the carry becomes.
    """
    types = [loop.carries[i].before.type for i in shown_carries(out, loop)]
    types += [stacked_type(node.type, loop.length) for node in loop.stacked]
    known = {}
    missing = []
    for i in wanted:
        one = loop.carries[i]
        if one.after in loop.stacked and loop.length != 0:
            place = len(shown_carries(out, loop)) + loop.stacked.index(one.after)
            known[i] = _shifted(one.initial, unpacked(out, types)[place], loop.reverse)
        else:
            missing.append(i)
    _refuse_too_many(out, loop, missing)
    saving = replace(
        loop,
        name=f"{loop.name}_saving",
        stacked=tuple([loop.carries[i].before for i in missing]),
    )
    rows = saving.run(out.primitive, (), range(len(missing)))[1]
    return {**known, **{i: rows[place] for place, i in enumerate(missing)}}


def _refuse_too_many(out: Node, loop: Loop, wanted: list[int]) -> None:
    """MemoryLimitError where what each iteration begins with has more bytes than can be counted."""
    iterations = loop.length
    if not isinstance(iterations, int):
        return
    types = [loop.carries[i].before.type for i in wanted]
    nbytes = iterations * sum((one.nbytes for one in types), 0)
    if isinstance(nbytes, int) and nbytes >= 2**63:
        names = ", ".join(loop.carries[i].name for i in wanted)
        each = ", ".join(map(str, types))
        raise MemoryLimitError(
            f"the backward pass of a loop of {iterations:,} iterations reads what each began with: "
            f"{names} ({each}), {nbytes:,} bytes in all, more than any memory has",
            where=out.origin.describe(),
            hint="fewer iterations; or cr.jvp, which keeps the values of one iteration alone",
        )


def _shifted(initial: Any, rows: Any, reverse: bool) -> Any:
    """The values before each iteration, from those after it."""
    if initial.type.weak:
        initial = matched(initial, array_type(initial.dtype, ()))
    first = reshape(initial, shape=(1, *initial.shape))
    stamp((first,), initial.origin)  # for whoever explains it: no derivative
    length = rows.shape[0]
    if length == 1:
        return first
    others = slice_(
        rows,
        start=(1 if reverse else 0, *(0,) * (rows.ndim - 1)),
        step=(1,) * rows.ndim,
        shape=(length - 1, *rows.shape[1:]),
    )
    pair = (others, first) if reverse else (first, others)
    return concatenate(*pair, axis=0)
