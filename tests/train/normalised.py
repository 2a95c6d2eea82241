"""A network with batch normalisation, and its state."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64

STATE = ("mean", "var", "seen")


def network(
    x: float64["n 3"],
    y: float64["n"],
    W: float64["3 4"],
    w: float64["4"],
    mean: float64["4"],
    var: float64["4"],
    seen: cr.int64[()],
    training=True,
):
    z = x @ W
    h, mean, var = cr.batch_norm(z, mean, var, training=training)
    o = np.maximum(h, 0) @ w
    J = np.mean((o - y) ** 2)
    return J, {"mean": mean, "var": var, "seen": seen + x.shape[0]}


def beginning() -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        "W": random.standard_normal((3, 4)),
        "w": random.standard_normal(4),
        "mean": np.zeros(4),
        "var": np.ones(4),
        "seen": np.array(0),
    }


def rows(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(count)
    return {"x": random.standard_normal((count, 3)), "y": random.standard_normal(count)}


def step(executor: str, optimizer: Any = None, **options: Any) -> cr.train.TrainingStep:
    optimizer = optimizer or cr.sgd(0.1, momentum=0.9)
    return cr.training_step(
        network, ("W", "w"), optimizer, state=STATE, executor=executor, **options
    )
