"""Objectives whose single examples' gradients are looked at, with their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr

n = cr.size("n")
WIDTH, LENGTH, HEADS, WORDS = 8, 6, 2, 11


@dataclass(frozen=True)
class Program:
    """An objective, types of what has no annotation, parameters and a batch, all float64."""

    function: Callable[..., Any]
    types: Mapping[str, Any]
    parameters: Mapping[str, Any]
    batch: Mapping[str, np.ndarray]

    def step(self, executor: str = "reference") -> cr.TrainingStep:
        """A training step of it, by plain gradient descent."""
        wrt = tuple(self.parameters)
        return cr.training_step(self.function, wrt, cr.sgd(0.1), executor=executor, **self.types)


def mlp(x: cr.float64[n, 4], y: cr.int64[n], W1, b1, W2, weight_decay=0.1):
    h = np.maximum(x @ W1 + b1, 0)
    J = cr.cross_entropy(h @ W2, y) + weight_decay / 2 * np.sum(W1**2)
    return J


def convolutional(x: cr.float64["n 2 8 8"], y: cr.int64[n], K1, c1, K2, W, scale):
    h = cr.max_pool2d(np.tanh(cr.conv2d(x, K1) + c1[:, None, None]), 2)
    h = np.tanh(cr.conv2d(h, K2, padding=1))
    J = cr.cross_entropy((h.reshape(h.shape[0], -1) * scale) @ W, y)
    return J


def recurrent(x: cr.float64["n 5 4"], y: cr.int64["n 5"], W, U, b, V):
    def cell(h, x_t):
        h = np.tanh(x_t @ W + h @ U + b)
        return h, h

    first = np.zeros_like(x, shape=(x.shape[0], WIDTH))
    _, states = cr.scan(cell, first, np.swapaxes(x, 0, 1))
    J = cr.cross_entropy(np.swapaxes(states, 0, 1) @ V, y)
    return J


def transformer(t: cr.int64[n, LENGTH], y: cr.int64[n, LENGTH], E, P, w):
    def split(z):
        return np.swapaxes(z.reshape(-1, LENGTH, HEADS, WIDTH // HEADS), 1, 2)

    h = np.take(E, t, axis=0) + P
    z = cr.layer_norm(h, w["g"], w["b"]) @ w["qkv"]
    q, k, v = (split(z[..., i * WIDTH : (i + 1) * WIDTH]) for i in range(3))
    o = cr.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = h + np.swapaxes(o, 1, 2).reshape(-1, LENGTH, WIDTH) @ w["o"]
    h = h + cr.gelu(h @ w["up"] + w["c"]) @ w["down"]
    J = cr.cross_entropy(h @ E.T, y)
    return J


def normalised_weights(x: cr.float64[n, 4], y: cr.int64[n], V, g, temperature):
    W = V * (g / np.sqrt(np.sum(V**2, axis=0)))
    J = cr.cross_entropy(x @ W, y) * np.exp(temperature) + temperature**2
    return J


def _types(parameters: Any) -> Any:
    if isinstance(parameters, dict):
        return {name: _types(one) for name, one in parameters.items()}
    return cr.float64[parameters.shape]


def _program(
    function: Any, shapes: Any, inputs: tuple[int, ...], labels: Any, rows: int
) -> Program:
    rng = np.random.default_rng(3)

    def drawn(shape: Any) -> Any:
        if isinstance(shape, dict):
            return {name: drawn(one) for name, one in shape.items()}
        return rng.normal(size=shape) / np.sqrt(shape[0] if shape else 1)

    parameters = {name: drawn(shape) for name, shape in shapes.items()}
    first = next(iter(function.__annotations__))
    if first == "t":
        batch = {"t": rng.integers(0, WORDS, (rows, LENGTH))}
        batch["t"][:, 1] = batch["t"][:, 0] - WORDS  # the same word, counted from the end
    else:
        batch = {"x": rng.normal(size=(rows, *inputs))}
    batch["y"] = rng.integers(0, labels[-1], (rows, *labels[:-1]))
    return Program(function, {k: _types(v) for k, v in parameters.items()}, parameters, batch)


def programs() -> dict[str, Program]:
    """All of them, by name."""
    d = WIDTH
    weights = {"g": (d,), "b": (d,), "qkv": (d, 3 * d), "o": (d, d)}
    weights |= {"up": (d, 16), "c": (16,), "down": (16, d)}
    return {
        "mlp": _program(mlp, {"W1": (4, 8), "b1": (8,), "W2": (8, 3)}, (4,), (3,), 7),
        "convolutional": _program(
            convolutional,
            {"K1": (3, 2, 3, 3), "c1": (3,), "K2": (4, 3, 3, 3), "W": (36, 5), "scale": (36,)},
            (2, 8, 8),
            (5,),
            4,
        ),
        "recurrent": _program(
            recurrent, {"W": (4, d), "U": (d, d), "b": (d,), "V": (d, 3)}, (5, 4), (5, 3), 5
        ),
        "transformer": _program(
            transformer,
            {"E": (WORDS, d), "P": (LENGTH, d), "w": weights},
            (),
            (LENGTH, WORDS),
            4,
        ),
        "normalised weights": _program(
            normalised_weights, {"V": (4, 3), "g": (3,), "temperature": ()}, (4,), (3,), 6
        ),
    }
