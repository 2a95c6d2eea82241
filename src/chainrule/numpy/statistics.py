"""Means and variances."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.functions.shapes import axes_of
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import is_narrow
from chainrule.graph.sizes.sizes import Size, maximum, product


def count_along(x: Any, axis: Any) -> Any:
    """Returns how many elements a reduction over `axis` combines: an integer or a size."""
    shape = np.shape(x)
    if axis is None:
        return product(shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if isinstance(x, Traced):
        axes = axes_of(x.program, tuple(axes), x.node)
    return product(tuple(shape[one] for one in axes))


def size_value(size: Any, like: Any) -> Any:
    """A named size as a 0-d number of the program that the traced array `like` belongs to.

    For arithmetic that integers lack: `scores / np.sqrt(cr.size_value(x.shape[-1], like=x))`.  It
    never widens another dtype.  An integer is returned as it is (and NumPy's square root of it is a
    float64, which widens; math.sqrt does not).
    """
    if not isinstance(size, Size):
        return size
    if not isinstance(like, Traced):
        raise InputError(
            f"size_value({size}, like=...) needs a traced array, got {type(like).__name__}",
            hint="pass the array whose shape has the size",
        )
    trace, outer = like.program, like.program.site
    frame = trace.enter(sys._getframe(1)) if outer is None else None
    try:
        node = as_node(trace, size)
    finally:
        trace.site = outer
    trace.name_result(node, frame)
    return Traced(node, trace)


def as_array(x: Any) -> Any:
    """Converts numbers and lists to NumPy arrays; returns arrays, traced or not, unchanged."""
    return x if hasattr(x, "dtype") else np.asarray(x)


def widened(x: Any) -> tuple[Any, Any]:
    """x in the dtype in which NumPy takes means (float32 for floats of two bytes, float64 for
    integers), and the way back."""
    dtype = getattr(x, "dtype", np.dtype(np.float64))
    if dtype.kind in "biu":
        return x.astype(np.float64), lambda value: value
    if not is_narrow(dtype):
        return x, lambda value: value
    return x.astype(np.float32), lambda value: value.astype(dtype)


@composite(symbol="mean", latex=r"\operatorname{mean}")
def mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The arithmetic mean over axes (all by default)."""
    wide, narrow = widened(x)
    return narrow(np.sum(wide, axis=axis, keepdims=keepdims) / count_along(x, axis))


def _through_var(g: Any, out: Any, call: Any) -> Any:
    x, axis, ddof = call["x"], call.get("axis"), call.get("ddof", 0)
    count = count_along(x, axis)
    if ddof or np.ndim(x) == 0:
        return None
    if axis is not None and not call.get("keepdims"):
        g = np.expand_dims(g, axis)
    return g * (2 * (x - mean(x, axis=axis, keepdims=True)) / count)


@composite(symbol="var", latex=r"\operatorname{var}", gradients={"x": _through_var})
def var(x: Any, axis: Any = None, ddof: int = 0, *, keepdims: bool = False) -> Any:
    """The mean squared distance from the mean; `ddof` is taken off the number of elements."""
    wide, narrow = widened(x)
    centred = wide - mean(wide, axis=axis, keepdims=True)
    total = np.sum(centred * centred, axis=axis, keepdims=keepdims)
    count = count_along(x, axis)
    return narrow(total / (maximum(count - ddof, 0) if ddof else count))


@composite(symbol="std", latex=r"\operatorname{std}")
def std(x: Any, axis: Any = None, ddof: int = 0, *, keepdims: bool = False) -> Any:
    """The square root of the variance; its derivative where the variance is 0 is 0."""
    return safe_sqrt(var(x, axis=axis, ddof=ddof, keepdims=keepdims))


def safe_sqrt(squares: Any) -> Any:
    zero = squares == 0
    return np.where(zero, 0, np.sqrt(np.where(zero, 1, squares)))
