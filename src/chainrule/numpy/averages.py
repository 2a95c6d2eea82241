"""NumPy's means, variances and weighted averages with all their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.graph.dtypes import dtype_kind, promoted
from chainrule.numpy import statistics


def dtype_of(x: Any) -> np.dtype:
    """The dtype of an array, traced or not, or of what NumPy makes of it."""
    found = getattr(x, "dtype", None)
    return found if found is not None else np.asarray(x).dtype


def is_everything(where: Any) -> bool:
    """Whether a mask is NumPy's default."""
    return where is True or where is np._NoValue


def options(axis: Any, keepdims: Any) -> dict[str, Any]:
    """The options that a person gave: scopes show no others."""
    return ({} if axis is None else {"axis": axis}) | ({"keepdims": True} if keepdims else {})


def in_float(x: Any, dtype: Any) -> tuple[Any, Callable[[Any], Any]]:
    """x in the dtype in which NumPy averages, and what brings the result into its own."""
    if dtype is not None:
        return x.astype(dtype), lambda value: value.astype(dtype)
    return statistics.widened(x)


def count_of(x: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    """How many elements a reduction takes together: a number, a size, or a traced array."""
    if is_everything(where):
        return statistics.count_along(x, axis)
    dtype = dtype_of(x) if dtype_kind(dtype_of(x)) == "f" else np.dtype(np.int64)
    return np.sum(np.ones_like(x, dtype=dtype), axis=axis, keepdims=keepdims, where=where)


def without(x: Any, where: Any) -> Any:
    """x with 0 where the mask does not hold, so that nothing there has a derivative."""
    return x if is_everything(where) else np.where(where, x, np.zeros((), dtype_of(x)))


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    """np.mean."""
    if dtype is None and is_everything(where):
        return statistics.mean(a, **options(axis, keepdims))
    wide, narrow = in_float(a, dtype)
    total = np.sum(wide, axis=axis, dtype=wide.dtype, keepdims=keepdims, where=where)
    return narrow(total / count_of(wide, axis, keepdims, where))


def _degrees(given: Any, ddof: Any, correction: Any) -> Any:
    if correction is None or correction is np._NoValue:
        return ddof
    if ddof != 0:
        refuse(
            InputError,
            given,
            f"both ddof={ddof} and correction={correction} are given",
            "they are two names for one number: give one",
        )
    return correction


def _left(count: Any, ddof: Any, like: Any) -> Any:
    """The number of elements less `ddof`, and not below 0."""
    if not ddof:
        return count
    if isinstance(count, int):
        return max(count - ddof, 0)
    return np.maximum(statistics.size_value(count, like) - ddof, 0)


def var(
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
    """np.var: `ddof` (or `correction`) is taken off the number of elements."""
    ddof = _degrees((a,), ddof, correction)
    known = None if mean is np._NoValue else mean
    if dtype is None and known is None and is_everything(where) and isinstance(ddof, int):
        more: dict[str, Any] = {"ddof": ddof} if ddof else {}
        return statistics.var(a, **options(axis, keepdims), **more)
    if dtype is not None and dtype_kind(np.dtype(dtype)) != "f":
        refuse(
            DTypeError,
            (a,),
            f"a variance in {np.dtype(dtype)}",
            "give a floating-point dtype, or convert the result with .astype(...)",
        )
    if known is not None and dtype_of(a).kind == "b":
        refuse(DTypeError, (a,), f"np.var(mean=...) of {shown(a)}", "convert it: x.astype(float)")
    wide, narrow = in_float(without(a, where), dtype)
    count = count_of(wide, axis, True, where)
    if known is None:
        known = np.sum(wide, axis=axis, keepdims=True) / count
    centred = without(wide - known, where)
    total = np.sum(centred * centred, axis=axis, keepdims=keepdims)
    return narrow(total / _left(count_of(wide, axis, keepdims, where), ddof, wide))


def std(
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
    """np.std: its derivative where the variance is 0 is 0."""
    ddof = _degrees((a,), ddof, correction)
    known = None if mean is np._NoValue else mean
    if dtype is None and known is None and is_everything(where) and isinstance(ddof, int):
        more: dict[str, Any] = {"ddof": ddof} if ddof else {}
        return statistics.std(a, **options(axis, keepdims), **more)
    found = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=known)
    return statistics.safe_sqrt(found)


def _weights_along(a: Any, weights: Any, axis: Any) -> Any:
    """Weights of some axes in a shape that broadcasts to that of `a`."""
    shape, own = np.shape(a), np.shape(weights)
    if own == shape:
        return weights
    if axis is None:
        refuse(
            ShapeError,
            (a, weights),
            f"np.average of {shown(a)} with the weights {shown(weights)}",
            "weights of another shape than the array need axis=",
        )
    axes = [one % len(shape) for one in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if own != tuple(shape[one] for one in axes):
        refuse(
            ShapeError,
            (a, weights),
            f"np.average over axis={axis!r} of {shown(a)} with the weights {shown(weights)}",
            "weights have the shape of the array, or the sizes of the axes that are averaged",
        )
    if len(axes) > 1:
        weights = np.transpose(weights, tuple(int(i) for i in np.argsort(axes)))
    kept = tuple(size if i in axes else 1 for i, size in enumerate(shape))
    return np.reshape(weights, kept)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """np.average: the mean weighted by `weights`, and with `returned` their sum beside it."""
    keepdims = False if keepdims is np._NoValue else keepdims
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        total = np.zeros_like(found) + statistics.count_along(a, axis)
        return (found, total) if returned else found
    a, weights = map(statistics.as_array, (a, weights))
    dtypes = [dtype_of(a), dtype_of(weights)]
    if dtypes[0].kind in "biu":
        dtypes.append(np.dtype(np.float64))
    dtype = promoted(*dtypes)
    shared = _weights_along(a, weights, axis).astype(dtype)
    everywhere = np.ones_like(a, dtype=dtype) * shared
    total = np.sum(everywhere, axis=axis, keepdims=keepdims)
    found = np.sum(a.astype(dtype) * everywhere, axis=axis, keepdims=keepdims) / total
    return (found, total + np.zeros_like(found)) if returned else found


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: Any = False) -> Any:
    """np.ptp: the largest element less the smallest."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


AVERAGES: dict[Any, Callable[..., Any]] = {
    np.mean: mean,
    np.var: var,
    np.std: std,
    np.average: average,
    np.ptp: ptp,
}
