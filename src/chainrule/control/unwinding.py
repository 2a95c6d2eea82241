"""The primitive `unwind`: goes back through the iterations of a bounded while loop.

It does the loop again, and keeps the values at the beginning of each segment of about
sqrt(max_steps) iterations; then, from the last segment on, those of all its iterations (Chen et
al., 2016, "Training Deep Nets with Sublinear Memory Cost").  So reverse mode takes memory for 2
sqrt(max_steps) values, and does each iteration twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.control.cost import over
from chainrule.control.evaluate_body import in_c_order, program_of, result_of, store
from chainrule.control.repeated import Repeated, repeated
from chainrule.control.wording import loop_text
from chainrule.errors import StepLimitError
from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType
from chainrule.schedule.plain import iteration_nbytes


def carries_in(flat: np.ndarray, loop: Repeated, initials: Sequence[Any]) -> list[np.ndarray]:
    """The carries at first: those of the dtype lie in the flat result."""
    start, found = 0, []
    for initial, (_, node) in zip(initials, loop.body.graph.outputs, strict=True):
        if node.dtype == loop.dtype:
            size = node.type.size
            found.append(flat[start : start + size].reshape(node.shape))
            start += size
        else:
            found.append(np.empty(node.shape, node.dtype))
        found[-1][...] = initial
    return found


def require_end(number: int, loop: Repeated) -> None:
    """StepLimitError where one more iteration would be one too many."""
    if number == loop.limit:
        raise StepLimitError(
            f"{loop_text(loop.forth)} has not ended after max_steps={loop.limit:,} iterations: its "
            "condition still holds",
            hint="give a larger max_steps, if it would end then\n"
            "(without max_steps= it goes on until it ends, but has no reverse mode)",
        )


def unwind_evaluate(xp: Any, *arrays: Any, **params: Any) -> Any:
    """Forth, keeping the first values of each segment; then segment by segment back."""
    loop = Repeated(**params)
    constants, states = loop.constants, loop.states
    holds, forth = (program_of(one, xp, None) for one in (loop.condition, loop.forth))
    back = program_of(loop.body, xp, None, over(loop.body, loop.back, loop.carries))
    fixed = [in_c_order(one) for one in arrays[:constants]]
    flat = result_of(xp, loop.type)
    gone = carries_in(flat, loop, arrays[loop.back :])
    types = [node.type for _, node in loop.forth.graph.outputs]
    state = [np.empty(one.shape, one.dtype) for one in types]
    store(state, arrays[constants : loop.back])
    (length, count), read = loop.segments, loop.read
    starts = [_rows(one, count) for one in types]
    rows = {place: _rows(types[place], length) for place in read}

    def keep(number: int) -> None:
        for place, one in rows.items():
            one[number % length] = state[place]

    number = 0
    while holds([*fixed, *state])[0]:
        require_end(number, loop)
        if read and number % length == 0:
            store([one[number // length, ...] for one in starts], state)
        keep(number)
        store(state, forth([*fixed, *state]))
        number += 1
    last = number
    for first in range((last - 1) // length * length, -1, -length):
        if read and first + length < last:  # the rows of the last segment are there
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


def _rows(type_: ArrayType, count: int) -> np.ndarray:
    return np.empty((count, *type_.shape), type_.dtype)


def unwind_scratch(out: Node, *operands: np.ndarray) -> int:
    """As if the loop was as long as it may be."""
    loop = repeated(out)
    length, count = loop.segments
    sizes = [int(node.type.nbytes) for _, node in loop.forth.graph.outputs]
    taken = loop.carried_nbytes(*operands) + sum(sizes) * (1 + count)
    taken += sum(sizes[place] for place in loop.read) * length
    return taken + max(iteration_nbytes(one) for one in (loop.body, loop.forth, loop.condition))
