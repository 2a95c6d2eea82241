"""PyTorch's losses: chainrule's own, in PyTorch's order of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import REDUCTIONS, dtype_of
from chainrule.graph.dtypes import dtype_kind
from chainrule.nn.activations import log_softmax
from chainrule.nn.binary import binary_cross_entropy, binary_cross_entropy_with_logits
from chainrule.nn.distances import absolute_error, huber, kl_divergence
from chainrule.nn.losses import cross_entropy, squared_error


def _cross_entropy(
    logits: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    axis = 1 if np.ndim(logits) > 1 else 0
    if dtype_kind(dtype_of(target)) == "f":
        return _soft_cross_entropy(logits, target, axis, weight, reduction, label_smoothing)
    return cross_entropy(
        np.moveaxis(logits, axis, -1) if np.ndim(logits) > 2 else logits,
        target,
        REDUCTIONS[reduction],
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing or None,
    )


def _soft_cross_entropy(
    logits: Any, target: Any, axis: int, weight: Any, reduction: int, label_smoothing: float
) -> Any:
    """Labels that are probabilities of classes."""
    classes = np.shape(logits)[axis]
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    terms = log_softmax(logits, axis) * target
    if weight is not None:
        terms = terms * np.reshape(weight, (-1, *(1,) * (np.ndim(logits) - 1 - axis)))
    losses = -np.sum(terms, axis=axis)
    if REDUCTIONS[reduction] == "none":
        return losses
    return np.mean(losses) if REDUCTIONS[reduction] == "mean" else np.sum(losses)


def _huber(x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    return huber(x, y, delta, REDUCTIONS[reduction])


def _binary(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return binary_cross_entropy(x, target, weight, REDUCTIONS[reduction])


def _binary_with_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    reduced = REDUCTIONS[reduction]
    return binary_cross_entropy_with_logits(x, target, weight, reduced, pos_weight)


def _kl_div(x: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Any:
    return kl_divergence(x, target, REDUCTIONS[reduction], log_target)


LOSSES: dict[str, Any] = {
    "cross_entropy_loss": _cross_entropy,
    "mse_loss": lambda x, y, reduction=1: squared_error(x, y, REDUCTIONS[reduction]),
    "l1_loss": lambda x, y, reduction=1: absolute_error(x, y, REDUCTIONS[reduction]),
    "huber_loss": _huber,
    "binary_cross_entropy": _binary,
    "binary_cross_entropy_with_logits": _binary_with_logits,
    "kl_div": _kl_div,
}
