"""Losses for the distance of predictions from targets: absolute error, Huber, KL divergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import require_flag
from chainrule.nn.losses import reduced


@composite(symbol="ℓ", latex=r"\ell")
def absolute_error(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """|prediction - target| with its mean taken by default, as PyTorch's l1_loss."""
    return reduced(np.abs(prediction - target), reduction)


@composite(symbol="ℓ", latex=r"\ell")
def huber(prediction: Any, target: Any, delta: Any = 1.0, reduction: str = "mean") -> Any:
    """d² / 2 where |d| is up to delta, else delta (|d| - delta / 2), for d = prediction - target
    (Huber, 1964); as PyTorch's huber_loss."""
    if isinstance(delta, (int, float)) and not delta > 0:
        trace = trace_of((prediction, target))
        raise InputError(
            f"huber: delta={delta!r} is not above 0",
            where=trace.where() if trace is not None else "",
            hint="delta is the distance up to which the loss is a parabola",
        )
    difference = prediction - target
    far = np.abs(difference)
    near = far <= delta
    small = np.where(near, difference, 0)  # else the square's derivative may be 0 times inf
    return reduced(np.where(near, 0.5 * small * small, delta * (far - 0.5 * delta)), reduction)


@composite(symbol="KL", latex=r"\operatorname{KL}")
def kl_divergence(
    log_probabilities: Any, target: Any, reduction: str = "mean", log_target: bool = False
) -> Any:
    """target (log target - log_probabilities), where 0 log 0 is 0, as PyTorch's kl_div.

    `reduction="batchmean"` is the divergence of each row, averaged: the sum over the length of the
    first axis.  With `log_target` the target is the logarithm of one.
    """
    require_flag((log_probabilities, target), log_target, "kl_divergence: log_target")
    if log_target:
        parts = np.exp(target) * (target - log_probabilities)
    else:
        never = target == 0
        difference = np.log(np.where(never, 1, target)) - np.where(never, 0, log_probabilities)
        parts = target * difference
    if reduction == "batchmean":
        return np.sum(parts) / np.shape(parts)[0]
    return reduced(parts, reduction)
