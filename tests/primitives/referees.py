"""Each differentiable primitive in PyTorch and in autograd, or the reason why it is not there."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import autograd.scipy.special as special
import numpy as np

# name -> f(library, *arrays, **params); a string is the reason for having none.
Entry = Callable[..., Any] | str

BOTH: dict[str, Entry] = {
    "add": lambda m, x, y: x + y,
    "subtract": lambda m, x, y: x - y,
    "negative": lambda m, x: -x,
    "multiply": lambda m, x, y: x * y,
    "divide": lambda m, x, y: x / y,
    "power": lambda m, x, y: x**y,
    "integer_power": lambda m, x, exponent: x**exponent,
    "exp": lambda m, x: m.exp(x),
    "expm1": lambda m, x: m.expm1(x),
    "log": lambda m, x: m.log(x),
    "log1p": lambda m, x: m.log1p(x),
    "sqrt": lambda m, x: m.sqrt(x),
    "sin": lambda m, x: m.sin(x),
    "cos": lambda m, x: m.cos(x),
    "tanh": lambda m, x: m.tanh(x),
    "logistic": lambda m, x: 1 / (1 + m.exp(-x)),
    "absolute": lambda m, x: m.abs(x),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "minimum": lambda m, x, y: m.minimum(x, y),
    "identity": lambda m, x: x,
    "where": lambda m, condition, x, y: m.where(condition, x, y),
    "reshape": lambda m, x, shape: m.reshape(x, shape),
    "broadcast_to": lambda m, x, shape: m.broadcast_to(x, shape),
    "slice": lambda m, x, start, step, shape: x[_grid(m, start, step, shape)],
    "gather": lambda m, x, *indices, wrap: x[indices],
    "matmul": lambda m, x, y: m.matmul(x, y),
    "contract": lambda m, x, y, x_axes, y_axes, out_axes: m.einsum(
        f"{_letters(x_axes)},{_letters(y_axes)}->{_letters(out_axes)}", x, y
    ),
}

TORCH: dict[str, Entry] = {
    **BOTH,
    "logistic": lambda m, x: m.sigmoid(x),
    "erf": lambda m, x: m.erf(x),
    "erfinv": lambda m, x: m.erfinv(x),
    "cast": lambda m, x, dtype, weak: x.to(getattr(m, np.dtype(dtype).name)),
    "transpose": lambda m, x, permutation: m.permute(x, permutation),
    "concatenate": lambda m, *arrays, axis: m.cat(arrays, axis),
    "sum": lambda m, x, axes: m.sum(x, dim=axes),
    "max": lambda m, x, axes: m.amax(x, dim=axes),
    "min": lambda m, x, axes: m.amin(x, dim=axes),
    "pad": lambda m, x, start, step, shape: m.zeros(shape, dtype=x.dtype).index_put(
        _grid(m, start, step, tuple(x.shape)), x
    ),
    "scatter_add": lambda m, updates, *indices, shape, wrap: m.zeros(
        shape, dtype=updates.dtype
    ).index_put(indices, updates, accumulate=True),
}

AUTOGRAD: dict[str, Entry] = {
    **BOTH,
    "transpose": lambda m, x, permutation: m.transpose(x, permutation),
    "concatenate": lambda m, *arrays, axis: m.concatenate(arrays, axis),
    "sum": lambda m, x, axes: m.sum(x, axis=axes),
    "max": lambda m, x, axes: m.max(x, axis=axes),
    "min": lambda m, x, axes: m.min(x, axis=axes),
    # autograd's own broadcast_to does not differentiate new leading axes
    "broadcast_to": lambda m, x, shape: x * np.ones(shape),
    "erf": lambda m, x: special.erf(x),
    "erfinv": lambda m, x: special.erfinv(x),
    "cast": "autograd does not differentiate astype between dtypes",
    "pad": "autograd has no item assignment to write this with",
    "scatter_add": "autograd has no np.add.at",
}


def _grid(m: Any, start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """One index array for each axis, together the places start + step * position."""
    axes = [a + b * np.arange(n) for a, b, n in zip(start, step, shape, strict=True)]
    grid = np.ix_(*axes)
    return tuple(map(m.from_numpy, grid)) if hasattr(m, "from_numpy") else grid


def _letters(axes: tuple[int, ...]) -> str:
    return "".join(string.ascii_letters[axis] for axis in axes)
