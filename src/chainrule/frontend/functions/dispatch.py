"""Finds the traced version of a NumPy function called on traced arrays, or refuses it."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import ChainruleError, MutationError, UnsupportedError
from chainrule.frontend.errors.explain_errors import FAILURES, raise_explained
from chainrule.frontend.functions.elementwise import UFUNCS, elementwise
from chainrule.frontend.functions.types_of import TYPES_OF
from chainrule.frontend.trace import Trace


def dispatch(trace: Trace, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call the traced version of a NumPy function (a ufunc, or one of `trace.functions`)."""
    if kwargs:
        kwargs = _plain_options(trace, function, args, kwargs)
    if function in UFUNCS:
        if kwargs:
            _refuse_option(trace, function, next(iter(kwargs)))
        return elementwise(trace, function, args)
    traced = trace.functions.get(function)
    if traced is None:
        if function in TYPES_OF:
            return TYPES_OF[function](*args, **kwargs)
        _refuse_function(trace, function)
    try:
        return traced(trace, *args, **kwargs)
    except ChainruleError:  # one of them is a TypeError, and shows the user's line
        raise
    except TypeError as error:
        unknown = str(error).partition("unexpected keyword argument ")[2].strip("'")
        if unknown and unknown in kwargs:
            _refuse_option(trace, function, unknown)
        if " positional argument" in str(error):
            _refuse_arguments(trace, function, len(args))
        raise_explained(trace, error, f"np.{name_of(function)}", args, kwargs)
    except FAILURES as error:
        raise_explained(trace, error, f"np.{name_of(function)}", args, kwargs)


def _plain_options(
    trace: Trace, function: Any, args: Any, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The options that say something: NumPy passes defaults such as out=None along."""
    out = kwargs.get("out")
    if out is not None and not (isinstance(out, tuple) and all(one is None for one in out)):
        first = out[0] if isinstance(out, tuple) else out
        if isinstance(first, np.ndarray) and len(args) > 1 and args[0] is first:
            raise MutationError(  # buffer += x, which NumPy makes np.add(buffer, x, out=buffer)
                f"np.{name_of(function)} of a traced array cannot write into the NumPy array "
                "on its left: the numbers do not exist while the program is traced",
                where=trace.where(),
                hint="bind the result to a name: a = a + b in place of a += b;\n"
                "of an element, a = cr.at(a)[key].add(b) in place of a[key] += b",
            )
        raise MutationError(
            f"np.{name_of(function)} cannot write into out=: traced arrays are values",
            where=trace.where(),
            hint="leave out= out and bind the result to a name",
        )
    default = {"where": True, "subok": True, "order": "K", "casting": "same_kind"}
    default |= {"dtype": None} if function in UFUNCS else {}
    return {
        key: value
        for key, value in kwargs.items()
        if not (value is np._NoValue or (key in default and _is(value, default[key])))
        and key != "out"
    }


def _refuse_function(trace: Trace, function: Any) -> NoReturn:
    from chainrule.frontend.hints.numbers import instead_of_asking
    from chainrule.frontend.hints.replacements import (  # if refused
        INSTEAD,
        instead_of,
        primitive_of,
    )

    name = name_of(function)
    is_numpys = not isinstance(function, np.ufunc) or getattr(np, name, None) is function
    hint = instead_of(name)
    if function is np.copyto:  # perhaps by np.full
        hint = instead_of_asking(sys._getframe()) or hint
    if not is_numpys and name not in INSTEAD:
        same = getattr(np, name, None) in UFUNCS
        hint = f"write np.{name}, which is" if same else primitive_of(_path_of(function))
    raise UnsupportedError(
        f"np.{name} is not traced" if is_numpys else f"{_path_of(function)} is not traced",
        where=trace.where(),
        hint=hint,
    )


def _path_of(ufunc: Any) -> str:
    """How a ufunc of SciPy is imported; its name for others."""
    special = sys.modules.get("scipy.special")
    is_scipys = getattr(special, ufunc.__name__, None) is ufunc
    return f"scipy.special.{ufunc.__name__}" if is_scipys else ufunc.__name__


def _refuse_option(trace: Trace, function: Any, option: str) -> NoReturn:
    from chainrule.frontend.hints.other_libraries import keyword_named  # if refused

    raise UnsupportedError(
        f"np.{name_of(function)}({option}=...) is not traced",
        where=trace.where(),
        hint=keyword_named(option)
        or f"leave {option}= out, or write the operation with other functions",
    )


def _refuse_arguments(trace: Trace, function: Any, count: int) -> NoReturn:
    from chainrule.frontend.hints.replacements import PAGE  # if refused

    raise UnsupportedError(
        f"np.{name_of(function)} with {count} positional arguments is not traced",
        where=trace.where(),
        hint=f"{PAGE} lists the arguments that are",
    )


# What the methods of ufuncs are, by (ufunc, method).
METHODS: dict[tuple[np.ufunc, str], Any] = {
    (np.add, "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
    (np.maximum, "accumulate"): "maximum.accumulate",
    (np.minimum, "accumulate"): "minimum.accumulate",
}


def ufunc_method(
    trace: Trace, ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any], frame: Any
) -> tuple[Any, Any, dict[str, Any]]:
    """The function, arguments and options that np.add.reduce and its like stand for."""
    if method == "outer" and ufunc.nin == 2:
        return "outer", (ufunc, *inputs), kwargs
    function = METHODS.get((ufunc, method))
    if function is None:
        refuse_ufunc_method(trace, ufunc, method, frame)
    return function, inputs, {"axis": 0, **kwargs}


def refuse_ufunc_method(trace: Trace, ufunc: np.ufunc, method: str, frame: Any) -> NoReturn:
    """Refuse methods that are not traced, and np.add.at, which works in place."""
    trace.enter(frame)
    where = trace.where()
    trace.site = None
    if method == "at":
        raise MutationError(
            f"np.{ufunc.__name__}.at changes an array in place; traced arrays are values",
            where=where,
            hint="build the result anew: x = x.at[places].add(values)",
        )
    traced = [f"np.{one.__name__}" for one, name in METHODS if name == method]
    raise UnsupportedError(
        f"np.{ufunc.__name__}.{method} is not traced",
        where=where,
        hint=f"of .{method} these are: {', '.join(traced)}"
        if traced
        else "use .reduce, .accumulate or .outer, or write it with functions that are traced",
    )


def _is(value: Any, default: Any) -> bool:
    return value is default or (
        isinstance(default, str) and isinstance(value, str) and value == default
    )


def name_of(function: Any) -> str:
    """The name of a NumPy function or ufunc."""
    if isinstance(function, str):
        return function
    module = getattr(function, "__module__", "") or ""
    prefix = module.removeprefix("numpy").lstrip(".")
    name = function.__name__
    return f"{prefix}.{name}" if prefix and not prefix.startswith("_") else name
