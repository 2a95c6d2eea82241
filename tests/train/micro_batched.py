"""An objective, data and steps for the tests of micro-batches."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule import float64, int64

OPTIMIZERS = {
    "sgd": cr.sgd(0.1),
    "nesterov": cr.sgd(0.1, 0.9, nesterov=True),
    "rmsprop": cr.rmsprop(0.01, momentum=0.5, centered=True),
    "clipped adam": cr.clip_by_global_norm(cr.adam(cr.schedules.cosine(0.1, 20, 3)), 0.5),
}


def objective(x: float64["n 6"], y: int64["n"], W: float64[6, 5], V: float64[5, 3], decay=1e-2):
    h = np.tanh(x @ W)
    L = cr.cross_entropy(h @ V, y)
    J = L + decay * np.sum(W**2)
    return J


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"W": random.normal(size=(6, 5)), "V": random.normal(size=(5, 3))}


def batch(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=(rows, 6)), "y": random.integers(0, 3, rows)}


def whole(optimizer=OPTIMIZERS["sgd"], of=objective, wrt=("W", "V")):
    return cr.training_step(of, wrt=wrt, optimizer=optimizer)


def assert_same(state, expected, rtol=1e-12):
    assert [*state] == [*expected] and state.steps == expected.steps
    for name in expected:
        largest = np.max(np.abs(expected[name]), initial=0.0)
        np.testing.assert_allclose(state[name], expected[name], rtol, rtol * largest, err_msg=name)
