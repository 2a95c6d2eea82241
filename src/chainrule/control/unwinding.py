"""What the primitive `unwind` does: goes back through the steps of a bounded while loop.

It does the loop again, and keeps the values at the beginning of each segment of about
sqrt(max_steps) steps; then, from the last segment on, those of all its steps (Chen et al., 2016,
"Training Deep Nets with Sublinear Memory Cost").  So reverse mode takes memory for
2 sqrt(max_steps) values, and does each step twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.control.packing import packed_type, strong
from chainrule.control.steps import in_c_order, program_of, result_of, store
from chainrule.control.wording import loop_text
from chainrule.errors import StepLimitError
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType, array_type
from chainrule.plan.plain import step_nbytes
from chainrule.primitives.families import BOOL


def unwind_type(
    *types: ArrayType,
    body: Body,
    step: Body,
    condition: Body,
    carries: int,
    constants: int,
    states: int,
    limit: int,
    dtype: np.dtype,
) -> ArrayType:
    """The carries of the dtype that the first step leaves, in one array."""
    inputs = [item.type for item in body.graph.inputs]
    if [strong(one) for one in inputs] != [strong(one) for one in types]:
        raise TypeError(f"the body takes {inputs}, got {types}")
    for one in (step, condition):
        if [item.type for item in one.graph.inputs] != inputs[: constants + states]:
            raise TypeError(f"{one} takes other types than the body")
    if inputs[constants + states :] != [node.type for _, node in body.graph.outputs]:
        raise TypeError("the body changes the types of what it carries")
    if inputs[constants : constants + states] != [node.type for _, node in step.graph.outputs]:
        raise TypeError("the step changes the types of what it carries")
    if [node.type for _, node in condition.graph.outputs] != [array_type(BOOL, ())]:
        raise TypeError("a condition is one boolean")
    return packed_type(dtype, shown_types(body, dtype))


def shown_types(body: Body, dtype: np.dtype) -> list[ArrayType]:
    """The types of what a body carries of this dtype."""
    return [node.type for _, node in body.graph.outputs if node.dtype == dtype]


def carries_in(
    flat: np.ndarray, body: Body, initials: Sequence[Any], dtype: np.dtype
) -> list[np.ndarray]:
    """The carries at first: those of the dtype lie in the flat result."""
    start, found = 0, []
    for initial, (_, node) in zip(initials, body.graph.outputs, strict=True):
        if node.dtype == dtype:
            size = node.type.size
            found.append(flat[start : start + size].reshape(node.shape))
            start += size
        else:
            found.append(np.empty(node.shape, node.dtype))
        found[-1][...] = initial
    return found


def require_end(number: int, limit: int | None, body: Body) -> None:
    """StepLimitError where one more step would be one too many."""
    if number == limit:
        raise StepLimitError(
            f"{loop_text(body)} has not ended after max_steps={limit:,} steps: its condition still "
            "holds",
            hint="give a larger max_steps, if it would end then\n"
            "(without max_steps= it goes on until it ends, but has no reverse mode)",
        )


def unwind_evaluate(
    xp: Any,
    *arrays: Any,
    body: Body,
    step: Body,
    condition: Body,
    carries: int,
    constants: int,
    states: int,
    limit: int,
    dtype: np.dtype,
) -> Any:
    """Forth, keeping the first values of each segment; then segment by segment back."""
    holds, forth, back = (program_of(one, xp, None) for one in (condition, step, body))
    fixed = [in_c_order(one) for one in arrays[:constants]]
    flat = result_of(xp, packed_type(dtype, shown_types(body, dtype)))
    gone = carries_in(flat, body, arrays[constants + states :], dtype)
    types = [node.type for _, node in step.graph.outputs]
    state = [np.empty(one.shape, one.dtype) for one in types]
    store(state, arrays[constants : constants + states])
    length = segment_of(limit)
    read = _read_states(body, constants, states)
    starts = [_rows(one, -(-limit // length) if read else 0) for one in types]
    rows = {place: _rows(types[place], length) for place in read}

    def keep(number: int) -> None:
        for place, one in rows.items():
            one[number % length] = state[place]

    number = 0
    while holds([*fixed, *state])[0]:
        require_end(number, limit, step)
        if read and number % length == 0:
            store([one[number // length, ...] for one in starts], state)
        keep(number)
        store(state, forth([*fixed, *state]))
        number += 1
    last = number
    for first in range((last - 1) // length * length, -1, -length):
        if first + length < last:  # the rows of the last segment are there
            store(state, [one[first // length] for one in starts])
            for number in range(first, first + length):
                keep(number)
                store(state, forth([*fixed, *state]))
        for number in range(min(first + length, last) - 1, first - 1, -1):
            before = [
                rows[i][number % length, ...] if i in rows else state[i] for i in range(states)
            ]
            store(gone, back([*fixed, *before, *gone]))
    return flat


def segment_of(limit: int) -> int:
    """How many steps a segment has."""
    return max(math.isqrt(limit), 1)


def _rows(type_: ArrayType, count: int) -> np.ndarray:
    return np.empty((count, *type_.shape), type_.dtype)


def _read_states(body: Body, constants: int, states: int) -> list[int]:
    """The numbers of the states that a step back reads."""
    used = {parent for node in body.graph.nodes for parent in node.inputs}
    used |= {node for _, node in body.graph.outputs}
    inputs = [item.node for item in body.graph.inputs[constants : constants + states]]
    return [place for place, node in enumerate(inputs) if node in used]


def unwind_scratch(out: Node, *operands: np.ndarray) -> int:
    """As if the loop was as long as it may be."""
    constants, states, limit = (out.param(key) for key in ("constants", "states", "limit"))
    body, step = out.param("body"), out.param("step")
    taken = sum(one.nbytes for one in operands[:constants] if not one.flags.c_contiguous)
    taken += sum(int(n.type.nbytes) for _, n in body.graph.outputs if n.dtype != out.dtype)
    sizes = [int(node.type.nbytes) for _, node in step.graph.outputs]
    read = _read_states(body, constants, states)
    length = segment_of(limit)
    taken += sum(sizes) * (1 + (-(-limit // length) if read else 0))
    taken += sum(sizes[place] for place in read) * length
    return taken + max(step_nbytes(one) for one in (body, step, out.param("condition")))
