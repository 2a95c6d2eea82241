"""What operators ask of their arguments: traced arrays, NumPy's, and Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.frontend.traced import Traced

REDUCTIONS = ("none", "mean", "sum")  # of losses, by PyTorch's numbers


def is_array(value: Any) -> bool:
    return isinstance(value, (Traced, np.ndarray, np.generic))


def dtype_of(value: Any) -> np.dtype:
    return value.dtype if is_array(value) else np.asarray(value).dtype


def with_axis(x: Any) -> Any:
    """PyTorch lets an axis of an array without axes be named."""
    return np.reshape(x, (1,)) if np.ndim(x) == 0 else x


def axes_of(dim: Any) -> Any:
    """NumPy's axis for PyTorch's dim: no dims are all."""
    return tuple(dim) or None if isinstance(dim, (list, tuple)) else dim


def plain(value: Any) -> Any:
    """PyTorch's lists of lengths, of which one may stand for all."""
    if not isinstance(value, (list, tuple)):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def numbers(value: Any, count: int) -> tuple[Any, ...]:
    """One number for each axis: PyTorch takes one for all."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return values * count if len(values) == 1 else values


def at_axis(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The key of x that is `index` along one axis and takes all of those before."""
    return (*(slice(None),) * (dim % np.ndim(x)), index)
