"""`@composite` marks a function of primitives that is drawn and written as one operation."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from chainrule.errors import ChainruleError, UndecidableSize
from chainrule.frontend.errors.explain_errors import FAILURES, raise_explained
from chainrule.frontend.functions.elementwise import apply, kind_of, lift, resolve
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin, Scope, Textbook
from chainrule.graph.plain import refuse_among
from chainrule.primitives.primitive import Primitive
from chainrule.tracebacks import shorten

NOTHING: Mapping[str, Any] = {}
P = ParamSpec("P")
R = TypeVar("R")


def note_line(trace: Trace, error: Exception) -> None:
    """Give an error of this library that knows no line that of the call."""
    if isinstance(error, UndecidableSize):  # whose line the front end finds
        return
    if isinstance(error, ChainruleError) and not error.where:
        error.where = trace.where()


def trace_of(values: Any) -> Trace | None:
    """The trace of the first traced array among the values; None where all are numbers."""
    for value in values:
        if isinstance(value, Traced):
            return value.program
        if isinstance(value, (list, tuple, dict)):
            found = trace_of(value.values() if isinstance(value, dict) else value)
            if found is not None:
                return found
    return None


def composite(
    *,
    symbol: str = "",
    latex: str = "",
    gradients: Mapping[str, Callable[[Any, Any, Any], Any]] = NOTHING,
    sign: Callable[[Mapping[str, Any]], str] | None = None,
    module: str = "cr",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Record calls as a scope with this symbol; only the result takes the caller's name.

    The function is written with NumPy, so on plain arrays it simply computes.  `module` is where
    messages say that it is from; `gradients` and `sign` are as those of a `Textbook`.
    """
    textbook = Textbook(symbol, latex, gradients, sign)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = cast(FunctionType, function).__code__.co_varnames

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            trace = trace_of(args) or trace_of(kwargs.values())
            if trace is None:
                try:
                    return _at_once(f"{module}.{function.__name__}", function, call, args, kwargs)
                except Exception as error:
                    shorten(error)
                    raise
            outer = trace.site
            frame = trace.enter(sys._getframe(1)) if outer is None else None
            site = trace.site
            assert site is not None
            scope = Scope(function.__name__, site.scope, textbook)
            given = (*zip(names, args, strict=False), *kwargs.items())
            scope.arguments = tuple((k, v.node if isinstance(v, Traced) else v) for k, v in given)
            trace.site = Origin(site.code, site.lasti, scope)
            try:
                result = function(*args, **kwargs)
            except FAILURES as error:
                note_line(trace, error)
                called = f"{module}.{function.__name__}"
                raise_explained(trace, error, called, args, kwargs, call)
            finally:
                trace.site = outer
            if isinstance(result, Traced):
                scope.result = (result.node,)
                if outer is None and all(result.node is not v for _, v in scope.arguments):
                    trace.name_result(result.node, frame)
            elif isinstance(result, tuple) and outer is None:
                for node, place in nodes_of(result):
                    trace.name_result(node, frame, place)
            return result

        return call

    return decorate


def _at_once(called: str, compute: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """What `compute` gives of plain arrays; errors show the call, and which arguments
    the `function` has that was called."""
    refuse_among((*args, *kwargs.values()), called)
    try:
        return compute(*args, **kwargs)
    except FAILURES as error:
        raise_explained(None, error, called, args, kwargs, function)


def unary(
    primitive: Primitive, ufunc: np.ufunc, name: str, doc: str, integers: Any = np.float64
) -> Callable[[Any], Any]:
    """A function of one array for a primitive that NumPy lacks; dtypes follow `ufunc`.  Where that
    makes floats of integers, they are at least of the dtype `integers`, as in SciPy."""

    def function(x: Any) -> Any:
        try:
            return _applied(primitive, ufunc, name, (x,), sys._getframe(1), integers)
        except Exception as error:
            shorten(error)
            raise

    return _named(function, name, doc)


def binary(primitive: Primitive, ufunc: np.ufunc, name: str, doc: str) -> Callable[[Any, Any], Any]:
    """The same of two arrays, which broadcast."""

    def function(x: Any, y: Any) -> Any:
        try:
            return _applied(primitive, ufunc, name, (x, y), sys._getframe(1), np.float64)
        except Exception as error:
            shorten(error)
            raise

    return _named(function, name, doc)


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _applied(
    primitive: Primitive,
    ufunc: np.ufunc,
    name: str,
    values: tuple[Any, ...],
    caller: Any,
    integers: Any,
) -> Any:
    """The primitive of arrays, at once, or of traced arrays, named by the line of the caller."""
    trace = trace_of(values)
    if trace is None:
        of_arrays = functools.partial(_of_arrays, primitive, ufunc, integers)
        return _at_once(f"cr.{name}", of_arrays, None, values, {})
    outer = trace.site
    frame = trace.enter(caller) if outer is None else None
    try:
        operands = [lift(trace, value) for value in values]
        kinds = tuple(kind_of(operand) for operand in operands)
        found = _computed_in(ufunc, kinds, integers) or (np.dtype(kinds[0]), False)
        node: Node = apply(trace, primitive, name, operands, *found)
    finally:
        trace.site = outer
    if outer is None:
        trace.name_result(node, frame)
    return Traced(node, trace)


def _of_arrays(primitive: Primitive, ufunc: np.ufunc, integers: Any, *values: Any) -> Any:
    kinds = tuple(type(x) if type(x) in (int, float) else np.asarray(x).dtype for x in values)
    found = _computed_in(ufunc, kinds, integers)
    arrays = [np.asarray(x, found[0] if found else None) for x in values]
    return primitive.evaluate(np, *np.broadcast_arrays(*arrays))


def _computed_in(
    ufunc: np.ufunc, kinds: tuple[Any, ...], integers: Any
) -> tuple[np.dtype, bool] | None:
    """As `resolve`, with integers as floats of the dtype `integers` or a wider one."""
    found = resolve(ufunc, kinds)
    if found is None or dtype_kind(found[0]) != "f":
        return found
    wide = [
        np.result_type(kind, integers)
        if isinstance(kind, np.dtype) and kind.kind in "iub"
        else kind
        for kind in kinds
    ]
    return resolve(ufunc, tuple(wide))
