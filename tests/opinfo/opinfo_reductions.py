"""Reductions and cumulative functions with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

import chainrule as cr


def _at_least_1d(x):
    """PyTorch lets an axis of an array without axes be named."""
    return np.reshape(x, (1,)) if np.ndim(x) == 0 else x


def _axis(dim):
    if isinstance(dim, (list, tuple)):
        return tuple(dim) or None
    return dim


def reduction(function):
    def reduce(x, dim=None, keepdim=False, dtype=None, **options):
        if np.ndim(x) == 0:
            return function(x, **options)
        return function(x, axis=_axis(dim), keepdims=keepdim, **options)

    return reduce


def var_of(function):
    def reduce(x, *args, dim=None, unbiased=True, correction=1, keepdim=False):
        if len(args) == 1 and isinstance(args[0], bool):
            unbiased = args[0]
        elif args:
            dim, *rest = args
            unbiased = rest[0] if rest else unbiased
        ddof = 1 if correction is None else correction
        return function(x, axis=_axis(dim), ddof=ddof if unbiased else 0, keepdims=keepdim)

    return reduce


def mean_and(function):
    reduce, mean = var_of(function), reduction(np.mean)

    def both(x, *args, **options):
        dim = options.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
        return reduce(x, *args, **options), mean(x, dim, options.get("keepdim", False))

    return both


def cumulative(function):
    def cumulate(x, dim, dtype=None):
        return np.reshape(function(_at_least_1d(x), axis=dim), np.shape(x))

    return cumulate


def quantile_of(function):
    def quantile(x, q, dim=None, keepdim=False, interpolation="linear"):
        if np.ndim(x) == 0:
            found = function(_at_least_1d(x), q, axis=0, method=interpolation)
            return found
        return function(x, q, axis=dim, keepdims=keepdim, method=interpolation)

    return quantile


def diff(x, n=1, dim=-1, prepend=None, append=None):
    given = {"prepend": prepend, "append": append}
    return np.diff(x, n, dim, **{k: v for k, v in given.items() if v is not None})


def trapezoid(y, x=None, dx=1.0, dim=-1):
    return np.trapezoid(y, x, dx, dim)


def argument_of(function):
    def place(x, dim=None, keepdim=False):
        if np.ndim(x) == 0:
            return function(x)
        return function(x, axis=dim, keepdims=keepdim)

    return place


def extreme(function):
    """max and min: of all elements, of a pair, or along an axis with the places."""
    argument = np.argmax if function is np.max else np.argmin
    pair = np.maximum if function is np.max else np.minimum

    def found(x, dim=None, keepdim=False):
        if dim is None:
            return function(x)
        if not isinstance(dim, int):
            return pair(x, dim)
        if np.ndim(x) == 0:
            return function(x), argument(x)
        values = function(x, axis=dim, keepdims=keepdim)
        return values, argument(x, axis=dim, keepdims=keepdim)

    return found


def covariance(x, correction=1, fweights=None, aweights=None):
    return np.cov(x, ddof=correction, fweights=fweights, aweights=aweights)


def gradient(x, spacing=None, dim=None, edge_order=1):
    distances = (
        () if spacing is None else spacing if isinstance(spacing, (list, tuple)) else (spacing,)
    )
    found = np.gradient(x, *distances, axis=_axis(dim), edge_order=edge_order)
    return found


def searchsorted(sequence, values, right=False, side=None, sorter=None, out_int32=False):
    side = side or ("right" if right else "left")
    found = np.searchsorted(sequence, values, side, sorter)
    return found.astype(np.int32) if out_int32 else found


def cumulative_trapezoid(y, x=None, dx=1.0, dim=-1):
    moved = np.moveaxis(y, dim, -1)
    steps = dx
    if x is not None:
        steps = np.diff(x if np.ndim(x) == 1 else np.moveaxis(x, dim, -1), axis=-1)
    found = np.cumsum((moved[..., 1:] + moved[..., :-1]) / 2 * steps, axis=-1)
    return np.moveaxis(found, -1, dim)


def logcumsumexp(x, dim):
    return np.reshape(cr.logcumsumexp(_at_least_1d(x), dim), np.shape(x))


TABLE = {
    "cumulative_trapezoid": cumulative_trapezoid,
    "logcumsumexp": logcumsumexp,
    "searchsorted": searchsorted,
    "sum": reduction(np.sum),
    "nansum": reduction(np.nansum),
    "mean": reduction(np.mean),
    "nanmean": reduction(np.nanmean),
    "prod": reduction(np.prod),
    "amax": reduction(np.amax),
    "amin": reduction(np.amin),
    "all": reduction(np.all),
    "any": reduction(np.any),
    "count_nonzero": lambda x, dim=None: np.count_nonzero(x, axis=_axis(dim) if x.ndim else None),
    "var": var_of(np.var),
    "std": var_of(np.std),
    "var_mean": mean_and(np.var),
    "std_mean": mean_and(np.std),
    "cumsum": cumulative(np.cumsum),
    "cumprod": cumulative(np.cumprod),
    "quantile": quantile_of(np.quantile),
    "nanquantile": quantile_of(np.nanquantile),
    "diff": diff,
    "trapezoid": trapezoid,
    "trapz": trapezoid,
    "argmax": argument_of(np.argmax),
    "argmin": argument_of(np.argmin),
    "max": extreme(np.max),
    "min": extreme(np.min),
    "cov": covariance,
    "corrcoef": lambda x: np.corrcoef(x),
    "gradient": gradient,
}
