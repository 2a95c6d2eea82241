"""Graphs whose equations are written and set: networks, a training step, single primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlp import objective

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.graph.graph import Graph
from chainrule.graph.parts import Input
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.sources import input_
from chainrule.testing import sample_arrays
from chainrule.transforms import jvp_graph


def mlp() -> Graph:
    """The network of the README, with its gradients."""
    return cr.backward(cr.trace(objective), wrt=("W1", "W2"))


def book(bias: bool = False) -> Graph:
    """The network of the book: one example, which is a column."""

    def objective(
        x: float64["d"], y: int64[()], W1: float64["h d"], W2: float64["q h"], weight_decay=0.1
    ):
        z = W1 @ x
        h = np.maximum(z, 0)
        o = W2 @ h
        L = cr.cross_entropy(o, y)
        s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
        J = L + s
        return J

    def with_bias(
        x: float64["d"],
        y: int64[()],
        W1: float64["h d"],
        b1: float64["h"],
        W2: float64["q h"],
        b2: float64["q"],
        weight_decay=0.1,
    ):
        z = W1 @ x + b1
        h = np.maximum(z, 0)
        o = W2 @ h + b2
        L = cr.cross_entropy(o, y)
        s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
        J = L + s
        return J

    if bias:
        return cr.backward(cr.trace(with_bias), wrt=("W1", "b1", "W2", "b2"))
    return cr.backward(cr.trace(objective), wrt=("W1", "W2"))


def logistic_regression() -> Graph:
    def objective(X: float64["n d"], y: float64["n"], w: float64["d"], b=0.0):
        z = X @ w + b
        p = cr.sigmoid(z)
        J = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
        return J

    return cr.backward(cr.trace(objective), wrt=("w", "b"))


def residual_block() -> Graph:
    def objective(x: float64["n d"], W: float64["d h"], V: float64["h d"], g: float64["d"]):
        a = cr.layer_norm(x, g)
        h = cr.gelu(a @ W, approximate="tanh")
        r = x + h @ V
        J = cr.squared_error(r, x)
        return J

    return cr.backward(cr.trace(objective), wrt=("W", "V", "g"))


def attention() -> Graph:
    def objective(x: float64["n d"], Wq: float64["d k"], Wk: float64["d k"], Wv: float64["d k"]):
        q, k, v = x @ Wq, x @ Wk, x @ Wv
        scores = np.where(np.tril(np.ones((4, 4), bool)), q @ k.T / np.sqrt(8.0), -np.inf)
        u = cr.softmax(scores) @ v
        J = np.sum(u * u)
        return J

    return cr.backward(cr.trace(objective, x=float64["4 d"]), wrt=("Wq", "Wk", "Wv"))


def moves() -> Graph:
    """Slices, indices, cases, joins, comparisons, casts."""

    def program(x: float64["n d"], w: float64["d"], i: int64["m"]):
        c = x[:, 1:] * 2 - x[::-1, :-1]
        g = np.where(x > 0, x, np.where(x < -1, -1, 0.1 * x))
        k = x[:, None] * w
        t = np.concatenate([x, x], axis=1)[0]
        s = np.stack([w, w]) ** 3
        e = x.reshape(-1)[i] + np.argmax(w)
        m = ((x > 0) & ~(x > 1)) * 1e-5 + np.abs(x).astype(np.int64)
        J = np.sum(c) + np.sum(g) + np.sum(np.tanh(k)) + np.sum(t) + np.sum(s) + np.sum(e)
        J = J + np.sum(m) + np.max(x, axis=0)[0] + np.sum(w**x)
        return J

    return cr.backward(cr.trace(program), wrt=("x", "w"))


def hessian_vector_product() -> Graph:
    return cr.backward(mlp(), of="dJ/dW1", wrt=("W1", "W2"), seed="v")


def adam() -> Graph:
    def objective(x: float32["n d"], y: float32["n"], w: float32["d"]):
        J = cr.squared_error(x @ w, y)
        return J

    return cr.training_step(objective, wrt="w", optimizer=cr.adam(1e-3)).graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "mlp": mlp,
    "book": book,
    "book with bias": lambda: book(bias=True),
    "logistic regression": logistic_regression,
    "residual block": residual_block,
    "attention": attention,
    "moves": moves,
    "hessian-vector product": hessian_vector_product,
    "adam": adam,
    "tangents": lambda: jvp_graph(mlp(), wrt=("W1",)),
}


def primitive_graph(primitive: Primitive, sample: Sample) -> Graph:
    """A graph whose only computed value, `out`, is the primitive at a sample."""
    arrays = sample_arrays(sample, seed=0)
    nodes: list[Any] = [
        input_(index=place, type=type_of(array)) for place, array in enumerate(arrays)
    ]
    out = primitive(*nodes, **dict(sample.params))
    names = {f"x{place}": node for place, node in enumerate(nodes)} | {"out": out}
    inputs = tuple(Input(name, node) for name, node in names.items() if node is not out)
    return Graph("one", inputs, (("out", out),), (*nodes, out), names)
