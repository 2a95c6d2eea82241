"""Adds the call and the user's line to errors that Python or NumPy raises in a traced function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
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
SIGNATURE = re.compile(r"\w+\(\) (takes|got|missing) .*argument")


def raise_explained(
    trace: Trace | None,
    error: Exception,
    called: str,
    args: Any,
    kwargs: Mapping[str, Any],
    function: Callable[..., Any] | None = None,
) -> NoReturn:
    """Raise an error of this library in place of `error`, which the call met; on plain arrays
    without a trace.

    What already explains itself, what `restored_error` explains, what np.errstate makes an error,
    and what a function of the user's raised (a row's function, a branch) stays as it is.  Where the
    call has other arguments than the `function`, the message shows those that it has.
    """
    from chainrule.frontend.errors.restore_errors import (
        restored_error,  # loaded where a program fails
    )

    if isinstance(error, (ChainruleError, FloatingPointError)) or restored_error(error) is not None:
        raise error
    if _is_the_users(error):
        raise error
    kind = InputError
    if isinstance(error, MemoryError):
        kind = MemoryLimitError
    elif isinstance(error, TypeError):
        kind = UnsupportedError
    given = [shown(trace, one) for one in args]
    given += [f"{name}={shown(trace, one)}" for name, one in kwargs.items()]
    hint = "check the types and the values of the arguments"
    if function is not None and kind is UnsupportedError and SIGNATURE.match(str(error)):
        from chainrule.signatures import refused_call  # loaded where a program fails

        problem = refused_call(function, args, kwargs)
        perhaps = "" if problem is None else problem.hint.partition("its arguments")[0]
        hint = f"{perhaps}its arguments are: {called}{_signature(function)}"
    raise kind(
        f"{called}({', '.join(given)}): {error}",
        where=trace.where() if trace is not None else "",
        hint=hint,
    ) from error


def _signature(function: Callable[..., Any]) -> str:
    """The arguments of a function and their defaults."""
    found = inspect.signature(function)
    bare = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=found.empty))


def _is_the_users(error: Exception) -> bool:
    """Whether it was raised in code of the user's that the function called."""
    step = error.__traceback__
    while step is not None:
        if user_frame(step.tb_frame) is step.tb_frame:
            return True
        step = step.tb_next
    return False


def shown(trace: Trace | None, value: Any) -> str:
    """How messages show an argument: a name with a type, a type, or the value."""
    node = getattr(value, "node", None)
    if isinstance(node, Node) and trace is not None:
        return trace.show(node)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(shown(trace, one) for one in value[:8])
        text = f"[{parts}]" if isinstance(value, list) else f"({parts})"
    else:
        text = getattr(value, "__name__", "") or " ".join(repr(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
