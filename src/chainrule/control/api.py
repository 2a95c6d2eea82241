"""`scan`, `cond`, `while_loop` and `fori_loop`, called as in JAX, on traced arrays or numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from chainrule.control.choices import traced_cond
from chainrule.control.counted import counted
from chainrule.control.trace_body import parameters_as_called, require_function_of, standing_for
from chainrule.control.tracing import traced_scan, traced_while
from chainrule.errors import DTypeError, InputError, UndecidableSize
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.types_shown import type_text
from chainrule.frontend.frozen.frozen_random import warning_of_draws
from chainrule.frontend.naming import user_frame
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.functional.numbers import on_numbers_too
from chainrule.graph.node import topological
from chainrule.graph.origin import Origin
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import INT_SCALAR, type_of
from chainrule.primitives.arithmetic import add
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.sources import positions, size_of
from chainrule.tracebacks import entry
from chainrule.tracing import function_name

Function = Callable[..., Any]


@entry
def scan(
    f: Function, init: Any, xs: Any = None, length: int | Size | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Loops over the first axis of xs: `carry, y = f(carry, x)` for each slice x of it.

    Gives the last carry, and the ys of all iterations, stacked along a new first axis.  `init` (the
    first carry), xs and ys are arrays or containers of arrays; xs may be None, and `length` then
    says how many iterations there are.  With `reverse` it goes from the last slice to the first,
    and ys[i] still belongs to xs[i].

    The graph holds f once, whatever the length is.  All derivatives are loops, too.  A carry keeps
    its shape and dtype; a Python number takes the type that the first iteration gives it.  Raises
    ShapeError or DTypeError, with the name of the carry, where it does not, and ShapeError where
    the arrays in xs have different lengths.
    """

    length = _structural(length)

    def in_trace(building: Trace, frame: FrameType | None, given: Any, _: Any) -> Any:
        return traced_scan(building, frame, f, given[0], given[1], length, reverse)

    return _on(_drawing_once(in_trace, f), f, init, xs, iterations=length)


@entry
def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """Calls `true_fun(*operands)` if the boolean `pred` holds, else `false_fun(*operands)`.

    Only that branch is computed, and only it has a derivative: NaN in the other one harms nothing.
    Both return the same containers, shapes and dtypes.  In a batch in which every example has its
    own `pred`, both are computed, and one is selected.
    """

    def in_trace(building: Trace, frame: FrameType | None, given: Any, _: Any) -> Any:
        return traced_cond(building, frame, given[0], (true_fun, false_fun), given[1:])

    return _on(in_trace, cond, _as_array(pred), *operands)


@entry
def while_loop(
    cond_fun: Function, body_fun: Function, init_val: Any, *, max_steps: int | None = None
) -> Any:
    """Repeats `value = body_fun(value)` while `cond_fun(value)` holds; returns the last value.

    Values are arrays or containers of arrays, and keep their shapes and dtypes.  Forward mode
    works (`cr.jvp`); reverse mode needs `max_steps`, and raises NotDifferentiableError without it.

    With `max_steps`, a Python integer, all derivatives exist; reverse mode stores about
    2 sqrt(max_steps) values, and does each iteration twice.  A run in which the condition still
    holds after so many iterations raises StepLimitError, and so do its derivatives.  InputError for
    another `max_steps`.
    """

    def in_trace(building: Trace, frame: FrameType | None, given: Any, _: Any) -> Any:
        return traced_while(building, frame, cond_fun, body_fun, *given, max_steps=max_steps)

    watched = _drawing_once(in_trace, body_fun, cond_fun=cond_fun)
    return _on(watched, body_fun, init_val)


@entry
def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """Repeats `value = body_fun(i, value)` for i from `lower` to `upper` - 1; returns the last.

    With integers of Python or NumPy, int arguments whose number is known, or sizes as bounds it is
    a `scan`, which has all derivatives; with other traced integers a `while_loop`.  InputError or
    DTypeError for other bounds.
    """
    line = _origin(sys._getframe(1))
    require_function_of(body_fun, 2, line.describe())
    lower, upper = _bound("lower", lower, line), _bound("upper", upper, line)
    if all(not isinstance(bound, Traced) or _is_known(bound) for bound in (lower, upper)):
        lower, upper = _structural(lower), _structural(upper)
    if trace_of((lower, upper)) is not None:

        def counting(building: Trace, frame: FrameType | None, given: Any, _: Any) -> Any:
            return counted(building, frame, given[0], given[1], body_fun, given[2])

        return _on(_drawing_once(counting, body_fun), body_fun, lower, upper, init_val)
    length = sizes.maximum(upper - lower, 0)
    if isinstance(length, int) and length >= 2**63:
        raise InputError(
            f"from {lower} to {upper} there are {length} iterations, which int64 cannot count",
            where=line.describe(),
            hint="check the bounds; while_loop needs no number of iterations",
        )

    def step(value: Any, i: Any) -> tuple[Any, None]:
        return body_fun(i, value), None

    i, value = parameters_as_called(body_fun, ("i", "value"))
    standing_for(step, body_fun, (value, i))

    def in_trace(building: Trace, frame: FrameType | None, given: Any, _: Any) -> Any:
        numbers: Any = positions(length, np.dtype(np.int64))
        if lower != 0:
            start = size_of(lower, type_of(np.int64(0)))
            numbers = add(numbers, broadcast_to(start, shape=(length,)))
        rows = Traced(numbers, building)
        return traced_scan(building, frame, step, given[0], rows, length, False, [INT_SCALAR])[0]

    return _on(_drawing_once(in_trace, body_fun), body_fun, init_val, iterations=length)


def _is_known(number: Traced) -> bool:
    return number.program.known_int(number) is not None


def _structural(number: Any) -> Any:
    """A number of iterations; of an int argument its number, to which the graph is then bound."""
    if isinstance(number, Traced) and _is_known(number):
        return number.program.guard(number.node)
    return number


def _bound(name: str, bound: Any, line: Origin) -> Any:
    """The bound, one of NumPy as a Python integer, whose differences do not overflow; InputError or
    DTypeError unless it is one integer of int64 or a size."""
    if isinstance(bound, Size):
        return bound
    if isinstance(bound, (Traced, np.ndarray, np.generic)):
        if bound.dtype.kind not in "iu" or bound.shape:
            of = bound.node.type if isinstance(bound, Traced) else type_of(bound)
            raise DTypeError(
                f"the bound {name} of fori_loop is {type_text(of)}, not one integer",
                where=line.describe(),
                hint="convert it, as in n.astype(int)",
            )
        if isinstance(bound, Traced):
            return bound
        bound = int(bound)
    if isinstance(bound, bool) or not isinstance(bound, int) or not -(2**63) <= bound < 2**63:
        raise InputError(
            f"the bound {name} of fori_loop is {bound!r}, which is no integer of int64",
            where=line.describe(),
            hint="give Python integers, sizes such as x.shape[0], or traced integers",
        )
    return bound


def _as_array(value: Any) -> Any:
    """A Python or NumPy boolean as an array, which is traced."""
    return np.asarray(value) if isinstance(value, (bool, np.bool_)) else value


def _origin(frame: FrameType) -> Origin:
    """The user's line that is running in this frame or above it."""
    caller = user_frame(frame)
    return Origin() if caller is None else Origin(caller.f_code, caller.f_lasti)


def _drawing_once(
    in_trace: Callable[..., Any], body: Function, **more: Function
) -> Callable[..., Any]:
    """`in_trace` with a warning of what the body draws: it is called once for all iterations."""

    def watched(building: Trace, *given: Any) -> Any:
        with warning_of_draws(body, (), more, "the same in every iteration") as made:
            result = in_trace(building, *given)
            nodes = [node for node, _ in nodes_of(result)]
            made.append(lambda: (topological(nodes), building.name_of))
        return result

    return watched


def _on(
    in_trace: Callable[..., Any], function: Function, *arguments: Any, iterations: Any = 0
) -> Any:
    """`in_trace` on the arguments, in the trace that they or the function belong to, or a new one
    that is then run; InputError where it cannot run, as `iterations` is a named size."""
    is_traced = False

    def given(*arguments: Any) -> Any:
        raise AssertionError("replaced by in_trace")

    def with_line(building: Trace, frame: FrameType | None, values: Any, options: Any) -> Any:
        """`in_trace`; what it builds has the line of the call, also where all are numbers, and
        what it gives is called as the user's program stores it."""
        if frame is not None or building.site is not None:
            result = in_trace(building, frame, values, options)
            if frame is not None and building.site is None:
                for node, place in nodes_of(result):
                    building.name_result(node, user_frame(frame), place)
            return result
        nonlocal is_traced
        building.site = building.place or line
        try:
            result = in_trace(building, None, values, options)
            is_traced = True
            return result
        finally:
            building.site = None

    line = _origin(sys._getframe(2))
    given.__name__ = function_name(function)
    try:
        return on_numbers_too(given, with_line, None)(*arguments)
    except UndecidableSize:
        if not is_traced or not isinstance(iterations, Size):
            raise
        raise InputError(
            f"{given.__name__} would run {iterations} times on numbers alone, but {iterations} is "
            "not known while tracing",
            where=line.describe(),
            hint="begin with a traced value: np.zeros_like(x, shape=()), where x is traced",
        ) from None
