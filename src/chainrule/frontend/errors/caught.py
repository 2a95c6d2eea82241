"""Handles errors that the user's function catches: every run must take the same branch.

`try: np.sum(x * np.ones(2))`, `except ValueError:` decides by a size as `if n != 2:` does: what the
error rests on becomes a condition.  Where tracing has its limits, NumPy raises nothing; a function
that catches such an error and goes on would be traced as something else than it is.  It is refused,
unless it names an error of this library.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

from chainrule.errors import (
    ChainruleError,
    DTypeError,
    ForeignValueError,
    IndexOutOfRangeError,
    InputError,
    ShapeError,
    UnsupportedError,
    programs_around,
)
from chainrule.frontend.bytecode.running import around, value_of
from chainrule.frontend.errors.restore_errors import is_swallowed, restored_error
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace
from chainrule.graph.origin import Origin
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.asked_size import assumed_other
from chainrule.graph.sizes.asking import Program, is_library

AS_NUMPY = (ShapeError, DTypeError, IndexOutOfRangeError, InputError)  # NumPy raises, too


def settle_caught(program: Trace) -> None:
    """Conditions for the errors that the function of this program has caught; UnsupportedError
    for one that NumPy does not raise."""
    caught, program.refused = program.refused, []
    programs = tuple(programs_around(sys._getframe(1)))
    for error, origin in caught:
        step = error.__traceback__  # of the function that caught it
        if not (is_swallowed(error) or (step is not None and _is_the_users(step))):
            continue
        if isinstance(error, ForeignValueError) and error.outermost is not None:
            continue  # a derivative within a program, which is traced into that program then
        if step is not None and isinstance(error, ShapeError) and error.rests_on is not None:
            assume(programs, error, origin)
        elif _is_numpys(program, error) or (step is not None and _is_meant(error, step)):
            continue
        else:
            shown = restored_error(error) or error
            raise UnsupportedError(
                "the function catches an error of tracing and goes on, where NumPy may raise none: "
                f"{shown.what}",
                where=shown.where or origin.describe(),
                hint=f"{shown.hint}\nor catch it by its name, if the other branch is right in "
                f"every run: except cr.errors.{type(error).__name__}",
            ) from error


def assume(programs: tuple[Program, ...], error: ShapeError, origin: Origin) -> None:
    """Make conditions of the comparisons of sizes on which the error rests."""
    for one, other in error.rests_on or ():
        difference = one - other
        if isinstance(difference, int) or sizes.is_never_zero(difference):
            continue
        assumed_other(programs, origin, difference, f"{one} == {other}")


def _is_the_users(step: TracebackType) -> bool:
    return user_frame(step.tb_frame) is step.tb_frame and not is_library(step.tb_frame)


def _is_numpys(program: Trace, error: ChainruleError) -> bool:
    """Whether NumPy raises such an error in every run: of sizes that are known."""
    return isinstance(error, AS_NUMPY) and not program.sizes


def _is_meant(error: ChainruleError, step: TracebackType) -> bool:
    """Whether a statement around what raised it names a class of this library's errors."""
    frame = step.tb_frame
    value = partial(value_of, frame=frame)
    return any(
        isinstance(kind, type) and issubclass(kind, ChainruleError) and isinstance(error, kind)
        for kind in map(value, _named(around(frame, step.tb_lasti)))
    )


def _named(nodes: list[Any]) -> Iterator[ast.AST]:
    """The classes that `try` and `with` statements around an expression name."""
    for node in nodes:
        named: list[ast.AST] = []
        if isinstance(node, ast.Try):
            named = [handler.type for handler in node.handlers if handler.type is not None]
        elif isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items]
            named = [arg for call in calls if isinstance(call, ast.Call) for arg in call.args]
        for one in named:
            yield from one.elts if isinstance(one, ast.Tuple) else [one]
