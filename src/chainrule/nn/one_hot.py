"""One-hot vectors of class numbers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, IndexOutOfRangeError, InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.functions.elementwise import as_node, to_dtype
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes import sizes
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.movement import reshape
from chainrule.primitives.reduce import INDEX
from chainrule.primitives.sources import positions, uniform


@composite(symbol="onehot", latex=r"\operatorname{onehot}")
def one_hot(labels: Any, num_classes: int, dtype: Any = np.int64) -> Any:
    """One-hot vectors: a new last axis with 1 at each label, an integer from 0 to num_classes - 1.

    A label outside is an IndexError, in a graph while running.
    """
    trace = trace_of((labels,))
    where = trace.where() if trace is not None else ""
    found = getattr(labels, "dtype", None) or np.asarray(labels).dtype
    if found.kind not in "iu":
        raise DTypeError(
            f"one_hot needs integer labels (class numbers), got {found}",
            where=where,
            hint="convert them with .astype(np.int64)",
        )
    if not isinstance(num_classes, sizes.Size):
        num_classes = _count(num_classes, where)
    if trace is None:
        return _at_once(np.asarray(labels), num_classes, dtype)
    index = to_dtype(trace, as_node(trace, labels), INDEX)
    shape, rows = index.type.shape, sizes.product(index.type.shape)
    if len(shape) != 1:
        index = trace.build(reshape, index, shape=(rows,))
    line, ones = positions(rows, INDEX), uniform(1, np.dtype(dtype), (rows,))
    line, ones = (trace.build(one.primitive, **dict(one.params)) for one in (line, ones))
    table = trace.build(scatter_add, ones, line, index, shape=(rows, num_classes), wrap=False)
    if len(shape) != 1:
        table = trace.build(reshape, table, shape=(*shape, num_classes))
    return Traced(table, trace)


def _count(num_classes: Any, where: str) -> int:
    try:
        count = operator.index(num_classes)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(
            f"one_hot: num_classes={num_classes!r} is not an integer of at least 0",
            where=where,
            hint="give the number of classes, as cr.one_hot(labels, 10)",
        )
    return count


def _at_once(labels: np.ndarray, num_classes: int, dtype: Any) -> np.ndarray:
    if labels.size and not (0 <= labels.min() and labels.max() < num_classes):
        raise IndexOutOfRangeError(
            f"one_hot: labels from {labels.min()} to {labels.max()} for {num_classes} classes",
            hint=f"class numbers start at 0 and end at {num_classes - 1}",
        )
    return (labels[..., None] == np.arange(num_classes)).astype(dtype)
