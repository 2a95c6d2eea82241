"""NumPy's reductions that ignore NaN; an element that is NaN has the derivative 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.numpy import averages
from chainrule.numpy.averages import dtype_of, is_everything


def is_number(a: Any) -> Any:
    """Where an array is not NaN; True of integers and booleans."""
    return a == a if dtype_kind(dtype_of(a)) == "f" else True


def without_nan(a: Any, value: float) -> Any:
    """The array with a number in place of NaN."""
    return (
        np.where(a == a, a, np.asarray(value, dtype_of(a))) if dtype_kind(dtype_of(a)) == "f" else a
    )


def _both(one: Any, other: Any) -> Any:
    if is_everything(one):
        return other
    return one if is_everything(other) else np.logical_and(one, other)


def _named(function: Callable[..., Any], name: str, note: str = "") -> Callable[..., Any]:
    function.__name__, function.__doc__ = name, f"np.{name}{note}."
    return function


def _filled(reduce: Any, value: int, name: str) -> Callable[..., Any]:
    def traced(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        a = without_nan(a, value)
        return reduce(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return _named(traced, name, f": NaN counts as {value}")


def _running(accumulate: Any, value: int, name: str) -> Callable[..., Any]:
    def traced(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        return accumulate(without_nan(a, value), axis=axis, dtype=dtype)

    return _named(traced, name, f": NaN counts as {value}")


def _extreme(reduce: Any, filling: float, name: str) -> Callable[..., Any]:
    def traced(
        a: Any,
        axis: Any = None,
        out: None = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        filled = without_nan(a, filling)
        options = {"axis": axis, "keepdims": keepdims}
        found = reduce(filled, initial=initial, where=where, **options)
        if dtype_kind(dtype_of(a)) != "f" or initial is not None:
            return found
        return np.where(np.any(is_number(a), **options), found, np.asarray(np.nan, dtype_of(a)))

    return _named(traced, name, ": NaN only where all elements are")


def _place(argument: Any, filling: float, name: str) -> Callable[..., Any]:
    def traced(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> Any:
        return argument(without_nan(a, filling), axis=axis, keepdims=keepdims)

    return _named(traced, name, ": 0 where all elements are NaN, which NumPy refuses")


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    """np.nanmean."""
    where = _both(is_number(a), where)
    return averages.mean(without_nan(a, 0), axis, dtype, None, keepdims, where=where)


def _spread(reduce: Any, name: str, note: str = "") -> Callable[..., Any]:
    def traced(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        more = {"where": _both(is_number(a), where), "mean": mean, "correction": correction}
        return reduce(without_nan(a, 0), axis, dtype, None, ddof, keepdims, **more)

    return _named(traced, name, note)


NAN_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.nansum: _filled(np.sum, 0, "nansum"),
    np.nanprod: _filled(np.prod, 1, "nanprod"),
    np.nancumsum: _running(np.cumsum, 0, "nancumsum"),
    np.nancumprod: _running(np.cumprod, 1, "nancumprod"),
    np.nanmax: _extreme(np.max, -np.inf, "nanmax"),
    np.nanmin: _extreme(np.min, np.inf, "nanmin"),
    np.nanargmax: _place(np.argmax, -np.inf, "nanargmax"),
    np.nanargmin: _place(np.argmin, np.inf, "nanargmin"),
    np.nanmean: nanmean,
    np.nanvar: _spread(averages.var, "nanvar"),
    np.nanstd: _spread(averages.std, "nanstd", ": its derivative where the variance is 0 is 0"),
}
