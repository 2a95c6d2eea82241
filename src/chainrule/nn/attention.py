"""Scaled dot-product attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import require_flag
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes.sizes import Size
from chainrule.nn import closed_forms
from chainrule.nn.activations import largest_along
from chainrule.numpy.statistics import size_value
from chainrule.numpy.windows import refuse, show
from chainrule.primitives.reduce import INDEX
from chainrule.primitives.sources import positions


@composite(symbol="attention", latex=r"\operatorname{attention}", gradients=closed_forms.ATTENTION)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    *,
    is_causal: bool = False,
    scale: Any = None,
    dropout: Callable[[Any], Any] | None = None,
) -> Any:
    """softmax(query keyᵀ scale) value: query (..., l, e), key (..., s, e), value (..., s, v).

    A boolean mask (..., l, s) is True where a query may see a key, a float one is added to the
    scores; `is_causal` lets query i see the keys up to i.  A query that sees no key gets zeros, as
    in PyTorch.  `scale` is 1 / sqrt(e) unless given; `dropout` is applied to the weights, for
    instance `lambda w: cr.dropout(w, 0.1, key=k)`.
    """
    _check(query, key, value)
    scores = (query * scale_of(query, scale)) @ np.swapaxes(key, -1, -2)
    require_flag((query, key, value), is_causal, "scaled_dot_product_attention: is_causal")
    weights = _weights(masked(scores, attn_mask, is_causal))
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value


def scale_of(query: Any, scale: Any) -> Any:
    """The scale of the scores: 1 over the root of the width where none is given."""
    if scale is not None:
        return scale
    width = np.shape(query)[-1]
    if isinstance(width, Size):
        return 1 / np.sqrt(size_value(width, query))
    return 1 / math.sqrt(width or 1)  # a NumPy number would widen float32; without width all are 0


def masked(scores: Any, attn_mask: Any, is_causal: bool) -> Any:
    """The scores, -inf where a query may not see a key."""
    if is_causal:
        scores = np.where(_causal(scores), scores, -np.inf)
    if attn_mask is None:
        return scores
    if getattr(attn_mask, "dtype", None) == np.bool_:
        return np.where(attn_mask, scores, -np.inf)
    return scores + attn_mask


def _weights(scores: Any) -> Any:
    """The softmax of the last axis; zeros, with derivative zero, where all scores are -inf."""
    e = np.exp(scores - largest_along(scores, -1))
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _causal(scores: Any) -> Any:
    """For each query and key whether the key is not later."""
    trace = trace_of((scores,))
    queries, keys = np.shape(scores)[-2:]
    if trace is None:
        return np.tri(queries, keys, dtype=np.bool_)
    lines = []
    for size in (queries, keys):
        node = positions(size, INDEX)
        lines.append(Traced(trace.build(node.primitive, **dict(node.params)), trace))
    return np.reshape(lines[0], (queries, 1)) >= np.reshape(lines[1], (1, keys))


def _check(query: Any, key: Any, value: Any) -> None:
    given = (query, key, value)
    for name, array in zip(("query", "key", "value"), given, strict=True):
        if np.ndim(array) < 2:
            refuse(
                given,
                f"scaled_dot_product_attention: the {name} {show(array)} has {np.ndim(array)} axes",
                "query, key and value are (..., length, width)",
            )
    if np.shape(query)[-1] != np.shape(key)[-1]:
        refuse(
            given,
            f"scaled_dot_product_attention: the query {show(query)} and the key {show(key)} "
            "differ in their last axis",
            "both are (..., length, width) of one width",
        )
    if np.shape(key)[-2] != np.shape(value)[-2]:
        refuse(
            given,
            f"scaled_dot_product_attention: the key {show(key)} and the value {show(value)} "
            "differ in their length",
            "there is one value for each key: (..., length, width)",
        )
