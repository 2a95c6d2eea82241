"""The primitives `while_`, which runs a body while a condition holds, and `unwind`, which goes back
through it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np

from chainrule.control import whole
from chainrule.control.bodies import body_of
from chainrule.control.cost import WHILE, flops, over
from chainrule.control.evaluate_body import in_c_order, program_of, result_of, store
from chainrule.control.loops import Given, Loop
from chainrule.control.numpy_source import unwind_python, while_python
from chainrule.control.packing import unpacked
from chainrule.control.repeated import Repeated, repeated
from chainrule.control.samples import repeating, unwinding
from chainrule.control.unwinding import (
    carries_in,
    require_end,
    unwind_evaluate,
    unwind_scratch,
)
from chainrule.control.while_rules import batch, tangent, unwind_cotangents, while_cotangents
from chainrule.control.whole import has_loops
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Joint, Primitive
from chainrule.primitives.python import Python
from chainrule.schedule.plain import iteration_nbytes


def repeat(loop: Loop, wanted: Collection[int], limit: int | None = None) -> dict[int, Any]:
    """The nodes of these final carries; the loop stacks nothing but its condition, and has at most
    `limit` iterations."""
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
            limit=limit,
            dtype=dtype,
        )
        shown = [i for i in kept if loop.carries[i].before.dtype == dtype]
        parts = unpacked(node, [loop.carries[i].before.type for i in shown])
        finals.update((i, p) for i, p in zip(shown, parts, strict=True) if i in moving)
    return finals


def unwound(loop: Loop, states: int, wanted: Collection[int], limit: int) -> dict[int, Any]:
    """The nodes of these final carries of a loop back through another one.

    The first `states` carries of `loop` are those of the loop that it goes back through, its one
    stacked value is the condition of that; the others go back.
    """
    finals: dict[int, Any] = {}
    for dtype in dict.fromkeys(loop.carries[i].before.dtype for i in wanted):
        some = [i for i in wanted if loop.carries[i].before.dtype == dtype]
        read = loop.reads(some, [0])
        kept = [i for i, one in enumerate(loop.carries) if one.before in read]
        forth = [loop.carries[i] for i in kept if i < states]
        back = [loop.carries[i] for i in kept if i >= states]
        moving = [one for one in forth if one.after is not one.before]
        constants = [one for one in loop.constants if one.inner in read]
        constants += [Given(c.name, c.initial, c.before) for c in forth if c.after is c.before]
        inputs = [(one.name, one.inner) for one in constants]
        inputs += [(one.name, one.before) for one in moving]
        ahead, ways = ([(f"{c.name}_next", c.after) for c in some] for some in (moving, back))
        node = unwind(
            *(one.outer for one in constants),
            *(one.initial for one in (*moving, *back)),
            body=body_of(
                f"{loop.name}_cotangent",
                [*inputs, *((one.name, one.before) for one in back)],
                ways,
                loop.names,
            ),
            step=body_of(loop.name, inputs, ahead, loop.names),
            condition=body_of(f"{loop.name}_condition", inputs, [("holds", loop.stacked[0])], {}),
            carries=len(back),
            constants=len(constants),
            states=len(moving),
            limit=limit,
            dtype=dtype,
        )
        shown = [i for i in kept if i >= states and loop.carries[i].before.dtype == dtype]
        parts = unpacked(node, [loop.carries[i].before.type for i in shown])
        finals.update((i, p) for i, p in zip(shown, parts, strict=True) if i in wanted)
    return finals


def made(loop: Loop, states: int, wanted: Collection[int], limit: int | None) -> dict[int, Any]:
    """The nodes of these final carries, of which the first `states` go forth: of the loop itself
    where all do, else of the way back through it."""
    if states == len(loop.carries):
        return repeat(loop, wanted, limit)
    assert limit is not None
    return unwound(loop, states, wanted, limit)


def _type(*types: ArrayType, **params: Any) -> ArrayType:
    return Repeated(**params).type_on(*types)


def _evaluate(xp: Any, *arrays: Any, **params: Any) -> Any:
    if has_loops(xp):
        return whole.repeated(xp, *arrays, **params)
    loop = Repeated(**params)
    step = program_of(loop.body, xp, None, over(loop.body, loop.back, loop.carries))
    holds = program_of(loop.condition, xp, None)
    fixed = [in_c_order(one) for one in arrays[: loop.constants]]
    flat = result_of(xp, loop.type)
    states = carries_in(flat, loop, arrays[loop.constants :])
    number = 0
    while holds([*fixed, *states])[0]:
        require_end(number, loop)
        store(states, step([*fixed, *states]))
        number += 1
    return flat


def _unwound(xp: Any, *arrays: Any, **params: Any) -> Any:
    evaluate = whole.unwound if has_loops(xp) else unwind_evaluate
    return evaluate(xp, *arrays, **params)


def _scratch(out: Node, *operands: np.ndarray) -> int:
    """As if the body was done at least once."""
    loop = repeated(out)
    step = max(iteration_nbytes(loop.body), iteration_nbytes(loop.condition))
    return loop.carried_nbytes(*operands) + step


while_ = Primitive(
    name="while_",
    doc="The body done as long as the condition holds, on the carries that it changes.",
    inputs=("x",),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Joint(partial(tangent, made), partial(while_cotangents, made), selects=True),
    batch=partial(batch, made),
    kernel=WHILE,
    as_stored=True,
    flops=flops,
    latex=Latex(r"\operatorname{{while}}_{{{body}}}({x})", ATOM, (0,)),
    samples=(repeating(None), repeating(50)),
    variadic=True,
    scratch=_scratch,
    python=Python(while_python, noun="repeated"),
)

unwind = Primitive(
    name="unwind",
    doc="The iterations of a while loop with a limit, gone back through from the last one.",
    inputs=("x",),
    result_type=_type,
    evaluate=_unwound,
    derivative=Joint(partial(tangent, made), partial(unwind_cotangents, made), selects=True),
    batch=partial(batch, made),
    kernel=WHILE,
    as_stored=True,
    flops=flops,
    latex=Latex(r"\operatorname{{unwind}}_{{{body}}}({x})", ATOM, (0,)),
    samples=(unwinding(),),
    variadic=True,
    scratch=unwind_scratch,
    python=Python(unwind_python, noun="unwound"),
)
