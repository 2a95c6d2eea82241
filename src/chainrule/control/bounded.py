"""`while_loop` with `max_steps`: scans in which a step that comes too late changes nothing.

The steps come in segments, about as many as there are steps in each: reverse mode stores the value
at the beginning of each segment, and does the steps of one again to store theirs (Chen et al.,
2016, "Training Deep Nets with Sublinear Memory Cost"), so it takes memory for 2 sqrt(max_steps)
values.  A segment that begins after the end costs one look at the condition.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.control.cond_node import choose, inlined
from chainrule.control.ended import COUNT, ended
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.scan_node import scan
from chainrule.errors import InputError
from chainrule.frontend.instead_of_asking import argument_without_number
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.types import INT_SCALAR, array_type
from chainrule.primitives.arithmetic import add, multiply
from chainrule.primitives.logic import cast, less, logical_and
from chainrule.primitives.sources import input_, positions, uniform


def repeat_at_most(loop: Loop, steps: int, shown: str, origin: Origin) -> list[Node]:
    """The final carries of a loop whose condition is its one stacked value; a StepLimitError of the
    run where it still holds after so many steps.  `shown` is how messages call the
    loop, `origin` where it stands."""
    (holds,) = loop.stacked
    befores = [one.before for one in loop.carries]
    length = _segment(steps)
    count = -(-steps // length)
    start, place = (input_(index=-1, type=INT_SCALAR) for _ in range(2))
    too_many = count * length != steps  # so that the last steps have to be counted
    step_holds: Any = holds
    if too_many:
        within = less(add(start, place), uniform(steps, COUNT))
        step_holds = logical_and(holds, within)
    one_step = _unless_ended(loop, step_holds, [one.after for one in loop.carries], loop.names)
    stamp(one_step, origin)
    numbers = positions(length, COUNT)
    inner = replace(
        loop,
        name=f"{loop.name}_step",
        constants=(*loop.constants, *([Given("start", start, start)] if too_many else [])),
        carries=_with(loop, befores, one_step),
        slices=(Given("place", numbers, place),) if too_many else (),
        stacked=(),
        length=length,
        names={},
    )
    finals = inner.run(scan, range(len(befores)), ())[0]
    further = [("start", start)] if too_many else []
    segment = _unless_ended(
        replace(loop, name=f"{loop.name}_steps"),
        holds,
        [finals[i] for i in range(len(befores))],
        {},
        further,
    )
    stamp(segment, origin)
    starts: Any = multiply(positions(count, COUNT), uniform(length, COUNT, (count,)))
    initials = [one.initial for one in loop.carries]
    flags = _flags(loop, holds, segment)
    outer = replace(
        loop,
        name=f"{loop.name}_segment",
        carries=(*_with(loop, initials, segment), *flags.values()),
        slices=(Given("start", starts, start),) if too_many else (),
        stacked=(),
        length=count,
        names={},
    )
    last = outer.run(scan, range(len(outer.carries)), ())[0]
    left = {}
    for place, dtype in enumerate(flags, len(befores)):
        left[dtype] = cast(last[place], dtype=COUNT, weak=False)
    return [
        ended(last[i], left[one.dtype], loop=shown, steps=steps) for i, one in enumerate(befores)
    ]


def _flags(loop: Loop, holds: Node, results: Sequence[Node]) -> dict[np.dtype, Carry]:
    """For each dtype a carry that is 1 as long as the condition holds.

    A scan gives the carries of one dtype: so one scan gives values and whether they are the last.
    """
    inside = [one.inner for one in loop.constants]
    befores = [one.before for one in loop.carries]
    outside = [*(one.outer for one in loop.constants), *(one.initial for one in loop.carries)]
    (at_first,) = inlined([*inside, *befores], outside, [holds])
    (after,) = inlined([*inside, *befores], [*inside, *results], [holds])
    found = {}
    for dtype in dict.fromkeys(one.dtype for one in befores):
        first, later = (cast(one, dtype=dtype, weak=False) for one in (at_first, after))
        before = input_(index=-1, type=array_type(dtype, ()))
        found[dtype] = Carry("left", first, before, later)
    return found


def _segment(steps: int) -> int:
    """How many steps a segment has: about the square root, a divisor where one is near."""
    root = max(math.isqrt(steps), 1)
    near = range(root, max(root // 2, root - 1000), -1)
    return next((one for one in near if steps % one == 0), root)


def _with(loop: Loop, initials: Sequence[Node], afters: Sequence[Node]) -> tuple[Any, ...]:
    pairs = zip(loop.carries, initials, afters, strict=True)
    return tuple([replace(one, initial=initial, after=after) for one, initial, after in pairs])


def _unless_ended(
    loop: Loop,
    holds: Node,
    results: Sequence[Node],
    names: Any,
    further: Sequence[tuple[str, Node]] = (),
) -> list[Node]:
    """Where the condition holds these results, else the carries as they are."""
    outer = [*((c.name, c.inner) for c in loop.constants), *further]
    outer += [(c.name, c.before) for c in loop.carries]
    inner = [node for _, node in outer]
    befores = [c.before for c in loop.carries]
    branches = [(loop.name, inner, results, names), ("ended", inner, befores, {})]
    found = choose(holds, outer, branches, range(len(befores)))
    return [found[i] for i in range(len(befores))]


def checked_steps(steps: Any, where: str) -> int:
    """The bound as a Python integer; InputError unless it is one of at least 0."""
    found = -1
    if not isinstance(steps, bool):
        with suppress(TypeError):
            found = operator.index(steps)  # of an int argument the number, for which alone it holds
    if not 0 <= found < 2**63:
        raise no_number_of_steps(
            "max_steps",
            steps,
            where,
            "max_steps is a Python integer of at least 0, which is known while tracing",
        )
    return found


def no_number_of_steps(what: str, value: Any, where: str, hint: str) -> InputError:
    """The error where a number of steps is something else, or is not known while tracing."""
    name, given = argument_without_number(value)
    if name:
        return InputError(f"{what}: {name} has no value while tracing", where=where, hint=given)
    return InputError(f"{what}={value!r} is no number of steps", where=where, hint=hint)
