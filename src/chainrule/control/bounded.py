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

from chainrule.control.cond_node import choose, inlined
from chainrule.control.ended import COUNT, ended
from chainrule.control.loops import Given, Loop
from chainrule.control.scan_node import scan
from chainrule.errors import InputError
from chainrule.graph.node import Node, stamp
from chainrule.graph.origin import Origin
from chainrule.graph.types import INT_SCALAR
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
    outer = replace(
        loop,
        name=f"{loop.name}_segment",
        carries=_with(loop, [one.initial for one in loop.carries], segment),
        slices=(Given("start", starts, start),) if too_many else (),
        stacked=(),
        length=count,
        names={},
    )
    last = outer.run(scan, range(len(befores)), ())[0]
    values = [last[i] for i in range(len(befores))]
    outside = [one.outer for one in loop.constants]
    inside = [one.inner for one in loop.constants]
    (open_,) = inlined([*inside, *befores], [*outside, *values], [holds])
    left: Any = cast(open_, dtype=COUNT, weak=False)
    return [ended(one, left, loop=shown, steps=steps) for one in values]


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
        raise InputError(
            f"max_steps={steps!r} is no number of steps",
            where=where,
            hint="max_steps is a Python integer of at least 0, which is known while tracing",
        )
    return found
