"""Losses: cross-entropy and squared error."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.functions.elementwise import as_node, to_dtype
from chainrule.frontend.traced import Traced
from chainrule.graph.sizes import sizes
from chainrule.nn import closed_forms
from chainrule.nn.activations import log_softmax
from chainrule.nn.layers import embedding
from chainrule.numpy.statistics import as_array, mean
from chainrule.primitives.indexing import gather
from chainrule.primitives.movement import reshape
from chainrule.primitives.reduce import INDEX
from chainrule.primitives.sources import positions

REDUCTIONS = ("mean", "sum", "none")


def reduced(values: Any, reduction: str) -> Any:
    """The values' mean or sum, or the values themselves."""
    if reduction == "mean":
        return mean(values)
    if reduction == "sum":
        return np.sum(values)
    if reduction == "none":
        return values
    raise InputError(
        f"reduction={reduction!r} is not one of {', '.join(map(repr, REDUCTIONS))}",
        hint='use "mean" (the default), "sum" or "none"',
    )


@composite(symbol="ℓ", latex=r"\ell", gradients=closed_forms.CROSS_ENTROPY)
def cross_entropy(
    logits: Any,
    labels: Any,
    reduction: str = "mean",
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float | None = None,
) -> Any:
    """Minus the log-probability of the labels under softmax(logits).

    `logits` has shape (..., classes), `labels` are integers of shape (...), each from 0 to
    classes - 1 (an IndexError while running otherwise).  Finite for any finite logits.

    As in PyTorch `weight` (classes) scales each class, the mean is then weighted, rows whose label
    is `ignore_index` do not count, and `label_smoothing` is the part of the probability that is
    spread over all classes.
    """
    labels = as_array(labels)
    weight = None if weight is None else as_array(weight)
    _check(logits, labels)
    log_p = log_softmax(logits, -1)
    if isinstance(label_smoothing, (int, float)) and label_smoothing == 0:
        label_smoothing = None  # 0 times a loss that may be infinite
    if weight is None and ignore_index is None and label_smoothing is None:
        return reduced(-_at_labels(log_p, labels), reduction)
    _check_options(logits, labels, weight, label_smoothing)
    places, counts = labels, None
    if ignore_index is not None:
        counts = labels != ignore_index
        places = np.where(counts, labels, 0)
    scale = 1.0 if weight is None else embedding(weight[:, None], places)[..., 0]
    losses = -scale * _at_labels(log_p, places)
    if label_smoothing is not None:
        spread = -mean(log_p if weight is None else log_p * weight, axis=-1)
        losses = (1 - label_smoothing) * losses + label_smoothing * spread
    if counts is not None:
        losses, scale = np.where(counts, losses, 0), np.where(counts, scale, 0)
    if reduction == "mean" and (weight is not None or counts is not None):
        return np.sum(losses) / np.sum(scale)
    return reduced(losses, reduction)


def _check_options(logits: Any, labels: Any, weight: Any, label_smoothing: Any) -> None:
    trace = trace_of((logits, labels, weight))
    where = trace.where() if trace is not None else ""
    if isinstance(label_smoothing, (int, float)) and not 0 <= label_smoothing <= 1:
        raise InputError(
            f"cross_entropy: label_smoothing={label_smoothing!r} is not from 0 to 1",
            where=where,
            hint="it is a fraction: 0.1 for 10 %",
        )
    classes = np.shape(logits)[-1]
    if weight is not None and tuple(np.shape(weight)) != (classes,):
        raise ShapeError(
            f"cross_entropy: the weight has shape [{', '.join(map(str, np.shape(weight)))}], and "
            f"there are {classes} classes",
            where=where,
            hint="give one number for each class",
        ).resting_on(*_unlike(np.shape(weight), (classes,)))


def _check(logits: Any, labels: Any) -> None:
    trace = trace_of((logits, labels))
    where = trace.where() if trace is not None else ""
    shape, label_shape = np.shape(logits), np.shape(labels)
    dtype = getattr(labels, "dtype", None) or np.asarray(labels).dtype
    if dtype.kind not in "iu":
        raise DTypeError(
            f"cross_entropy needs integer labels (class numbers), got {dtype}",
            where=where,
            hint="for one-hot labels use np.argmax(labels, -1); "
            "for probabilities -np.sum(p * cr.log_softmax(logits), -1)",
        )
    if not shape or tuple(shape[:-1]) != tuple(label_shape):
        raise ShapeError(
            f"cross_entropy: logits of shape {list(shape)} need labels of shape "
            f"{list(shape[:-1])}, got {list(label_shape)}".replace("'", ""),
            where=where,
            hint="logits are (..., classes), labels (...): one class number for each row",
        ).resting_on(*_unlike(shape[:-1], label_shape))


def _unlike(one: Any, other: Any) -> list[Any]:
    """The sizes of the first axis on which two shapes of as many axes differ."""
    if len(one) != len(other):
        return []
    return [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]][:1]


def _at_labels(values: Any, labels: Any) -> Any:
    """values[..., labels]: one of the last axis for each row."""
    trace = trace_of((values, labels))
    if trace is None:
        values, labels = np.asarray(values), np.asarray(labels)
        if labels.size and not (0 <= labels.min() and labels.max() < values.shape[-1]):
            raise IndexOutOfRangeError(
                f"labels from {labels.min()} to {labels.max()} for {values.shape[-1]} classes",
                hint=f"class numbers start at 0 and end at {values.shape[-1] - 1}",
            )
        return np.take_along_axis(values, labels[..., None], -1)[..., 0]
    table = as_node(trace, values)
    index = to_dtype(trace, as_node(trace, labels), INDEX)  # row numbers may not fit the labels'
    shape, classes = index.type.shape, table.type.shape[-1]
    rows = sizes.product(shape)
    if len(shape) != 1:
        table = trace.build(reshape, table, shape=(rows, classes))
        index = trace.build(reshape, index, shape=(rows,))
    line = positions(rows, INDEX)
    line = trace.build(line.primitive, **dict(line.params))
    picked = trace.build(gather, table, line, index, wrap=False)
    if len(shape) != 1:
        picked = trace.build(reshape, picked, shape=shape)
    return Traced(picked, trace)


@composite(symbol="ℓ", latex=r"\ell", gradients=closed_forms.SQUARED_ERROR)
def squared_error(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """(prediction - target)² with its mean taken by default, as PyTorch's mse_loss."""
    difference = prediction - target
    return reduced(difference * difference, reduction)
