"""What Python or NumPy raises inside a traced function, said again with the call and its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import ChainruleError, InputError, MemoryLimitError, UnsupportedError
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node

FAILURES = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    MemoryError,
)
LONGEST = 60  # characters of an argument


def raise_explained(
    trace: Trace, error: Exception, called: str, args: Any, kwargs: Mapping[str, Any]
) -> NoReturn:
    """Raise an error of this library in place of `error`, which the call met.

    What already explains itself, what `said_again` explains, and what a function of the user's
    raised (a row's function, a branch) stays as it is.
    """
    from chainrule.frontend.said_again import said_again  # loaded where a program fails

    if isinstance(error, ChainruleError) or said_again(error) is not None:
        raise error
    if _is_the_users(error):
        raise error
    kind = InputError
    if isinstance(error, MemoryError):
        kind = MemoryLimitError
    elif isinstance(error, TypeError):
        kind = UnsupportedError
    given = [_shown(trace, one) for one in args]
    given += [f"{name}={_shown(trace, one)}" for name, one in kwargs.items()]
    raise kind(
        f"{called}({', '.join(given)}): {error}",
        where=trace.where(),
        hint="check the types and the values of the arguments",
    ) from error


def _is_the_users(error: Exception) -> bool:
    """Whether it was raised in code of the user's that the function called."""
    step = error.__traceback__
    while step is not None:
        if user_frame(step.tb_frame) is step.tb_frame:
            return True
        step = step.tb_next
    return False


def _shown(trace: Trace, value: Any) -> str:
    node = getattr(value, "node", None)
    if isinstance(node, Node):
        return trace.show(node)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(_shown(trace, one) for one in value[:8])
        text = f"[{parts}]" if isinstance(value, list) else f"({parts})"
    else:
        text = getattr(value, "__name__", "") or repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
