"""The network for Fashion-MNIST: one hidden layer, biases in both, cross-entropy (d2l.ai, 5.2)."""

from __future__ import annotations

import numpy as np

from chainrule.annotations import float32, int64
from chainrule.graph.sizes.sizes import sizes
from chainrule.nn.losses import cross_entropy
from chainrule.random import key, normal, split

__user_program__ = True  # written as a user would: its values get names

DEVIATION = 0.01  # of the first weights

n, pixels, hidden, classes = sizes("n pixels hidden classes")


def objective(
    x: float32[n, pixels],
    y: int64[n],
    W1: float32[pixels, hidden],
    b1: float32[hidden],
    W2: float32[hidden, classes],
    b2: float32[classes],
    weight_decay: float,
):
    """The mean cross-entropy of the labels `y`, plus the penalty of the weights."""
    z = x @ W1 + b1
    h = np.maximum(z, 0)
    o = h @ W2 + b2
    L = cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def initial_weights(widths: tuple[int, int, int], seed: int) -> dict[str, np.ndarray]:
    """Normal weights of deviation 0.01, and zero biases."""
    first, second = split(key(seed))
    return {
        "W1": DEVIATION * normal(first, widths[:2], np.float32),
        "b1": np.zeros(widths[1], np.float32),
        "W2": DEVIATION * normal(second, widths[1:], np.float32),
        "b2": np.zeros(widths[2], np.float32),
    }
