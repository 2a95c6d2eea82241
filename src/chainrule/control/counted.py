"""`fori_loop` with a bound that is not known while tracing: a while loop that counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.tracing import Frame, traced_while
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes import Size
from chainrule.tracing import function_name


def counted(building: Trace, frame: Frame, lower: Any, upper: Any, function: Any, init: Any) -> Any:
    """`fori_loop` where a bound is a traced number: a while loop that counts, in int64 unless one
    dtype has both bounds."""
    lower, upper = _in_one_dtype(lower, upper)

    def holds(state: Any) -> Any:
        return state[0] < upper

    def step(state: Any) -> Any:
        return state[0] + 1, function(*state)

    step.__name__ = function_name(function)
    return traced_while(building, frame, holds, step, (lower, init))[1]


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
