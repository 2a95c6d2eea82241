"""Programs whose source is checked in, and arguments for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.graph.graph import Graph

GOLDEN = Path(__file__).parent / "golden" / "python"
N, PIXELS, HIDDEN, CLASSES = cr.sizes("n pixels hidden classes")


def objective(
    x: float32[N, PIXELS],
    y: int64[N],
    W1: float32[PIXELS, HIDDEN],
    W2: float32[HIDDEN, CLASSES],
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def with_bias(
    x: float32[N, PIXELS],
    y: int64[N],
    W1: float32[PIXELS, HIDDEN],
    b1: float32[HIDDEN],
    W2: float32[HIDDEN, CLASSES],
    b2: float32[CLASSES],
):
    z = x @ W1 + b1
    h = np.maximum(z, 0)
    o = h @ W2 + b2
    return cr.cross_entropy(o, y)


def attention(q: float64["n 4"], k: float64["n 4"], v: float64["n 4"]):
    scores = q @ k.T / 2
    weights = cr.softmax(scores)
    return np.sum(weights @ v)


def normalised(x: float32["n 4"], weight: float32["4"], bias: float32["4"]):
    y = cr.layer_norm(x, weight, bias)
    return np.sum(y**2)


def adam_step() -> Graph:
    adam = cr.adam(learning_rate=1e-3)
    return cr.training_step(objective, wrt=("W1", "W2"), optimizer=adam).graph


def arrays(**shapes: tuple[int, ...]) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


MLP = {**arrays(x=(5, 4), W1=(4, 3), W2=(3, 2)), "y": np.array([0, 1, 1, 0, 1])}
ADAM = {**MLP, **arrays(W1_m=(4, 3), W1_v=(4, 3), W2_m=(3, 2), W2_v=(3, 2)), "steps": 2.0}
ADAM = {name: np.abs(x) if name.endswith("_v") else x for name, x in ADAM.items()}
EXAMPLES = {
    "mlp": (lambda: cr.backward(cr.trace(objective), wrt=("W1", "W2")), MLP),
    "mlp-second": (
        lambda: cr.backward(
            cr.backward(cr.trace(objective), wrt=("W1", "W2")), of="dJ/dW1", wrt=("W2",), seed="v"
        ),
        {**MLP, **arrays(v=(4, 3))},
    ),
    "mlp-with-bias": (
        lambda: cr.backward(cr.trace(with_bias), wrt=("W1", "b1", "W2", "b2")),
        {**MLP, **arrays(b1=(3,), b2=(2,))},
    ),
    "mlp-adam": (adam_step, ADAM),
    "attention": (
        lambda: cr.backward(cr.trace(attention), wrt=("q", "k", "v")),
        {name: np.random.default_rng(3).normal(size=(3, 4)) for name in "qkv"},
    ),
    "layer-norm": (
        lambda: cr.backward(cr.trace(normalised), wrt=("x", "weight", "bias")),
        arrays(x=(3, 4), weight=(4,), bias=(4,)),
    ),
}
