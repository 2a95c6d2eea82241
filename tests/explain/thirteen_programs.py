"""Thirteen programs as a teacher or an engineer writes them: drawn, and read as equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64, int64

n, d, h, q = cr.sizes("n d h q")


def book() -> cr.Graph:
    """One hidden layer with weight decay, without bias."""

    def objective(x: float64[n, d], y: int64[n], W1: float64[d, h], W2: float64[h, q], lam=1e-3):
        z = x @ W1
        h = np.tanh(z)
        o = h @ W2
        L = cr.cross_entropy(o, y)
        s = lam / 2 * (np.linalg.norm(W1) ** 2 + np.linalg.norm(W2) ** 2)
        J = L + s
        return J

    return cr.backward(cr.trace(objective), wrt=("W1", "W2"))


def book_with_bias() -> cr.Graph:
    def objective(
        x: float64[n, d],
        y: float64[n, q],
        W1: float64[d, h],
        b1: float64[h],
        W2: float64[h, q],
        b2: float64[q],
        lam=1e-3,
    ):
        z = x @ W1 + b1
        h = cr.sigmoid(z)
        o = h @ W2 + b2
        L = cr.squared_error(o, y)
        s = lam / 2 * (np.sum(W1**2) + np.sum(W2**2))
        J = L + s
        return J

    return cr.backward(cr.trace(objective), wrt=("W1", "b1", "W2", "b2"))


def lenet() -> cr.Graph:
    def objective(
        x: float64[n, 1, 28, 28],
        y: int64[n],
        K1: float64[6, 1, 5, 5],
        b1: float64[6],
        K2: float64[16, 6, 5, 5],
        b2: float64[16],
        W3: float64[400, 120],
        b3: float64[120],
        W4: float64[120, 84],
        b4: float64[84],
        W5: float64[84, 10],
        b5: float64[10],
    ):
        c1 = cr.sigmoid(cr.conv2d(x, K1, b1, padding=2))
        p1 = cr.avg_pool2d(c1, 2)
        c2 = cr.sigmoid(cr.conv2d(p1, K2, b2))
        p2 = cr.avg_pool2d(c2, 2)
        flat = p2.reshape(p2.shape[0], -1)
        h3 = cr.sigmoid(flat @ W3 + b3)
        h4 = cr.sigmoid(h3 @ W4 + b4)
        logits = h4 @ W5 + b5
        L = cr.cross_entropy(logits, y)
        return L

    names = ("K1", "b1", "K2", "b2", "W3", "b3", "W4", "b4", "W5", "b5")
    return cr.backward(cr.trace(objective), wrt=names)


def gru() -> cr.Graph:
    def objective(
        x: float64[5, n, d],
        y: float64[n, h],
        Wz: float64[d, h],
        Uz: float64[h, h],
        bz: float64[h],
        Wr: float64[d, h],
        Ur: float64[h, h],
        br: float64[h],
        W: float64[d, h],
        U: float64[h, h],
        b: float64[h],
    ):
        def cell(s, xt):
            z = cr.sigmoid(xt @ Wz + s @ Uz + bz)
            r = cr.sigmoid(xt @ Wr + s @ Ur + br)
            c = np.tanh(xt @ W + (r * s) @ U + b)
            s = (1 - z) * s + z * c
            return s, s

        last, _ = cr.scan(cell, np.zeros_like(y), x)
        L = cr.squared_error(last, y)
        return L

    names = ("Wz", "Uz", "bz", "Wr", "Ur", "br", "W", "U", "b")
    return cr.backward(cr.trace(objective), wrt=names)


def lstm() -> cr.Graph:
    def objective(
        x: float64[5, n, d],
        y: float64[n, h],
        W: float64[d, 4 * h],
        U: float64[h, 4 * h],
        b: float64[4 * h],
    ):
        def cell(carry, xt):
            s, c = carry
            gates = xt @ W + s @ U + b
            i, f, g, o = np.split(gates, 4, axis=1)
            c = cr.sigmoid(f) * c + cr.sigmoid(i) * np.tanh(g)
            s = cr.sigmoid(o) * np.tanh(c)
            return (s, c), s

        start = np.zeros_like(y), np.zeros_like(y)
        (last, _), _ = cr.scan(cell, start, x)
        L = cr.squared_error(last, y)
        return L

    return cr.backward(cr.trace(objective), wrt=("W", "U", "b"))


def _layer_types(width: int, hidden: int) -> dict[str, Any]:
    square = float64[width, width]
    return {
        "g1": float64[width],
        "c1": float64[width],
        "Wq": square,
        "Wk": square,
        "Wv": square,
        "Wo": square,
        "g2": float64[width],
        "c2": float64[width],
        "W1": float64[width, hidden],
        "b1": float64[hidden],
        "W2": float64[hidden, width],
        "b2": float64[width],
    }


def attention(x: Any, Wq: Any, Wk: Any, Wv: Any, Wo: Any, heads: int) -> Any:
    n, t, d = x.shape

    def split(a: Any) -> Any:
        return a.reshape(n, t, heads, d // heads).swapaxes(1, 2)

    q, k, v = split(x @ Wq), split(x @ Wk), split(x @ Wv)
    scores = q @ k.swapaxes(2, 3) / math.sqrt(d // heads)
    mask = np.tril(np.ones((t, t), bool))
    p = cr.softmax(np.where(mask, scores, -np.inf), axis=-1)
    mixed = (p @ v).swapaxes(1, 2).reshape(n, t, d)
    return mixed @ Wo


def block(x: Any, p: dict[str, Any], heads: int) -> Any:
    normed = cr.layer_norm(x, p["g1"], p["c1"])
    x = x + attention(normed, p["Wq"], p["Wk"], p["Wv"], p["Wo"], heads)
    normed = cr.layer_norm(x, p["g2"], p["c2"])
    x = x + cr.gelu(normed @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
    return x


def transformer(layers: int) -> cr.TrainingStep:
    t, width, heads, tokens = 16, 32, 4, 100

    def objective(tokens, labels, params):
        x = params["embedding"][tokens] + params["positions"]
        for layer in params["layers"]:
            x = block(x, layer, heads)
        logits = x @ params["embedding"].T
        loss = cr.cross_entropy(logits, labels)
        return loss

    types = {
        "embedding": float64[tokens, width],
        "positions": float64[t, width],
        "layers": [_layer_types(width, 4 * width) for _ in range(layers)],
    }
    return cr.training_step(
        objective,
        "params",
        cr.adamw(1e-3),
        tokens=int64[n, t],
        labels=int64[n, t],
        params=types,
    )


def batch_norm_mlp() -> cr.Graph:
    def objective(x: float64[n, d], y: int64[n], p):
        z = x @ p["W1"]
        mean = np.mean(z, axis=0)
        var = np.var(z, axis=0)
        normed = (z - mean) / np.sqrt(var + 1e-5) * p["gamma"] + p["beta"]
        a = cr.relu(normed)
        o = a @ p["W2"] + p["b2"]
        L = cr.cross_entropy(o, y)
        return L

    p = {
        "W1": float64[d, h],
        "gamma": float64[h],
        "beta": float64[h],
        "W2": float64[h, q],
        "b2": float64[q],
    }
    return cr.backward(cr.trace(objective, p=p), wrt="p")


def residual() -> cr.Graph:
    def objective(x: float64[n, 16, 8, 8], y: int64[n], K: float64[3, 2, 16, 16, 3, 3], W, b):
        for k1, k2 in K:
            inner = cr.relu(cr.conv2d(x, k1, padding=1))
            x = cr.relu(x + cr.conv2d(inner, k2, padding=1))
        pooled = np.mean(x, axis=(2, 3))
        o = pooled @ W + b
        L = cr.cross_entropy(o, y)
        return L

    graph = cr.trace(objective, W=float64[16, 10], b=float64[10])
    return cr.backward(graph, wrt=("K", "W", "b"))


def attention_alone() -> cr.Graph:
    def objective(Q: float64[n, d], K: float64[h, d], V: float64[h, q], Y: float64[n, q]):
        A = Q @ K.T / np.sqrt(8)
        P = cr.softmax(A)
        o = P @ V
        L = cr.squared_error(o, Y)
        return L

    return cr.backward(cr.trace(objective), wrt=("Q", "K", "V"))


def hessian_vector() -> cr.Graph:
    def product(x: float64[n, d], y: float64[n], w: float64[d], v: float64[d]):
        def objective(w):
            o = x @ w
            p = cr.sigmoid(o)
            L = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
            return L

        Hv = cr.hvp(objective, w, v)
        return Hv

    return cr.trace(product)


def choice() -> cr.Graph:
    def objective(x: float64[n, d], w: float64[d], large: float64[()]):
        o = x @ w

        def clipped(o):
            return np.sum(np.abs(o))

        def squared(o):
            return np.sum(o**2) / 2

        L = cr.cond(large > 1, clipped, squared, o)
        return L

    return cr.backward(cr.trace(objective), wrt="w")


def newton() -> cr.Graph:
    def root(a: float64[()], x0: float64[()]):
        def far(x):
            return np.abs(x * x - a) > 1e-9

        def better(x):
            return (x + a / x) / 2

        x = cr.while_loop(far, better, x0, max_steps=20)
        return x

    return cr.backward(cr.trace(root), wrt="a")


PROGRAMS: dict[str, Callable[[], Any]] = {
    "book": book,
    "book with bias": book_with_bias,
    "LeNet": lenet,
    "GRU": gru,
    "LSTM": lstm,
    "transformer of 2 layers": lambda: transformer(2),
    "transformer of 12 layers": lambda: transformer(12),
    "batch-norm MLP": batch_norm_mlp,
    "residual net": residual,
    "attention": attention_alone,
    "Hessian-vector product": hessian_vector,
    "choice": choice,
    "while": newton,
}
