"""Training steps whose products can be computed in parts; and their first state and batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import parallel_models

import chainrule as cr
from chainrule import float64, int64, uint32

n = cr.size("n")


def layers(
    x: float64[n, 6],
    y: int64[n],
    W1: float64[6, 8],
    b1: float64[8],
    W2: float64[8, 6],
    b2: float64[6],
    W3: float64[6, 8],
    W4: float64[8, 3],
):
    h1 = np.tanh(x @ W1 + b1)
    h2 = h1 @ W2 + b2 + x
    h3 = np.tanh(h2 @ W3)
    o = h3 @ W4
    J = cr.cross_entropy(o, y)
    return J


def attention(
    x: float64[n, 5, 8],
    y: float64[n, 5, 8],
    g: float64[8],
    Wq: float64[8, 8],
    Wk: float64[8, 8],
    Wv: float64[8, 8],
    Wo: float64[8, 8],
    W1: float64[8, 16],
    c: float64[16],
    W2: float64[16, 8],
):
    """A block of a transformer, with four heads."""

    def heads(a: Any) -> Any:
        return np.swapaxes(a.reshape(-1, 5, 4, 2), 1, 2)

    z = cr.layer_norm(x, weight=g)
    q, k, v = heads(z @ Wq), heads(z @ Wk), heads(z @ Wv)
    a = cr.softmax(q @ np.swapaxes(k, 2, 3) / np.sqrt(2.0), axis=-1) @ v
    h = x + np.swapaxes(a, 1, 2).reshape(-1, 5, 8) @ Wo
    m = cr.gelu(cr.layer_norm(h) @ W1 + c) @ W2
    J = np.mean((h + m - y) ** 2)
    return J


def dropout(
    x: float64[n, 4], y: float64[n, 3], key: uint32[2], W1: float64[4, 8], W2: float64[8, 3]
):
    h = cr.dropout(np.tanh(x @ W1), 0.5, key=key)
    J = np.mean((h @ W2 - y) ** 2)
    return J


def shared(x: float64[n, 6], y: float64[n, 6], W: float64[6, 6], V: float64[6, 6]):
    """Two layers with the same parameters, and one with their transpose."""
    h = np.tanh(np.tanh(np.tanh(x @ W) @ V) @ W)
    J = np.mean((h @ V.T - y) ** 2)
    return J


def residual(
    x: float64[n, 6], y: float64[n, 6], W1: float64[6, 8], W2: float64[8, 8], W3: float64[8, 6]
):
    """A stage may begin with the sum of parts that another one has computed."""
    h1 = np.tanh(x @ W1)
    z = h1 @ W2
    h2 = np.tanh(z) + h1
    J = np.mean((h2 @ W3 - y) ** 2)
    return J


MODELS: parallel_models.Models = {
    **parallel_models.MODELS,
    "layers": (layers, ("W1", "b1", "W2", "b2", "W3", "W4")),
    "attention": (attention, ("g", "Wq", "Wk", "Wv", "Wo", "W1", "c", "W2")),
    "shared": (shared, ("W", "V")),
    "residual": (residual, ("W1", "W2", "W3")),
    "dropout": (dropout, ("W1", "W2")),
}


def case(model: str, optimizer: str, executor: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """As `parallel_models.case`."""
    step, weights, batch = parallel_models.case(model, optimizer, executor, MODELS)
    if model == "attention":  # else its softmax makes much of little
        weights = {name: 0.4 * array for name, array in weights.items()}
    return step, weights, batch


def error(found: Any, wanted: Any) -> float:
    """The largest difference of two states, relative to the largest element of each array."""
    assert found.steps == wanted.steps and set(found) == set(wanted)
    return max(
        float(np.max(np.abs(found[name] - wanted[name])) / max(np.max(np.abs(wanted[name])), 1e-9))
        for name in wanted
    )
