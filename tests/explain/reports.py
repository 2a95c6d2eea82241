"""Programs whose memory is reported, and names that a screen or a browser would obey."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.machine_code.target import native_refusal

n = cr.size("n")
needs_native = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))
EITHER = pytest.mark.parametrize(
    "executor", ["reference", pytest.param("native", marks=needs_native)]
)
NASTY = "<script>alert(1)</script>&\"'[bold]]]>\n\x1b[31m\ud800"
NASTY_FILE = "<b>\n\x1b[31m[bold]x.py"


def objective(
    x: float32[n, 64],
    y: int64[n],
    W1: float32[64, 32],
    W2: float32[32, 10],
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def forward() -> cr.Graph:
    return cr.trace(objective)


def both() -> cr.Graph:
    """Forward and backward propagation."""
    return cr.backward(forward(), wrt=("W1", "W2"))


def step(executor: str = "reference") -> cr.TrainingStep:
    return cr.training_step(objective, ("W1", "W2"), cr.adam(), executor=executor)


def nasty() -> cr.Graph:
    """A graph with a parameter whose name is dangerous, from a file whose name is, too."""
    source = "def loss(x, p):\n    h = x @ p[NASTY]\n    J = np.sum(h ** 2)\n    return J\n"
    names = {"np": np, "NASTY": NASTY}
    exec(compile(source, NASTY_FILE, "exec"), names)
    traced = cr.trace(names["loss"], x=float32[n, 4], p={NASTY: float32[4, 4]})
    return cr.backward(traced, wrt="p")


def deep(layers: int) -> cr.Graph:
    """Many layers, each with a name of its own."""

    def loss(x, Ws):
        for W in Ws:
            x = np.tanh(x @ W)
        J = np.sum(x**2)
        return J

    Ws = tuple(float32[8, 8] for _ in range(layers))
    return cr.backward(cr.trace(loss, x=float32[n, 8], Ws=Ws), wrt="Ws")
