"""Covariance, correlation coefficients, `np.convolve` and `np.correlate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError, UnsupportedError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.graph.dtypes import promoted
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.averages import dtype_of
from chainrule.numpy.rearranging import require_length
from chainrule.numpy.statistics import as_array, size_value
from chainrule.numpy.windows import windows


def _variables(m: Any, rowvar: bool, dtype: np.dtype, asked: str) -> Any:
    """One row for each variable."""
    m = as_array(m)
    if np.ndim(m) > 2:
        refuse(
            ShapeError,
            (m,),
            f"{asked} of {shown(m)}",
            "one axis of variables and one of observations, or one variable",
        )
    rows = np.reshape(m, (1, -1)) if np.ndim(m) < 2 else m
    rows = rows if rowvar or np.ndim(m) < 2 else np.transpose(rows)
    return rows.astype(dtype)


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """np.cov: the matrix of covariances of the rows."""
    if ddof is not None and ddof != int(ddof):
        refuse(InputError, (m,), f"np.cov: ddof={ddof}", "it is an integer")
    x = _rows(m, y, rowvar, dtype, "np.cov")
    return _covariances(x, (0 if bias else 1) if ddof is None else int(ddof), fweights, aweights)


def _rows(m: Any, y: Any, rowvar: bool, dtype: Any, asked: str) -> Any:
    """The variables of both arrays, a row for each, in the dtype of the result."""
    dtypes = [dtype_of(one) for one in (m, y) if one is not None]
    wanted = np.dtype(dtype) if dtype is not None else promoted(*dtypes, np.dtype(np.float64))
    x = _variables(m, rowvar, wanted, asked)
    return x if y is None else np.concatenate([x, _variables(y, rowvar, wanted, asked)], axis=0)


def _covariances(x: Any, ddof: int, fweights: Any = None, aweights: Any = None) -> Any:
    weights = _weights(fweights, aweights)
    if weights is None:
        factor = size_value(np.shape(x)[1], like=x) - ddof
        centred = weighted = x - np.mean(x, axis=1, keepdims=True)
    else:
        weights = weights.astype(dtype_of(x))
        total = factor = np.sum(weights)
        if ddof and aweights is not None:
            factor = total - ddof * np.sum(weights * aweights) / total
        elif ddof:
            factor = total - ddof
        centred = x - np.sum(x * weights, axis=1, keepdims=True) / total
        weighted = centred * weights
    factor = max(factor, 0) if isinstance(factor, int) else np.maximum(factor, 0)
    return np.squeeze(centred @ np.transpose(weighted) / factor)


def _weights(fweights: Any, aweights: Any) -> Any:
    given = [as_array(one) for one in (fweights, aweights) if one is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else given[0] * given[1]


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """np.corrcoef: the matrix of correlation coefficients of the rows."""
    found = _covariances(_rows(x, y, rowvar, dtype, "np.corrcoef"), 1)
    if np.ndim(found) == 0:
        return found / found
    spread = np.sqrt(np.einsum("ii->i", found))
    found = found / np.expand_dims(spread, 1) / np.expand_dims(spread, 0)
    return np.clip(found, -1, 1)


MODES = ("full", "same", "valid")


def _mode(given: Any, mode: Any, asked: str) -> str:
    found = mode if isinstance(mode, str) else {2: "full", 1: "same", 0: "valid"}.get(mode)
    if found not in MODES:
        refuse(InputError, given, f"{asked}: mode={mode!r}", f"one of {', '.join(MODES)}")
    return found


def _slid(a: Any, v: Any, mode: str, asked: str, longer: int = 0) -> Any:
    """The sums of products of v and each stretch of a, by `longer` or more the longer of the two,
    that it is laid on."""
    count = np.shape(v)[0]
    trace = trace_of((a, v))
    if mode == "same" and trace is not None:
        require_length(trace, np.shape(a)[0], count + longer, asked)
    around = {
        "full": (count - 1, count - 1),
        "same": (count // 2, count - count // 2 - 1),
        "valid": (0, 0),
    }[mode]
    if around != (0, 0):
        a = np.pad(a, around)
    return windows(a, (count,), (1,), (1,), asked) @ v


def _sequences(a: Any, v: Any, asked: str) -> tuple[Any, Any, bool]:
    """Both with one axis and one dtype, the longer one first; whether they are exchanged."""
    a, v = (np.reshape(x, -1) if np.ndim(x) == 0 else as_array(x) for x in (a, v))
    for one in (a, v):
        if np.ndim(one) != 1 or np.shape(one)[0] == 0:
            refuse(
                ShapeError,
                (a, v),
                f"{asked} of {shown(a)} and {shown(v)}",
                "it takes two arrays of one axis each, and not empty",
            )
    dtype = promoted(dtype_of(a), dtype_of(v))
    a, v = a.astype(dtype), v.astype(dtype)
    lengths = np.shape(a)[0], np.shape(v)[0]
    if isinstance(lengths[1], Size):
        if isinstance(lengths[0], Size):
            refuse(
                UnsupportedError,
                (a, v),
                f"{asked} of {shown(a)} and {shown(v)}",
                "the length of one of the two has to be known while tracing",
            )
        return v, a, True
    if not isinstance(lengths[0], Size) and lengths[1] > lengths[0]:
        return v, a, True
    return a, v, False


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """np.convolve: of two sequences."""
    mode = _mode((a, v), mode, "np.convolve")
    a, v, _ = _sequences(a, v, "np.convolve")
    return _slid(a, v[::-1], mode, "np.convolve")


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """np.correlate: of two sequences."""
    mode = _mode((a, v), mode, "np.correlate")
    a, v, exchanged = _sequences(a, v, "np.correlate")
    found = _slid(a, v, mode, "np.correlate", longer=int(exchanged))
    return found[::-1] if exchanged else found


CORRELATION: dict[Any, Callable[..., Any]] = {
    np.cov: cov,
    np.corrcoef: corrcoef,
    np.convolve: convolve,
    np.correlate: correlate,
}
