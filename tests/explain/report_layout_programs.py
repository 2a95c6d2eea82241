"""Programs whose drawings have scopes: calls, repetitions, long stretches."""

from __future__ import annotations

from collections.abc import Callable

import gated_loop
import numpy as np
from drawings import chain, irregular
from graphs_to_explain import GRAPHS

import chainrule as cr
from chainrule import float64
from chainrule.graph.graph import Graph


def attention(x, p, mask):
    q = x @ p["Q"]
    k = x @ p["K"]
    v = x @ p["V"]
    scores = q @ k.T / 2 + mask
    a = cr.softmax(scores)
    out = a @ v
    return out


def block(x, p, mask):
    a = attention(cr.layer_norm(x), p, mask)
    x = x + a
    h = cr.gelu(x @ p["W1"] + p["b1"])
    m = h @ p["W2"]
    x = x + m
    return x


def transformer(layers: int, decay: float = 0.0) -> Graph:
    """Equal blocks with residuals, one after the other; with `decay`, a penalty on all weights."""

    def model(tokens, params, mask):
        x = params["embedding"][tokens]
        for p in params["blocks"]:
            x = block(x, p, mask)
        logits = x @ params["head"]
        return logits

    def objective(tokens, y, params, mask):
        logits = model(tokens, params, mask)
        L = cr.cross_entropy(logits, y)
        J = L
        if decay:
            s = decay * sum(np.sum(w**2) for p in params["blocks"] for w in p.values())
            J = L + s
        return J

    square = dict.fromkeys(("Q", "K", "V", "W1", "W2"), np.zeros((4, 4)))
    params = {
        "embedding": np.zeros((7, 4)),
        "blocks": [{**square, "b1": np.zeros(4)} for _ in range(layers)],
        "head": np.zeros((4, 7)),
    }
    tokens = np.zeros(3, dtype=np.int64)
    mask = np.zeros((3, 3))
    graph = cr.trace(objective, tokens=tokens, y=tokens, params=params, mask=mask)
    return cr.backward(graph, wrt="params")


def calls_in_calls(depth: int) -> Graph:
    """A function that calls itself, and then reads what it was given."""

    def inner(x, level):
        h = np.tanh(x)
        y = inner(h, level - 1) if level else h
        z = y * x
        return z

    def program(x: float64["n"]):
        J = np.sum(inner(x, depth))
        return J

    return cr.backward(cr.trace(program), wrt="x")


def clipped_step(count: int) -> Graph:
    """A training step of many parameters, in which one norm scales all gradients."""

    def objective(x, params):
        for W in params:
            x = np.tanh(x @ W)
        J = np.sum(x)
        return J

    optimizer = cr.clip_by_global_norm(cr.adam(1e-3), max_norm=1.0)
    params = [np.zeros((3, 3))] * count
    step = cr.training_step(
        objective, wrt="params", optimizer=optimizer, x=np.zeros((2, 3)), params=params
    )
    return step.graph


def layers_and_penalties(count: int) -> Graph:
    """Every weight is read by two functions."""

    def layer(x, W):
        z = x @ W
        h = np.tanh(z)
        return h

    def penalty(W):
        square = W * W
        p = np.sum(square)
        return p

    def objective(x, params):
        for W in params:
            x = layer(x, W)
        J = np.sum(x)
        for W in params:
            J = J + penalty(W)
        return J

    graph = cr.trace(objective, x=np.zeros((2, 3)), params=[np.zeros((3, 3))] * count)
    return cr.backward(graph, wrt="params")


def gated() -> Graph:
    """A loop whose cell reads nine parameters."""
    params = {name: np.zeros(shape) for name, shape in gated_loop.SHAPES.items()}
    graph = cr.trace(gated_loop.objective, x=float64["12", "n", 3], **params)
    return cr.backward(graph, wrt=("x", *params))


def with_gradients(graph: Graph) -> Graph:
    """The backward pass too."""
    return cr.backward(graph, wrt=(graph.inputs[0].name,))


PROGRAMS: dict[str, Callable[[], Graph]] = {
    **GRAPHS,
    "chain of 70": lambda: with_gradients(chain(70)),
    "irregular of 120": lambda: with_gradients(irregular(120)),
    "transformer of 2": lambda: transformer(2),
    "transformer of 4": lambda: transformer(4),
    "transformer of 7 with a penalty": lambda: transformer(7, decay=0.1),
    "clipped step": lambda: clipped_step(10),
    "gated": gated,
    "calls in calls": lambda: calls_in_calls(7),
}
