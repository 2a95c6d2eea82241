"""`fori_loop` with a bound that is unknown while tracing: a while loop with a counter."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.trace_body import parameters_as_called, standing_for
from chainrule.control.tracing import Frame, traced_while
from chainrule.frontend.functions.elementwise import elementwise
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size


def counted(building: Trace, frame: Frame, lower: Any, upper: Any, function: Any, init: Any) -> Any:
    """`fori_loop` where a bound is a traced number: a while loop that counts, in int64 unless one
    dtype has both bounds."""
    lower, upper = _in_one_dtype(lower, upper)

    names = parameters_as_called(function, ("i", "value"))

    def holds(state: Any) -> Any:
        return Traced(elementwise(building, np.less, (state[0], upper)), building)

    def step(state: Any) -> Any:
        following = Traced(elementwise(building, np.add, (state[0], 1)), building)
        return following, function(*state)

    standing_for(step, function, ("state",))
    return traced_while(building, frame, holds, step, (lower, init), names)[1]


def _in_one_dtype(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Both bounds in one dtype, of which the count up to `upper` does not leave the range."""
    strong = {x.dtype for x in (lower, upper) if _is_strong(x)}
    numbers = [x for x in (lower, upper) if isinstance(x, int)]
    if len(strong) == 1 and not any(isinstance(x, Size) for x in (lower, upper)):
        limits = np.iinfo(strong.pop())
        if all(limits.min <= x <= limits.max for x in numbers):
            return lower, upper
    wide = [x.astype(np.int64) if _is_strong(x) else x for x in (lower, upper)]
    return wide[0], wide[1]


def _is_strong(bound: Any) -> bool:
    return isinstance(bound, Traced) and not bound.node.type.weak
