"""Binary cross-entropy, of logits or of probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.frontend.composite import composite
from chainrule.nn import closed_forms
from chainrule.nn.activations import softplus
from chainrule.nn.losses import reduced
from chainrule.numpy.windows import refuse, show

SMALLEST = -100.0  # of the logarithms of probabilities, as in PyTorch


@composite(symbol="ℓ", latex=r"\ell", gradients=closed_forms.BINARY_CROSS_ENTROPY)
def binary_cross_entropy_with_logits(
    logits: Any,
    targets: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """-t log σ(x) - (1 - t) log σ(-x) for each logit x and its target t from 0 to 1.

    Finite for any finite logits, and exact in both tails.  `weight` scales each element,
    `pos_weight` the part of t; both are broadcast.
    """
    _check("binary_cross_entropy_with_logits", logits, targets)
    happens = targets * softplus(-logits)
    if pos_weight is not None:
        happens = pos_weight * happens
    losses = happens + (1 - targets) * softplus(logits)
    return reduced(losses if weight is None else weight * losses, reduction)


@composite(symbol="ℓ", latex=r"\ell")
def binary_cross_entropy(
    probabilities: Any, targets: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """-t log p - (1 - t) log(1 - p) for each probability p and its target t from 0 to 1.

    As in PyTorch no logarithm is below -100; where one would be, its derivative is 0.  With logits,
    `binary_cross_entropy_with_logits` is more accurate.
    """
    _check("binary_cross_entropy", probabilities, targets)
    p = probabilities
    never, always = (np.abs(one) <= math.exp(SMALLEST) for one in (p, 1 - p))
    of_p = np.where(never, SMALLEST, np.log(np.where(never, 1, p)))
    of_rest = np.where(always, SMALLEST, np.log1p(-np.where(always, 0, p)))
    losses = -(targets * of_p + (1 - targets) * of_rest)
    return reduced(losses if weight is None else weight * losses, reduction)


def _check(asked: str, given: Any, targets: Any) -> None:
    if tuple(np.shape(given)) != tuple(np.shape(targets)):
        refuse(
            (given, targets),
            f"{asked}: {show(given)} and the targets {show(targets)} have different shapes",
            "there is one target for each; np.broadcast_to repeats targets",
        )
