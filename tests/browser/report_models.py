"""Reports of models of several kinds: transformer, recurrent network, curvature, training."""

from __future__ import annotations

from typing import Any

import gated_loop
import numpy as np

import chainrule as cr
from chainrule import float32, int64
from chainrule.data import digits
from chainrule.explain.report import Report


def attention(x, p):
    q = x @ p["Q"]
    k = x @ p["K"]
    v = x @ p["V"]
    scores = q @ k.T / np.sqrt(8.0)
    weights = cr.softmax(scores)
    out = weights @ v
    return out


def block(x, p):
    a = attention(cr.layer_norm(x), p)
    x = x + a
    h = cr.gelu(cr.layer_norm(x) @ p["W1"] + p["b1"])
    m = h @ p["W2"]
    x = x + m
    return x


def transformer(executor: str = "reference") -> Report:
    """Two blocks between an embedding and a head, with values."""

    def objective(tokens, y, params):
        x = params["embedding"][tokens]
        for p in params["blocks"]:
            x = block(x, p)
        logits = x @ params["head"]
        J = cr.cross_entropy(logits, y)
        return J

    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32) / np.float32(3)

    def one() -> dict[str, np.ndarray]:
        square = {name: weights(8, 8) for name in "QKV"}
        return {**square, "W1": weights(8, 16), "b1": weights(16), "W2": weights(16, 8)}

    params = {"embedding": weights(11, 8), "blocks": [one(), one()], "head": weights(8, 11)}
    inputs = {"tokens": random.integers(0, 11, 6), "y": random.integers(0, 11, 6), "params": params}
    graph = cr.backward(cr.trace(objective, **inputs), wrt="params")
    return cr.report(graph, inputs, title="transformer", executor=executor)


def compiled() -> Report:
    """The same as the native executor plans it, with bytes of alignment at the peak."""
    return transformer("native")


def recurrent() -> Report:
    """A loop over the steps of a sequence, and the loop of its derivative."""

    def objective(
        x: float32["n 2"],
        y: float32["n"],
        W: float32["6 6"],
        U: float32["2 6"],
        v: float32["6"],
    ):
        def cell(h, x):
            z = x @ U + h @ W
            h = np.tanh(z)
            return h, h @ v

        h, o = cr.scan(cell, np.zeros(6, np.float32), x)
        J = np.mean((o - y) ** 2) + np.sum(h**2) / 100
        return J

    graph = cr.backward(cr.trace(objective), wrt=("W", "U", "v"))
    random = np.random.default_rng(0)
    shapes = {"x": (40, 2), "y": (40,), "W": (6, 6), "U": (2, 6), "v": (6,)}
    inputs = {
        name: random.normal(size=shape).astype(np.float32) / 2 for name, shape in shapes.items()
    }
    return cr.report(graph, inputs, title="a loop over 40 steps")


def gated() -> Report:
    """A loop whose cell reads nine parameters."""
    random = np.random.default_rng(0)
    inputs = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in gated_loop.SHAPES.items()
    }
    traced = cr.trace(gated_loop.objective, x=float32["12", "n", 3], **inputs)
    graph = cr.backward(traced, wrt=tuple(inputs))
    inputs["x"] = random.normal(size=(12, 2, 3)).astype(np.float32)
    return cr.report(graph, inputs, title="a gated loop")


def curvature() -> Report:
    """A gradient differentiated again: the Hessian of a network times a vector."""

    def objective(
        x: float32["n 4"], y: float32["n"], W1: float32["4 5"], w2: float32["5"], scale=0.5
    ):
        z = x @ W1
        h = np.tanh(z)
        o = h @ w2
        J = scale * np.mean((o - y) ** 2)
        return J

    graph = cr.backward(cr.trace(objective), wrt=("W1", "w2"))
    second = cr.backward(graph, of="dJ/dW1", wrt=("W1", "w2"), seed="v")
    random = np.random.default_rng(0)
    shapes = {"x": (7, 4), "y": (7,), "W1": (4, 5), "w2": (5,), "v": (4, 5)}
    inputs = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return cr.report(second, inputs, title="Hessian-vector product")


def trained() -> Report:
    """A training step from the state that some epochs led to, with their history."""

    def classify(x: float32["n 64"], y: int64["n"], W1: float32["64 16"], W2: float32["16 10"]):
        h = np.maximum(x @ W1, 0)
        o = h @ W2
        J = cr.cross_entropy(o, y)
        return J

    data = digits()
    examples: dict[str, Any] = {"x": data.images[:640], "y": data.labels[:640]}
    weights = {
        "W1": cr.random.normal(cr.random.key(1), (64, 16)) / 8,
        "W2": cr.random.normal(cr.random.key(2), (16, 10)) / 4,
    }
    step = cr.training_step(classify, tuple(weights), cr.adam(0.01))
    trainer = cr.Trainer(step, weights, data=examples, log_every=4, progress=False)
    history = trainer.fit(4)
    batch = {name: array[:32] for name, array in examples.items()}
    return cr.report(step, batch, state=trainer.state, history=history, title="after 4 epochs")
