"""Objectives that carry state which is not trained, for tests of steps that are split."""

from __future__ import annotations

from typing import Any

import numpy as np
from parallel_models import OPTIMIZERS, ROWS, n

import chainrule as cr
from chainrule import float64, int64, uint32


def running(
    x: float64[n, 4],
    y: float64[n, 3],
    W1: float64[4, 5],
    W2: float64[5, 5],
    W3: float64[5, 3],
    mean1: float64[5],
    var1: float64[5],
    mean2: float64[5],
    var2: float64[5],
    seen: int64[()],
    training=True,
):
    """Batch normalisation in two layers, and a count of rows."""
    z1 = x @ W1
    h1, mean1, var1 = cr.batch_norm(z1, mean1, var1, training=training)
    z2 = np.tanh(h1) @ W2
    h2, mean2, var2 = cr.batch_norm(z2, mean2, var2, training=training)
    o = np.tanh(h2) @ W3
    J = np.mean((o - y) ** 2)
    seen = seen + x.shape[0]
    return J, {"mean1": mean1, "var1": var1, "mean2": mean2, "var2": var2, "seen": seen}


def averaged(
    x: float64[n, 4],
    y: float64[n, 3],
    W1: float64[4, 5],
    W2: float64[5, 3],
    slow1: float64[4, 5],
    slow2: float64[5, 3],
    before: float64[5, 3],
    last: float64[3],
    steps: float64[()],
    zeros: float64[2],
):
    """Averages of weights, a copy of one as it was, the last batch's mean, a count, a constant."""
    h = np.tanh(x @ W1)
    o = h @ W2
    mean = np.mean(o, 0)
    J = np.mean((o - mean - y) ** 2)
    rate = 1 / (steps + 2)
    after = {"slow1": slow1 + rate * (W1 - slow1), "slow2": slow2 + rate * (W2 - slow2)}
    after |= {"before": slow2, "last": mean, "steps": steps + 1, "zeros": np.zeros(2)}
    return J, after


def keyed(
    x: float64[n, 4],
    y: float64[n, 3],
    W1: float64[4, 5],
    W2: float64[5, 5],
    W3: float64[5, 3],
    key: uint32[2],
    count: int64[()],
    seen: float64[3],
):
    """Dropout in two layers by a key that is carried, less and less of it."""
    own, first, second = cr.random.split(key, 3)
    rate = 1 / (2 + count.astype(np.float64))
    h1 = cr.dropout(np.tanh(x @ W1), 0.5, key=first)
    h2 = cr.dropout(np.tanh(h1 @ W2), 0.3, key=second) * rate
    o = h2 @ W3
    J = np.mean((o - y) ** 2)
    return J, {"key": own, "count": count + 1, "seen": seen + rate * np.mean(o, 0)}


def centred(
    x: float64[n, 4],
    y: float64[n, 3],
    W1: float64[4, 5],
    W2: float64[5, 3],
    mean: float64[5],
    scale: float64[()],
):
    """The objective reads what follows from the batches before; the first layer what the last
    one has left."""
    z = x @ W1 * scale
    mean_next = 0.9 * mean + 0.1 * np.mean(cr.stop_gradient(z), 0)
    h = np.tanh(z - mean) + 0.1 * mean_next
    J = np.mean((h @ W2 - y) ** 2)
    return J, {"mean": mean_next, "scale": scale / (1 + 0.1 * cr.stop_gradient(J))}


CARRYING: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "running": (
        running,
        ("W1", "W2", "W3"),
        ("mean1", "var1", "mean2", "var2", "seen"),
    ),
    "averaged": (averaged, ("W1", "W2"), ("slow1", "slow2", "before", "last", "steps", "zeros")),
    "keyed": (keyed, ("W1", "W2", "W3"), ("key", "count", "seen")),
    "centred": (centred, ("W1", "W2"), ("mean", "scale")),
}


def carrying(
    model: str, optimizer: str = "adamw", executor: str = "reference"
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A training step, its state at first, and a batch."""
    objective, wrt, state = CARRYING[model]
    rule = OPTIMIZERS[optimizer]()
    step = cr.training_step(objective, wrt, rule, state=state, executor=executor)
    random = np.random.default_rng(4)
    weights, batch = {}, {}
    for item in step.differentiated.bind(n=ROWS).inputs:
        if item.name == "key":
            weights["key"] = cr.random.key(5)
        elif item.type.dtype.kind == "i":
            weights[item.name] = np.zeros(item.type.shape, np.int64)
        elif item.name in (*wrt, *state):
            weights[item.name] = np.abs(random.normal(size=item.type.shape)) + 0.5
        elif item.type.shape:
            batch[item.name] = random.normal(size=item.type.shape)
    return step, weights, batch
