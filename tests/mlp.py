"""The network of the README: what most examples differentiate, plan and train."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule import float32, int64


def objective(
    x: float32["n d"],
    y: int64["n"],
    W1: float32["d h"],
    W2: float32["h q"],
    weight_decay=1e-3,
):
    """The loss of n examples and the penalty; keywords of `trace` give it other types."""
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J
