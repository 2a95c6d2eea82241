"""Functions of torch.masked, written with np.where, with PyTorch's signatures."""

from __future__ import annotations

import numpy as np
from opinfo_indexing import lined

import chainrule as cr


def axis_of(x, dim):
    if np.ndim(x) == 0 or dim is None:
        return None
    return tuple(dim) or None if isinstance(dim, (list, tuple)) else dim


def filled(x, mask, value):
    return x if mask is None else np.where(mask, x, value)


def reduction(function, rest):
    def reduce(x, dim=None, keepdim=False, dtype=None, mask=None):
        given = filled(x, mask, rest)
        return function(given, axis=axis_of(x, dim), keepdims=keepdim and np.ndim(x) > 0)

    return reduce


def count(x, dim, keepdim, mask):
    ones = np.ones(np.shape(x)) if mask is None else np.broadcast_to(mask, np.shape(x)) * 1.0
    return np.sum(ones, axis=axis_of(x, dim), keepdims=keepdim and np.ndim(x) > 0)


def mean(x, dim=None, keepdim=False, dtype=None, mask=None):
    return total(x, dim, keepdim, mask=mask) / count(x, dim, keepdim, mask)


def variance(x, dim=None, unbiased=True, keepdim=False, dtype=None, mask=None, correction=None):
    dim = axis_of(x, dim)
    middle = mean(x, dim, True, mask=mask)
    squares = filled((x - middle) ** 2, mask, 0)
    correction = (1 if unbiased else 0) if correction is None else correction
    number = count(x, dim, keepdim, mask) - correction
    found = np.sum(squares, axis=dim, keepdims=keepdim and np.ndim(x) > 0)
    return found / np.maximum(number, 0)


def deviation(*args, **options):
    return np.sqrt(variance(*args, **options))


def norm(x, ord, dim=None, keepdim=False, dtype=None, mask=None):
    rest = np.inf if ord == -np.inf else 0.0
    given = filled(x, mask, rest)
    if np.ndim(x) == 0:
        return np.linalg.vector_norm(np.reshape(given, (1,)), ord=ord)
    return np.linalg.vector_norm(given, ord=ord, axis=axis_of(x, dim), keepdims=keepdim)


def normalize(x, ord, dim, eps=1e-12, dtype=None, mask=None):
    length = norm(x, ord, dim, True, mask=mask)
    return filled(x, mask, 0) / np.maximum(length, eps)


def cumulative(function, rest):
    def cumulate(x, dim, dtype=None, mask=None):
        return np.reshape(function(lined(filled(x, mask, rest)), axis=dim), np.shape(x))

    return cumulate


def exponentials(function, sign=1):
    def call(x, dim, dtype=None, mask=None):
        found = function(lined(filled(sign * x, mask, -np.inf)), dim)
        return np.reshape(found, np.shape(x))

    return call


def logsumexp(x, dim=None, keepdim=False, dtype=None, mask=None):
    return cr.logsumexp(filled(x, mask, -np.inf), axis_of(x, dim), keepdims=keepdim)


def logaddexp(x, y, dtype=None, input_mask=None, other_mask=None):
    return np.logaddexp(filled(x, input_mask, -np.inf), filled(y, other_mask, -np.inf))


def median(x, dim=-1, keepdim=False, dtype=None, mask=None):
    if np.ndim(x) == 0:
        return np.copy(filled(x, mask, np.nan))
    return np.nanquantile(filled(x, mask, np.nan), 0.5, axis=dim, keepdims=keepdim, method="lower")


def argument(function, rest):
    def place(x, dim=None, keepdim=False, dtype=None, mask=None):
        return function(filled(x, mask, rest), axis=axis_of(x, dim), keepdims=keepdim)

    return place


total = reduction(np.sum, 0)
TABLE = {
    f"masked.{name}": value
    for name, value in {
        "sum": total,
        "prod": reduction(np.prod, 1),
        "amax": reduction(np.max, -np.inf),
        "amin": reduction(np.min, np.inf),
        "argmax": argument(np.argmax, -np.inf),
        "argmin": argument(np.argmin, np.inf),
        "mean": mean,
        "median": median,
        "var": variance,
        "std": deviation,
        "norm": norm,
        "normalize": normalize,
        "cumsum": cumulative(np.cumsum, 0),
        "cumprod": cumulative(np.cumprod, 1),
        "softmax": exponentials(cr.softmax),
        "log_softmax": exponentials(cr.log_softmax),
        "softmin": exponentials(cr.softmax, -1),
        "logsumexp": logsumexp,
        "logaddexp": logaddexp,
    }.items()
}
