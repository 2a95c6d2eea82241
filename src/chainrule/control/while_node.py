"""The primitive `while_`: a body that is done as long as a condition holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from chainrule.control.bodies import body_of, reached
from chainrule.control.cond_node import select
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import (
    matched,
    packed,
    packed_batch,
    packed_type,
    strong,
    unpacked,
    zeros_like,
)
from chainrule.control.samples import repeating
from chainrule.control.scan_rules import shown_carries, variable, with_tangents
from chainrule.control.steps import in_c_order, program_of, result_of, store
from chainrule.control.work import WHILE, flops
from chainrule.control.written import while_python
from chainrule.errors import NotDifferentiableError
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.plan.plain import step_nbytes
from chainrule.primitives.families import BOOL
from chainrule.primitives.logic import cast, greater
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.primitive import ATOM, Joint, Latex, Primitive
from chainrule.primitives.python import Python
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full_like
from chainrule.transforms.batch import batch_nodes

COUNT = np.dtype(np.int64)


def repeat(loop: Loop, wanted: Collection[int]) -> dict[int, Any]:
    """The nodes of these final carries; the loop stacks nothing but its condition."""
    finals = {i: c.initial for i, c in enumerate(loop.carries) if c.after is c.before}
    finals = {i: finals[i] for i in wanted if i in finals}
    moving = [i for i in wanted if i not in finals]
    for dtype in dict.fromkeys(loop.carries[i].before.dtype for i in moving):
        read = loop.reads([i for i in moving if loop.carries[i].before.dtype == dtype], [0])
        constants = [one for one in loop.constants if one.inner in read]
        read_carries = [i for i, one in enumerate(loop.carries) if one.before in read]
        fixed = [i for i in read_carries if loop.carries[i].after is loop.carries[i].before]
        for one in [loop.carries[i] for i in fixed]:
            constants.append(Given(one.name, one.initial, one.before))
        kept = [i for i in read_carries if i not in fixed]
        carries = [loop.carries[i] for i in kept]
        inputs = [(one.name, one.inner) for one in constants]
        inputs += [(one.name, one.before) for one in carries]
        after = [(f"{one.name}_next", one.after) for one in carries]
        node = while_(
            *(one.outer for one in constants),
            *(one.initial for one in carries),
            body=body_of(loop.name, inputs, after, loop.names),
            condition=body_of(f"{loop.name}_condition", inputs, [("holds", loop.stacked[0])], {}),
            carries=len(carries),
            constants=len(constants),
            dtype=dtype,
        )
        shown = [i for i in kept if loop.carries[i].before.dtype == dtype]
        parts = unpacked(node, [loop.carries[i].before.type for i in shown])
        finals.update((i, p) for i, p in zip(shown, parts, strict=True) if i in moving)
    return finals


def loop_of(out: Node, inputs: Sequence[Node]) -> tuple[Loop, list[Node]]:
    """The loop that a node is, its condition as the one stacked value; and the nodes of a step."""
    body, condition = out.param("body").graph, out.param("condition").graph
    constants = out.param("constants")
    inner = [item.node for item in body.inputs]
    given = [
        Given(item.name, outer, item.node) for item, outer in zip(body.inputs, inputs, strict=True)
    ]
    same = dict(zip([item.node for item in condition.inputs], inner, strict=True))
    nodes = list(body.nodes)
    for node in condition.nodes:
        if node not in same:
            operands = tuple([same[parent] for parent in node.inputs])
            same[node] = type(node)(node.primitive, operands, node.params, node.type, node.origin)
            nodes.append(same[node])
    carries = [
        Carry(one.name, one.outer, one.inner, after)
        for one, (_, after) in zip(given[constants:], body.outputs, strict=True)
    ]
    holds = same[condition.outputs[0][1]]
    fixed = tuple(given[:constants])
    return Loop(body.name, fixed, tuple(carries), (), (holds,), 0, False, body.names), nodes


def _shown_types(body: Body, dtype: np.dtype) -> list[ArrayType]:
    return [node.type for _, node in body.graph.outputs if node.dtype == dtype]


def _type(
    *types: ArrayType, body: Body, condition: Body, carries: int, constants: int, dtype: np.dtype
) -> ArrayType:
    inputs = [item.type for item in body.graph.inputs]
    if [strong(one) for one in inputs] != [strong(one) for one in types]:
        raise TypeError(f"the body takes {inputs}, got {types}")
    if inputs != [item.type for item in condition.graph.inputs]:
        raise TypeError("the condition takes other types than the body")
    if inputs[constants:] != [node.type for _, node in body.graph.outputs]:
        raise TypeError("the body changes the types of what it carries")
    if [node.type for _, node in condition.graph.outputs] != [array_type(BOOL, ())]:
        raise TypeError("a condition is one boolean")
    return packed_type(dtype, _shown_types(body, dtype))


def _evaluate(
    xp: Any,
    *arrays: Any,
    body: Body,
    condition: Body,
    carries: int,
    constants: int,
    dtype: np.dtype,
) -> Any:
    step, holds = (program_of(one, xp, None) for one in (body, condition))
    fixed = [in_c_order(one) for one in arrays[:constants]]
    flat = result_of(xp, packed_type(dtype, _shown_types(body, dtype)))
    start = 0
    states = []
    for initial, (_, node) in zip(arrays[constants:], body.graph.outputs, strict=True):
        if node.dtype == dtype:
            size = node.type.size
            states.append(flat[start : start + size].reshape(node.shape))
            start += size
        else:
            states.append(np.empty(node.shape, node.dtype))
        states[-1][...] = initial
    while holds([*fixed, *states])[0]:
        store(states, step([*fixed, *states]))
    return flat


def _scratch(out: Node, *operands: np.ndarray) -> int:
    """As if the body was done at least once."""
    constants, body = out.param("constants"), out.param("body")
    taken = sum(one.nbytes for one in operands[:constants] if not one.flags.c_contiguous)
    taken += sum(int(n.type.nbytes) for _, n in body.graph.outputs if n.dtype != out.dtype)
    return taken + max(step_nbytes(body), step_nbytes(out.param("condition")))


def _tangent(dxs: tuple[Any, ...], out: Node, *inputs: Node) -> Any:
    """The same loop on carries and their tangents, under the same condition."""
    loop, nodes = loop_of(out, inputs)
    both, where, _ = with_tangents(loop, dxs, nodes)
    shown = shown_carries(out, loop)
    moving = [where[i] for i in shown if i in where]
    if not moving:
        return None
    finals = repeat(both.tidied(), moving)
    return packed(
        [finals[where[i]] if i in where else zeros_like(loop.carries[i].before) for i in shown],
        out.dtype,
    )


def _cotangents(g: Any, out: Node, active: tuple[int, ...], *inputs: Node) -> NoReturn:
    shown = loop_text(str(out.param("body")))
    raise NotDifferentiableError(
        f"the gradient through {shown} would need the values of every step, and how many there "
        "will be is not known before it runs",
        where=out.origin.describe(),
        hint="say how many steps there are at most: cr.while_loop(..., max_steps=1000) has a "
        "gradient, and so has cr.fori_loop with Python integers as bounds; forward mode works: "
        "cr.jvp",
    )


def loop_text(body: str) -> str:
    """How messages call a loop with this body."""
    return "while_loop" if body == "function" else f"while_loop({body})"  # of a lambda


def _batch(size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node) -> Any:
    """The same loop on the whole batch; where the condition differs between examples, it goes on
    until it holds for none, and examples for which it holds no more stay as they are."""
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
        after = new[one.after] if one.after in new else add_batch_axis(one.after, size)
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
    shown = shown_carries(out, loop)
    finals = repeat(many, shown)
    befores = [loop.carries[i].before for i in shown]
    values = [
        finals[i] if has[before] else add_batch_axis(finals[i], size)
        for i, before in zip(shown, befores, strict=True)
    ]
    return packed_batch(values, [before.type.size for before in befores])


def _any(holds: Any) -> Any:
    count = sum_(cast(holds, dtype=COUNT, weak=False), axes=(0,))
    return greater(count, full_like(count, 0))


while_ = Primitive(
    name="while_",
    doc="The body done as long as the condition holds, on the carries that it changes.",
    inputs=("x",),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Joint(_tangent, _cotangents),
    batch=_batch,
    kernel=WHILE,
    flops=flops,
    latex=Latex(r"\operatorname{{while}}_{{{body}}}({x})", ATOM, (0,)),
    samples=(repeating(),),
    variadic=True,
    scratch=_scratch,
    python=Python(while_python, noun="repeated"),
)
