"""PyTorch's reductions, cumulative operators, sorting and order statistics, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import at_axis, axes_of, dtype_of, with_axis
from chainrule.nn.activations import log_softmax, logsumexp, softmax
from chainrule.nn.running import logcumsumexp


def _reduction(function: Any) -> Any:
    def reduce(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        x = x if dtype is None else x.astype(dtype)
        if np.ndim(x) == 0:
            return function(x)
        return function(x, axis=axes_of(dim), keepdims=keepdim)

    return reduce


def _spread(function: Any) -> Any:
    """var and std, whose dim may be whether to correct: var(x, False)."""

    def reduce(
        x: Any,
        dim: Any = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = (1 if unbiased else 0) if correction is None else correction
        axis = None if np.ndim(x) == 0 else axes_of(dim)
        return function(x, axis=axis, ddof=ddof, keepdims=keepdim and np.ndim(x) > 0)

    return reduce


def _with_mean(function: Any) -> Any:
    spread, mean = _spread(function), _reduction(np.mean)

    def both(x: Any, dim: Any = None, *rest: Any, **options: Any) -> Any:
        keepdim = options.get("keepdim", rest[1] if len(rest) > 1 else False)
        along = None if isinstance(dim, bool) else dim
        return spread(x, dim, *rest, **options), mean(x, along, keepdim)

    return both


def _cumulative(function: Any) -> Any:
    def cumulate(x: Any, dim: int, *, dtype: Any = None) -> Any:
        x = x if dtype is None else x.astype(dtype)
        return np.reshape(function(with_axis(x), axis=dim), np.shape(x))

    return cumulate


def _place(function: Any) -> Any:
    def place(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if np.ndim(x) == 0:
            return function(x)
        return function(x, axis=dim, keepdims=keepdim)

    return place


def _extreme(function: Any, argument: Any, pair: Any) -> Any:
    """max and min: of all elements, of a pair, or along an axis with the places."""

    def found(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return function(x)
        if not isinstance(dim, int):
            return pair(x, dim)
        places = _place(argument)(x, dim, keepdim)
        if np.ndim(x) == 0:
            return function(x), places
        return _values_at(x, places, dim, keepdim), places

    return found


def _values_at(x: Any, places: Any, dim: int, keepdim: bool) -> Any:
    """x at one place along an axis: the gradient goes there alone, as PyTorch's."""
    kept = places if keepdim else np.expand_dims(places, dim)
    values = np.take_along_axis(x, kept, dim)
    return values if keepdim else np.squeeze(values, dim)


def _norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = x if dtype is None else x.astype(dtype)
    if np.ndim(x) == 0:
        return np.linalg.vector_norm(np.reshape(x, (1,)), axis=0, ord=ord)
    return np.linalg.vector_norm(x, axis=axes_of(dim), keepdims=keepdim, ord=ord)


def _count_nonzero(x: Any, dim: Any = None) -> Any:
    return np.count_nonzero(x, axis=axes_of(dim) if np.ndim(x) else None)


def _aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    return tuple(_reduction(function)(x, dim, keepdim) for function in (np.min, np.max))


# Order ------------------------------------------------------------------------------------------


def _sort(x: Any, *given: Any, **options: Any) -> Any:
    """sort(x, dim, descending), and sort.stable, whose first argument is a keyword."""
    names = ("dim", "descending")
    options = {**dict(zip(names, given, strict=False)), **options}
    dim, descending = options.get("dim", -1), options.get("descending", False)
    if np.ndim(x) == 0:
        return x, np.argmax(x)
    if descending and dtype_of(x).kind == "b":
        keys = ~x
    else:
        keys = -x if descending else x
    places = np.argsort(keys, axis=dim, kind="stable")
    return np.take_along_axis(x, places, dim), places


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if np.ndim(x) == 0:
        return x, np.argmax(x)
    key = at_axis(x, dim, slice(0, k))
    values, places = _sort(x, dim=dim, descending=largest)
    return values[key], places[key]


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if np.ndim(x) == 0:
        return x, np.argmax(x)
    values, places = _sort(x, dim=dim)
    key = at_axis(x, dim, slice(k - 1, k) if keepdim else k - 1)
    return values[key], places[key]


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent values, and the last place where it stands."""
    one = np.moveaxis(with_axis(x), dim, -1)
    often = np.sum(one[..., :, None] == one[..., None, :], axis=-1)
    candidates = np.where(often == np.max(often, axis=-1, keepdims=True), one, np.inf)
    smallest = np.min(candidates, axis=-1, keepdims=True)
    own = np.arange(np.shape(one)[-1])
    place = np.max(np.where(one == smallest, own, -1), axis=-1, keepdims=True)
    value = np.take_along_axis(one, place, -1)
    if np.ndim(x) == 0:
        return value[0], place[0]
    found = np.moveaxis(value, -1, dim), np.moveaxis(place, -1, dim)
    return found if keepdim else tuple(np.squeeze(each, dim) for each in found)


def _median(quantile: Any) -> Any:
    """Of an even number of elements the lower of the middle two."""

    def median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        one = np.reshape(x, (-1,)) if dim is None else with_axis(x)
        axis = 0 if dim is None else dim
        middle = quantile(one, 0.5, axis=axis, method="lower", keepdims=True)
        if dim is None:
            return np.reshape(middle, ())
        place = np.argmax((one == middle) | (np.isnan(one) & np.isnan(middle)), axis=axis)
        place = np.expand_dims(place, axis) if keepdim and np.ndim(x) else place
        shape = np.shape(place) if np.ndim(x) else ()
        return np.reshape(middle, shape), np.reshape(place, shape)

    return median


def _running(pair: Any) -> Any:
    """cummax and cummin: the values, and the last place where each one stood."""

    def cumulated(x: Any, dim: int) -> Any:
        one = with_axis(x)
        values = pair.accumulate(one, axis=dim)
        shape = [-1 if axis == dim % np.ndim(one) else 1 for axis in range(np.ndim(one))]
        own = np.reshape(np.arange(np.shape(one)[dim]), shape)
        places = np.maximum.accumulate(np.where(one == values, own, 0), axis=dim)
        return np.reshape(values, np.shape(x)), np.reshape(places, np.shape(x))

    return cumulated


def _logcumsumexp(x: Any, dim: int) -> Any:
    return np.reshape(logcumsumexp(with_axis(x), dim), np.shape(x))


def _softmaxes(function: Any, scalar: Any) -> Any:
    """softmax.int(x, dim, dtype) and _softmax(x, dim, half_to_float)."""

    def along(x: Any, dim: int, dtype: Any = None) -> Any:
        if dtype is not None and not isinstance(dtype, bool):
            x = x.astype(dtype)
        return function(x, dim) if np.ndim(x) else scalar(x)

    return along


def _safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    nothing = np.all(x == -np.inf, axis=dim, keepdims=True)
    return np.where(nothing, 0.0, softmax(np.where(nothing, 0.0, x), dim))


def _logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    if np.ndim(x) == 0:
        return logsumexp(np.reshape(x, (1,)))
    return logsumexp(x, axes_of(dim), keepdims=keepdim)


REDUCTIONS: dict[str, Any] = {
    "sum": _reduction(np.sum),
    "nansum": _reduction(np.nansum),
    "mean": _reduction(np.mean),
    "prod": _reduction(np.prod),
    "amax": _reduction(np.amax),
    "amin": _reduction(np.amin),
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "count_nonzero": _count_nonzero,
    "var": _spread(np.var),
    "std": _spread(np.std),
    "var_mean": _with_mean(np.var),
    "std_mean": _with_mean(np.std),
    "cumsum": _cumulative(np.cumsum),
    "cumprod": _cumulative(np.cumprod),
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
    "max": _extreme(np.max, np.argmax, np.maximum),
    "min": _extreme(np.min, np.argmin, np.minimum),
    "aminmax": _aminmax,
    "linalg_vector_norm": _norm,
    "sort": _sort,
    "argsort": lambda x, *given, **options: _sort(x, *given, **options)[1],
    "topk": _topk,
    "kthvalue": _kthvalue,
    "median": _median(np.quantile),
    "nanmedian": _median(np.nanquantile),
    "mode": _mode,
    "cummax": _running(np.maximum),
    "cummin": _running(np.minimum),
    "softmax": _softmaxes(softmax, lambda x: np.exp(x - x)),
    "_softmax": _softmaxes(softmax, lambda x: np.exp(x - x)),
    "log_softmax": _softmaxes(log_softmax, lambda x: x - x),
    "_log_softmax": _softmaxes(log_softmax, lambda x: x - x),
    "_safe_softmax": _safe_softmax,
    "logsumexp": _logsumexp,
    "logcumsumexp": _logcumsumexp,
}
