"""Training steps whose split is tested, with parameters and a batch of 24 rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64, int64, uint32

n = cr.size("n")
ROWS = 24


def network(
    x: float64[n, 4],
    y: int64[n],
    W1: float64[4, 5],
    b1: float64[5],
    W2: float64[5, 5],
    W3: float64[5, 3],
    decay=0.1,
):
    h1 = np.tanh(x @ W1 + b1)
    h2 = np.tanh(h1 @ W2)
    o = h2 @ W3
    J = cr.cross_entropy(o, y) + decay * (np.sum(W1**2) + np.sum(W3**2))
    return J


def dropping(
    x: float64[n, 4],
    y: float64[n, 3],
    key: uint32[2],
    W1: float64[4, 5],
    W2: float64[5, 5],
    W3: float64[5, 3],
):
    first, second = cr.random.split(key)
    h1 = cr.dropout(np.tanh(x @ W1), 0.5, key=first)
    h2 = cr.dropout(np.tanh(h1 @ W2), 0.3, key=second)
    J = np.mean((h2 @ W3 - y) ** 2)
    return J


def tied(x: float64[n, 5], y: float64[n, 5], W: float64[5, 5], V: float64[5, 5]):
    h = np.tanh(np.tanh(np.tanh(x @ W) @ V) @ W)
    J = np.mean((h @ V.T - y) ** 2)
    return J


def skipping(
    x: float64[n, 5], y: float64[n, 5], W1: float64[5, 5], W2: float64[5, 5], W3: float64[5, 5]
):
    a = np.tanh(x @ W1)
    b = np.tanh(a @ W2) + x
    c = np.tanh(b @ W3) + a
    J = np.mean((c * a - y) ** 2)
    return J


def recurrent(
    x: float64[n, 7, 4], y: float64[n, 3], W: float64[4, 6], U: float64[6, 6], V: float64[6, 3]
):
    def one(h: Any, row: Any) -> Any:
        return np.tanh(row @ W + h @ U), None

    start = np.zeros_like(x, shape=(x.shape[0], 6))
    h, _ = cr.scan(one, start, np.swapaxes(x, 0, 1))
    J = np.mean((h @ V - y) ** 2)
    return J


def normalised(
    x: float64[n, 4], y: float64[n, 3], W1: float64[4, 5], gain: float64[5], W2: float64[5, 3]
):
    z = x @ W1
    h = np.tanh((z - np.mean(z, 0)) / (np.std(z, 0) + 1e-3) * gain)
    J = np.mean((h @ W2 - y) ** 2)
    return J


def convolutional(
    x: float64["n 2 6 6"],
    y: int64["n"],
    K1: float64["3 2 3 3"],
    K2: float64["4 3 3 3"],
    W: float64["16 3"],
):
    h1 = cr.relu(cr.conv2d(x, K1, padding=1))
    h2 = np.tanh(cr.conv2d(h1, K2))[:, :, ::2, ::2].reshape(-1, 16)
    J = cr.cross_entropy(h2 @ W, y)
    return J


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: cr.sgd(0.1),
    "momentum": lambda: cr.sgd(0.1, momentum=0.9),
    "adamw": lambda: cr.adamw(0.01, weight_decay=0.0),
    "clipped": lambda: cr.clip_by_global_norm(cr.adam(0.01), 1.0),
    "scheduled": lambda: cr.adam(cr.schedules.cosine(0.01, 50)),
}
Models = dict[str, tuple[Callable[..., Any], tuple[str, ...]]]


def scaled(
    x: float64[n, 5], y: float64[n, 5], W1: float64[5, 5], W2: float64[5, 5], s: float64[()]
):
    """A parameter without axes, which several stages read."""
    a = np.tanh(np.exp(s) * (x @ W1))
    b = np.tanh(np.exp(s) * (a @ W2))
    J = np.mean((s * b - y) ** 2)
    return J


MODELS: Models = {
    "network": (network, ("W1", "b1", "W2", "W3")),
    "dropping": (dropping, ("W1", "W2", "W3")),
    "tied": (tied, ("W", "V")),
    "skipping": (skipping, ("W1", "W2", "W3")),
    "recurrent": (recurrent, ("W", "U", "V")),
    "normalised": (normalised, ("W1", "gain", "W2")),
    "scaled": (scaled, ("W1", "W2", "s")),
    "convolutional": (convolutional, ("K1", "K2", "W")),
}


def case(
    model: str, optimizer: str, executor: str, models: Models = MODELS
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A training step, its first parameters, and a batch."""
    objective, wrt = models[model]
    step = cr.training_step(objective, wrt, OPTIMIZERS[optimizer](), executor=executor)
    random = np.random.default_rng(3)
    weights, batch = {}, {}
    for item in step.differentiated.bind(n=ROWS).inputs:
        if item.name in wrt:
            weights[item.name] = random.normal(size=item.type.shape)
        elif item.name == "key":
            batch["key"] = cr.random.key(5)
        elif item.type.dtype.kind == "i":
            batch[item.name] = random.integers(0, 3, item.type.shape)
        elif item.type.shape:
            batch[item.name] = random.normal(size=item.type.shape)
    return step, weights, batch
