"""PyTorch's operators that make arrays from sizes and numbers alone, or from random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.layers import LAYERS
from chainrule.exchange.pytorch.values import dtype_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import array_type
from chainrule.nn.attention import scaled_dot_product_attention
from chainrule.nn.linear_units import leaky_relu
from chainrule.primitives.sources import positions, size_of, uniform
from chainrule.random import distributions
from chainrule.random.dropout import dropout

FLOAT = np.dtype(np.float32)  # PyTorch's default dtype; what the graph says replaces it


def _full(trace: Trace, size: Any, value: Any, *, dtype: Any = None, **rest: Any) -> Any:
    """An array of one value, which has no storage in a graph."""
    if isinstance(value, (Traced, np.ndarray)):
        value = value if dtype is None else value.astype(dtype)
        return np.broadcast_to(value, tuple(size))
    dtype = np.dtype(dtype or np.asarray(value).dtype)
    if isinstance(value, Size):
        scalar = Traced(size_of(value, array_type(dtype, ())), trace)
        return np.broadcast_to(scalar, tuple(size))
    return Traced(uniform(value, dtype, tuple(size)), trace)


def _filled(value: Any) -> Any:
    def make(trace: Trace, size: Any, *, dtype: Any = None, **rest: Any) -> Any:
        return _full(trace, size, value, dtype=dtype or FLOAT)

    return make


def _filled_like(value: Any) -> Any:
    def make(trace: Trace, x: Any, *, dtype: Any = None, **rest: Any) -> Any:
        return _full(trace, np.shape(x), value, dtype=dtype or dtype_of(x))

    return make


def _new(value: Any) -> Any:
    def make(trace: Trace, x: Any, size: Any, *, dtype: Any = None, **rest: Any) -> Any:
        return _full(trace, size, value, dtype=dtype or dtype_of(x))

    return make


def _full_like(trace: Trace, x: Any, value: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return _full(trace, np.shape(x), value, dtype=dtype or dtype_of(x))


def _new_full(
    trace: Trace, x: Any, size: Any, value: Any, *, dtype: Any = None, **rest: Any
) -> Any:
    return _full(trace, size, value, dtype=dtype or dtype_of(x))


def _arange(trace: Trace, *given: Any, dtype: Any = None, **rest: Any) -> Any:
    """arange(end), arange(start, end), arange(start, end, step)."""
    start, end, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    if not any(isinstance(one, Size) for one in (start, end, step)):
        return np.arange(start, end, step, dtype=dtype)
    length = -((start - end) // step)
    dtype = np.dtype(dtype or np.int64)
    places = Traced(positions(length, dtype), trace)
    places = places if isinstance(step, int) and step == 1 else places * step
    return places if isinstance(start, int) and start == 0 else places + start


def _scalar(trace: Trace, value: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return _full(trace, (), value, dtype=dtype or FLOAT)


def _eye(trace: Trace, n: int, m: int | None = None, *, dtype: Any = None, **rest: Any) -> Any:
    return np.eye(n, m, dtype=dtype or FLOAT)


def _linspace(
    trace: Trace, start: Any, end: Any, steps: int, *, dtype: Any = None, **rest: Any
) -> Any:
    return np.linspace(start, end, steps, dtype=dtype or FLOAT)


def _triangle(function: Any) -> Any:
    def make(trace: Trace, row: int, col: int, offset: int = 0, **rest: Any) -> Any:
        return np.stack(function(row, offset, col))

    return make


CREATORS: dict[str, Any] = {
    "full": _full,
    "zeros": _filled(0),
    "ones": _filled(1),
    **dict.fromkeys(("empty", "empty_permuted"), _filled(0)),
    "zeros_like": _filled_like(0),
    "zero": _filled_like(0),
    "ones_like": _filled_like(1),
    "empty_like": _filled_like(0),
    "full_like": _full_like,
    "fill": _full_like,
    "new_zeros": _new(0),
    "new_ones": _new(1),
    "new_empty": _new(0),
    "new_full": _new_full,
    "arange": _arange,
    "scalar_tensor": _scalar,
    "eye": _eye,
    "linspace": _linspace,
    "tril_indices": _triangle(np.tril_indices),
    "triu_indices": _triangle(np.triu_indices),
}


# Random numbers -----------------------------------------------------------------------------------


def _dropout(key: Any, x: Any, p: float, train: bool = True) -> Any:
    return dropout(x, p, key=key)


def _uniform_like(key: Any, x: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return distributions.uniform(key, np.shape(x), dtype or dtype_of(x))


def _normal_like(key: Any, x: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return distributions.normal(key, np.shape(x), dtype or dtype_of(x))


def _uniform(key: Any, size: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return distributions.uniform(key, tuple(size), dtype or FLOAT)


def _normal(key: Any, size: Any, *, dtype: Any = None, **rest: Any) -> Any:
    return distributions.normal(key, tuple(size), dtype or FLOAT)


def _bernoulli(key: Any, x: Any, p: Any = None, **rest: Any) -> Any:
    kept = distributions.bernoulli(key, x if p is None else p, np.shape(x))
    return kept.astype(dtype_of(x))


def _attention(
    key: Any,
    query: Any,
    keys: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float,
    *rest: Any,
    **options: Any,
) -> Any:
    return scaled_dot_product_attention(
        query,
        keys,
        value,
        attn_mask,
        is_causal=rest[0] if rest else options.get("is_causal", False),
        scale=options.get("scale"),
        dropout=lambda weights: dropout(weights, dropout_p, key=key),
    )


def _rrelu(key: Any, x: Any, noise: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, *rest: Any) -> Any:
    """Xu et al., 2015: slopes of negative numbers are drawn."""
    slope = distributions.uniform(key, np.shape(x), dtype_of(x), minval=lower, maxval=upper)
    drawn = np.where(x <= 0, slope, 1)
    return x * drawn, drawn


def _is_training(x: Any, noise: Any, lower: Any, upper: Any, training: Any = False, *rest) -> bool:
    return bool(training)


def _always(*given: Any, **options: Any) -> bool:
    return True


def _drops(x: Any, p: Any, train: Any = True) -> bool:
    return train is not False and p != 0


def _attends(*given: Any, **options: Any) -> bool:
    return bool(given[4] if len(given) > 4 else options.get("dropout_p", 0))


# What draws random numbers: the operator, whose first argument is a key, and whether it does.
DRAWS: dict[str, tuple[Any, Any]] = {
    "native_dropout": (lambda *given: (_dropout(*given), None), _drops),
    "dropout": (_dropout, _drops),
    "rand": (_uniform, _always),
    "randn": (_normal, _always),
    "rand_like": (_uniform_like, _always),
    "randn_like": (_normal_like, _always),
    "bernoulli": (_bernoulli, _always),
    "scaled_dot_product_attention": (_attention, _attends),
    "rrelu_with_noise_functional": (_rrelu, _is_training),
}

# The same where they draw none.
STILL: dict[str, Any] = {
    "native_dropout": lambda x, *rest: (x, None),
    "dropout": lambda x, *rest: x,
    "scaled_dot_product_attention": LAYERS["scaled_dot_product_attention"],
    "rrelu_with_noise_functional": lambda x, noise, lower, upper, *rest: (
        leaky_relu(x, (lower + upper) / 2),
        noise,
    ),
}
