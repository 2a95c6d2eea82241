"""`jacobian` and `hessian`: all derivatives of all outputs in one batched pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.execute.executors import executor_named
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import Wrt, require_function, trace_in
from chainrule.functional.bill import Bill
from chainrule.functional.calls import gradient_in_trace
from chainrule.functional.made import makes_a_function
from chainrule.functional.numbers import on_numbers_too
from chainrule.functional.row_numbers import OnNumbers
from chainrule.functional.rows import Rows, Wanted
from chainrule.tracebacks import entry
from chainrule.tracing import function_name


class Derivative(Protocol):
    """A function that computes a Jacobian or Hessian; `cost` predicts the cost of a call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def cost(self, *args: Any, **kwargs: Any) -> Bill:
        """Predicts the operations and bytes of a call with these arguments, without calling.

        The arguments may be types: `cr.hessian(f).cost(cr.float64["4000"])`.
        """
        ...


@makes_a_function
def jacobian(
    function: Callable[..., Any],
    wrt: Wrt = None,
    *,
    mode: str | None = None,
    rows: int | None = None,
    has_aux: bool = False,
    executor: str | None = None,
) -> Derivative:
    """Returns a function that computes the Jacobian of `function`: `cr.jacobian(f)(x)`.

    Its shape is that of the output, then that of the argument.  `wrt` says by which arguments, as
    for `grad`; with containers, or several arguments, the result has the containers of the output,
    and in each place those of the arguments.  With `has_aux`, `function` returns (value, aux), and
    the result is (Jacobian, aux).

    It is one pass for all rows, as a batch.  `mode` is "reverse" (a row for each output) or
    "forward" (a column for each input), by default what takes fewer, or the other one where an
    operation of the user's has no rule for that.  `rows=64` makes 64 of them
    at a time, with one compiled graph, and needs memory for no more beside the result; the program
    itself runs again each time, and arguments that are traced arrays are refused.

    `cr.jacobian(f).cost(x)` is what a call takes.  MemoryLimitError, before anything is allocated,
    where that is more than the memory that is free.
    """
    wanted = Wanted(wrt, has_aux, mode)
    return _derivative(function, wanted, rows, executor, "Jacobian")


@entry
def jacrev(function: Callable[..., Any], wrt: Wrt = None, **options: Any) -> Derivative:
    """The Jacobian in reverse mode: `jacobian` with mode="reverse"."""
    return jacobian(function, wrt, mode="reverse", **options)


@entry
def jacfwd(function: Callable[..., Any], wrt: Wrt = None, **options: Any) -> Derivative:
    """The Jacobian in forward mode: `jacobian` with mode="forward"."""
    return jacobian(function, wrt, mode="forward", **options)


@makes_a_function
def hessian(
    function: Callable[..., Any],
    wrt: Wrt = None,
    *,
    rows: int | None = None,
    has_aux: bool = False,
    executor: str | None = None,
) -> Derivative:
    """Returns a function that computes the Hessian of the scalar `function`: `cr.hessian(f)(x)`.

    Its shape is that of the argument twice; the rest is as for `jacobian`, of the gradient.  It is
    forward over reverse: the gradient, moved along every element of the arguments at once.  Where
    an operation of the user's has no rule for forward mode, it is reverse over reverse.  Where the
    Hessian is too large, `cr.hvp` multiplies it by a vector and never forms it.
    """

    require_function(function)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        building = trace_in(args, kwargs)
        assert building is not None
        value, found = gradient_in_trace(building, function, wrt, has_aux, None, args, kwargs)
        return (found, value[1]) if has_aux else found

    wanted = Wanted(wrt, has_aux, symmetric=True)
    return _derivative(gradient, wanted, rows, executor, "Hessian")


def _derivative(
    function: Callable[..., Any], wanted: Wanted, rows: int | None, executor: str | None, word: str
) -> Derivative:
    _need_rows(rows)
    executor = executor_named(executor)

    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        if rows is not None:
            raise UnsupportedError(
                f"rows={rows} of the {word} of {function_name(function)} in a traced program",
                where=building.where(),
                hint="leave rows= out in a traced program: a graph cannot run in parts",
            )
        if frame is not None:
            building.enter(frame)
        site = building.site
        if frame is not None:
            building.site = None
        found = Rows(building, function, wanted, args, kwargs)
        building.site = site
        blocks = {key: Traced(node, building) for key, node in found.blocks().items()}
        if frame is not None:
            building.site = None
        result = found.layout.container(blocks)
        if frame is not None and isinstance(result, Traced):
            building.name_result(result.node, user_frame(frame))
        return (result, found.aux) if wanted.has_aux else result

    numbers = OnNumbers(function, wanted, rows, word)
    made = on_numbers_too(function, in_trace, executor, numbers.result)
    made.cost = lambda *args, **kwargs: numbers.cost(args, kwargs, executor)
    return made


def _need_rows(rows: Any) -> None:
    known = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool)
    if rows is not None and not (known and rows >= 1):
        raise InputError(
            f"rows={rows!r}: an integer of at least 1, or None for all at once", hint="rows=64"
        )
