"""ONNX's reductions, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size, product
from chainrule.nn.activations import logsumexp
from chainrule.numpy.statistics import size_value


def reduction(function: Callable[..., Any], empty: Any = None) -> Callable[..., Any]:
    """Over axes that are an attribute, or in newer versions an operand; `empty` is the result of
    nothing where NumPy has none."""

    def operator(call: Call, x: Any, axes: Any = None) -> Any:
        given = call.get("axes") if axes is None else call.integers(axes, "axes")
        keep = bool(call.get("keepdims", 1))
        if not given:
            if call.get("noop_with_empty_axes", 0):
                return function(x, (), True) if function in _CHANGING else x
            given = tuple(range(x.ndim))
        over = tuple(call.axis(one, x.ndim) for one in given)
        if empty is not None and any(x.shape[one] == 0 for one in over):
            shape = tuple(
                1 if i in over else n for i, n in enumerate(x.shape) if keep or i not in over
            )
            return call.filled(shape, np.asarray(empty(x.dtype), x.dtype))
        return function(x, over, keep)

    return operator


def _sum(x: Any, over: Any, keep: bool) -> Any:
    return np.sum(x, over, dtype=x.dtype, keepdims=keep)


def _product(x: Any, over: Any, keep: bool) -> Any:
    return np.prod(x, over, dtype=x.dtype, keepdims=keep)


def _mean(x: Any, over: Any, keep: bool) -> Any:
    if dtype_kind(x.dtype) == "f":
        return np.mean(x, over, keepdims=keep)
    count = product(tuple(x.shape[one] for one in over))
    whole = _sum(x, over, keep)
    return (whole / (size_value(count, x) if isinstance(count, Size) else count)).astype(x.dtype)


def _largest(x: Any, over: Any, keep: bool) -> Any:
    return (np.any if x.dtype == np.bool_ else np.max)(x, axis=over, keepdims=keep)


def _smallest(x: Any, over: Any, keep: bool) -> Any:
    return (np.all if x.dtype == np.bool_ else np.min)(x, axis=over, keepdims=keep)


def _l1(x: Any, over: Any, keep: bool) -> Any:
    return _sum(np.absolute(x), over, keep)


def _l2(x: Any, over: Any, keep: bool) -> Any:
    return np.sqrt(_squares(x, over, keep)).astype(x.dtype)


def _squares(x: Any, over: Any, keep: bool) -> Any:
    return _sum(x * x, over, keep)


def _log_sum(x: Any, over: Any, keep: bool) -> Any:
    return np.log(_sum(x, over, keep)).astype(x.dtype)


def _log_sum_exp(x: Any, over: Any, keep: bool) -> Any:
    if not over:
        return x
    return logsumexp(x, over, keep).astype(x.dtype)


_CHANGING = (_l1, _l2, _squares, _log_sum)  # which do something where no axis is reduced


def position(function: Callable[..., Any]) -> Callable[..., Any]:
    """The first position of an extreme along an axis, or the last one."""

    def operator(call: Call, x: Any) -> Any:
        axis = call.axis(call.get("axis", 0), x.ndim)
        if call.get("select_last_index", 0):
            last = x.shape[axis] - 1
            found = last - function(np.flip(x, axis), axis)
        else:
            found = function(x, axis)
        found = found.astype(np.int64)
        return np.expand_dims(found, axis) if call.get("keepdims", 1) else found

    return operator


def running(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    """Running sums or products; from the end, or without the element itself."""

    def operator(call: Call, x: Any, axis: Any) -> Any:
        over = call.axis(call.integer(axis, "axis"), x.ndim)
        if call.get("reverse", 0):
            x = np.flip(x, over)
        found = function(x, over).astype(x.dtype)
        if call.get("exclusive", 0):
            place = [slice(None)] * x.ndim
            place[over] = slice(0, 1)
            head = np.full_like(found[tuple(place)], first)
            place[over] = slice(0, -1)
            found = np.concatenate([head, found[tuple(place)]], over)
        return np.flip(found, over) if call.get("reverse", 0) else found

    return operator


def _lowest(dtype: np.dtype) -> Any:
    return (
        -np.inf
        if dtype_kind(dtype) == "f"
        else (False if dtype == np.bool_ else np.iinfo(dtype).min)
    )


def _highest(dtype: np.dtype) -> Any:
    return (
        np.inf if dtype_kind(dtype) == "f" else (True if dtype == np.bool_ else np.iinfo(dtype).max)
    )


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ArgMax": position(np.argmax),
    "ArgMin": position(np.argmin),
    "CumProd": running(np.cumprod, 1),
    "CumSum": running(np.cumsum, 0),
    "ReduceL1": reduction(_l1),
    "ReduceL2": reduction(_l2),
    "ReduceLogSum": reduction(_log_sum),
    "ReduceLogSumExp": reduction(_log_sum_exp, _lowest),
    "ReduceMax": reduction(_largest, _lowest),
    "ReduceMean": reduction(_mean),
    "ReduceMin": reduction(_smallest, _highest),
    "ReduceProd": reduction(_product),
    "ReduceSum": reduction(_sum),
    "ReduceSumSquare": reduction(_squares),
}
