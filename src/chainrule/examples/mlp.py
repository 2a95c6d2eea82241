"""The network of the demonstration: one hidden layer, cross-entropy, weight decay (d2l.ai, 5.3)."""

from __future__ import annotations

import numpy as np

from chainrule.annotations import float32, int64
from chainrule.graph.sizes.sizes import sizes
from chainrule.nn.losses import cross_entropy

__user_program__ = True  # written as a user would: its values get names

WEIGHTS = 2  # which of the independent streams of one seed

n, pixels, hidden, classes = sizes("n pixels hidden classes")


def objective(
    x: float32[n, pixels],
    y: int64[n],
    W1: float32[pixels, hidden],
    W2: float32[hidden, classes],
    weight_decay: float,
    b=None,  # float32[hidden] where the hidden layer has a bias; no part of the penalty
):
    """The mean cross-entropy of the labels `y`, plus the penalty of the weights."""
    z = x @ W1 if b is None else x @ W1 + b
    h = np.maximum(z, 0)
    o = h @ W2
    L = cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def shapes(widths: tuple[int, int, int], bias: bool) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights by name."""
    found: dict[str, tuple[int, ...]] = {"W1": widths[:2], "W2": widths[1:]}
    return {**found, "b": widths[1:2]} if bias else found


def initial_weights(widths: tuple[int, int, int], seed: int) -> dict[str, np.ndarray]:
    """W1 and W2, uniform with variance 2 / (width of the layer before): He et al., 2015, eq. 10."""
    return {
        name: _uniform(shape, (6 / shape[0]) ** 0.5, seed, WEIGHTS, index)
        for index, (name, shape) in enumerate(shapes(widths, bias=False).items())
    }


def _uniform(shape: tuple[int, ...], limit: float, *key: int) -> np.ndarray:
    """float32 between -limit and limit, of raw PCG64 output, which NumPy promises not to change
    (NEP 19)."""
    bits = np.random.PCG64(np.random.SeedSequence(key)).random_raw(shape[0] * shape[1])
    unit = (bits >> np.uint64(11)) * 2.0**-53
    return ((2 * unit - 1) * limit).astype(np.float32).reshape(shape)
