"""Layers: affine maps, normalisation, embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError, IndexOutOfRangeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.traced import Traced
from chainrule.nn import closed_forms
from chainrule.numpy.statistics import mean, widened
from chainrule.primitives.indexing import gather


@composite(symbol="linear", latex=r"\operatorname{linear}")
def linear(x: Any, W: Any, b: Any = None) -> Any:
    """x @ W (+ b): x (..., inputs), W (inputs, outputs), b (outputs)."""
    product = x @ W
    return product if b is None else product + b


@composite(symbol="LN", latex=r"\operatorname{LN}", gradients=closed_forms.LAYER_NORM)
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any = -1, eps: float = 1e-5
) -> Any:
    """(x - mean) / sqrt(var + eps) over `axis`, times weight, plus bias (Ba et al., 2016)."""
    wide, narrow = widened(x)
    centred = wide - mean(wide, axis=axis, keepdims=True)
    normal = narrow(centred / np.sqrt(mean(centred * centred, axis=axis, keepdims=True) + eps))
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


@composite(symbol="embed", latex=r"\operatorname{embed}")
def embedding(table: Any, indices: Any) -> Any:
    """table[indices]: rows of `table` (entries, width) for integers from 0 to entries - 1."""
    trace = trace_of((table, indices))
    dtype = getattr(indices, "dtype", None) or np.asarray(indices).dtype
    if dtype.kind not in "iu":
        raise DTypeError(
            f"embedding needs integer indices, got {dtype}",
            where=trace.where() if trace is not None else "",
            hint="convert them with .astype(np.int64)",
        )
    if trace is None:
        table, indices = np.asarray(table), np.asarray(indices)
        if indices.size and not (0 <= indices.min() and indices.max() < len(table)):
            raise IndexOutOfRangeError(
                f"embedding: indices from {indices.min()} to {indices.max()} for {len(table)} "
                "rows of the table",
                hint=f"indices start at 0 and end at {len(table) - 1}",
            )
        return table[indices]
    node = trace.build(gather, as_node(trace, table), as_node(trace, indices), wrap=False)
    return Traced(node, trace)
