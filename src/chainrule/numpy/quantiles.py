"""Medians, quantiles and percentiles, by interpolation in the sorted array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, UnsupportedError
from chainrule.frontend.composite import composite
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind, is_bfloat16, is_narrow
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.averages import dtype_of
from chainrule.numpy.statistics import size_value

# The methods that can be found where the number of elements is not known while tracing.
SIMPLE = ("linear", "lower", "higher", "midpoint", "nearest")


def _sorted_first(a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array sorted along a first axis made of those that are reduced, and these axes."""
    ndim = np.ndim(a)
    given = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(np.lib.array_utils.normalize_axis_tuple(tuple(given), ndim))
    rest = tuple(size for i, size in enumerate(np.shape(a)) if i not in axes)
    length = sizes.product(tuple(np.shape(a)[i] for i in axes))
    rows = np.reshape(np.moveaxis(a, axes, tuple(range(len(axes)))), (length, *rest))
    return np.sort(rows, axis=0), axes


def _kept(found: Any, shape: Any, axes: tuple[int, ...], keepdims: Any, leading: Any) -> Any:
    if not keepdims or keepdims is np._NoValue:
        return found
    kept = tuple(1 if i in axes else size for i, size in enumerate(shape))
    return np.reshape(found, (*leading, *kept))


def _unless_nan(found: Any, rows: Any) -> Any:
    """NaN where the last of the sorted elements is."""
    if dtype_kind(dtype_of(rows)) != "f":
        return found
    last = rows[-1]
    return np.where(last == last, found, np.asarray(np.nan, dtype_of(found)))


def _between(low: Any, high: Any, weight: Any) -> Any:
    """From low (weight 0) to high (1), reached from the nearer one, as NumPy does."""
    step = high - low
    if isinstance(weight, float):
        return high - step * (1 - weight) if weight >= 0.5 else low + step * weight
    return np.where(weight >= 0.5, high - step * (1 - weight), low + step * weight)


def _checked(a: Any, q: Any, whole: float, asked: str) -> Any:
    """q as a Python number from 0 to 1, or an array of such numbers."""
    if isinstance(q, Traced):
        refuse(
            UnsupportedError,
            (q,),
            f"{asked} of a traced q",
            "q must be known while tracing: a number, or an array that is not an argument",
        )
    given = q if type(q) in (int, float) else np.asarray(q)  # the former widen no dtype
    found = given if whole == 1 else given / whole
    if not bool(np.all((found >= 0) & (found <= 1))):
        refuse(InputError, (a,), f"{asked}: q={q!r}", f"q is from 0 to {whole:g}")
    return found


def _places(count: int, q: Any, method: str) -> np.ndarray:
    """Where in a row of `count` sorted elements NumPy takes each of the quantiles."""
    row = np.arange(count, dtype=np.float64)
    return np.asarray(np.quantile(row, q, method=method), np.float64)  # type: ignore[call-overload]


def _result_dtype(a: Any, q: Any, method: str, asked: str) -> np.dtype:
    """The dtype that NumPy gives, which takes nothing between two booleans."""
    own = dtype_of(a)
    asked_of = np.dtype(np.float16) if is_bfloat16(own) else own  # it knows no other of two bytes
    try:
        found = np.quantile(np.zeros(2, asked_of), q, method=method).dtype  # type: ignore[call-overload]
        return own if found == asked_of else found
    except TypeError:
        refuse(
            DTypeError,
            (a,),
            f"{asked}(method={method!r}) of {shown(a)}",
            "convert it: x.astype(float)",
        )


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: Any, asked: str) -> Any:
    rows, axes = _sorted_first(a, axis)
    count, dtype = np.shape(rows)[0], _result_dtype(a, q, method, asked)
    if isinstance(count, Size):
        known = size_value(count, like=rows)
        found = _traced_places(rows, known, q, method, asked)
    elif count == 0:
        refuse(InputError, (a,), f"{asked} of {shown(a)}, which has no elements", "give some")
    else:
        found = _static_places(rows, _places(count, q, method), dtype, isinstance(q, np.ndarray))
    found = _unless_nan(found.astype(dtype), rows)
    return _kept(found, np.shape(a), axes, keepdims, np.shape(q))


def _static_places(rows: Any, places: np.ndarray, dtype: np.dtype, widens: bool) -> Any:
    """What lies at these places of the rows, between two of them where a place is no integer."""
    below = np.floor(places).astype(np.int64)
    above = np.minimum(below + 1, np.shape(rows)[0] - 1)
    weight: Any = places - below
    if not places.ndim:
        low, weight = rows[int(below)], float(weight)
        if weight == 0:
            return low
        weight = np.asarray(weight, dtype) if widens else weight
        return _between(low, rows[int(above)], weight)
    low = rows[below]
    if not np.any(weight):
        return low
    weight = weight.astype(dtype).reshape(*places.shape, *(1,) * (np.ndim(rows) - 1))
    return np.where(weight == 0, low, _between(low, rows[above], weight))


def _traced_places(rows: Any, count: Any, q: Any, method: str, asked: str) -> Any:
    """The quantiles of the first `count` elements of each column, a number for each or for all."""
    if method not in SIMPLE:
        refuse(
            UnsupportedError,
            (rows,),
            f"{asked}(method={method!r}) of a number of elements that is not known",
            f"use one of {', '.join(SIMPLE)}",
        )
    found = [_traced_place(rows, count, one, method) for one in np.ravel(q).tolist()]
    return np.reshape(np.stack(found), (*np.shape(q), *np.shape(rows)[1:]))


def _traced_place(rows: Any, count: Any, q: float, method: str) -> Any:
    place = (count.astype(np.float64) - 1) * q
    place = np.maximum(place, 0)  # of no numbers: what is there then is NaN
    below, above = np.floor(place), np.ceil(place)
    if method == "nearest":
        below = above = np.rint(place)
    elif method in ("lower", "higher"):
        below = above = below if method == "lower" else above
    weight = np.where(below == above, 0.0, 0.5 if method == "midpoint" else place - below)
    low, high = (_row_at(rows, one.astype(np.int64)) for one in (below, above))
    if method in ("lower", "higher", "nearest"):
        return low
    return np.where(weight == 0, low, _between(low, high, weight))


def _row_at(rows: Any, place: Any) -> Any:
    """The elements at one place of the first axis, or at one for each column."""
    if np.ndim(place) == 0:
        return rows[place]
    return np.take_along_axis(rows, np.expand_dims(place, 0), axis=0)[0]


def _function(whole: float, name: str, note: str, found: Callable[..., Any]) -> Callable[..., Any]:
    """`found(a, q, axis, method, keepdims, asked)` with NumPy's options; q is from 0 to `whole`."""
    asked = f"np.{name}"

    def traced(
        a: Any,
        q: Any,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        if weights is not None:
            refuse(
                UnsupportedError,
                (a, weights),
                f"{asked}(weights=...) is not traced",
                "leave weights= out, or repeat the elements",
            )
        return found(a, _checked(a, q, whole, asked), axis, method, keepdims, asked)

    traced.__name__ = name
    traced.__doc__ = f"{asked}: {note}."
    return composite(symbol=name, latex=rf"\operatorname{{{name}}}", module="np")(traced)


def _nan_quantile(a: Any, q: Any, axis: Any, method: str, keepdims: Any, asked: str) -> Any:
    if isinstance(np.size(a), int) and np.size(a) == 0:
        return np.nanmean(a, axis=axis, keepdims=keepdims)  # whatever q is, as in NumPy
    if dtype_kind(dtype_of(a)) != "f":
        return _quantile(a, q, axis, method, keepdims, asked)
    rows, axes = _sorted_first(a, axis)
    count = np.sum((rows == rows).astype(np.int64), axis=0)
    found = _traced_places(rows, count, q, method, asked)
    found = found.astype(_result_dtype(a, q, method, asked))
    return _kept(found, np.shape(a), axes, keepdims, np.shape(q))


def _halves(low: Any, high: Any, dtype: np.dtype) -> Any:
    """The mean of the two elements in the middle."""
    if is_narrow(dtype):
        return ((low.astype(np.float32) + high.astype(np.float32)) / 2).astype(dtype)
    return (low + high) / 2


@composite(symbol="median", latex=r"\operatorname{median}", module="np")
def median(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """np.median: of equal elements, the one that sorting puts there is taken."""
    if np.size(a) == 0 and isinstance(np.size(a), int):
        return np.mean(a, axis=axis, keepdims=keepdims)
    rows, axes = _sorted_first(a.astype(np.float64) if dtype_of(a).kind in "biu" else a, axis)
    count, dtype = np.shape(rows)[0], dtype_of(rows)
    if isinstance(count, Size):
        half = size_value(count, like=rows) / 2
        low, high = (rows[np.floor(one).astype(np.int64)] for one in (half - 0.5, half))
        found = _halves(low, high, dtype)
    elif count % 2:
        found = rows[count // 2]
    else:
        found = _halves(rows[count // 2 - 1], rows[count // 2], dtype)
    return _kept(_unless_nan(found, rows), np.shape(a), axes, keepdims, ())


@composite(symbol="nanmedian", latex=r"\operatorname{nanmedian}", module="np")
def nanmedian(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """np.nanmedian: NaN is left out."""
    if dtype_kind(dtype_of(a)) != "f":
        return median(a, axis, keepdims=keepdims)
    rows, axes = _sorted_first(a, axis)
    half = np.sum((rows == rows).astype(np.float64), axis=0) / 2
    places = (np.maximum(np.floor(one), 0).astype(np.int64) for one in (half - 0.5, half))
    low, high = (_row_at(rows, place) for place in places)
    found = _halves(low, high, dtype_of(a))
    return _kept(found, np.shape(a), axes, keepdims, ())


ONE = "of equal elements, the one that sorting puts there is taken"
QUANTILES: dict[Any, Callable[..., Any]] = {
    np.quantile: _function(1.0, "quantile", ONE, _quantile),
    np.percentile: _function(100.0, "percentile", ONE, _quantile),
    np.median: median,
    np.nanmedian: nanmedian,
    np.nanquantile: _function(1.0, "nanquantile", "NaN is left out", _nan_quantile),
    np.nanpercentile: _function(100.0, "nanpercentile", "NaN is left out", _nan_quantile),
}
