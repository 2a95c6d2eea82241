"""Programs with many saved values: a deep network, a small transformer, second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr

RANDOM = np.random.default_rng(11)


def network(x: Any, Ws: Any) -> Any:
    h = x
    for W in Ws:
        z = h @ W
        h = np.tanh(z)
    J = np.mean(h * h)
    return J


def transformer(x: Any, blocks: Any) -> Any:
    width = x.shape[-1]
    for block in blocks:
        h = cr.layer_norm(x)
        q, k, v = (h @ block[name] for name in ("Wq", "Wk", "Wv"))
        shares = cr.softmax(q @ k.swapaxes(-1, -2) / width**0.5)
        x = x + shares @ v @ block["Wo"]
        x = x + cr.gelu(cr.layer_norm(x) @ block["Win"]) @ block["Wout"]
    J = np.mean(x * x)
    return J


def curved(x: Any, Ws: Any) -> Any:
    """A penalty on the gradient: second derivatives in one step."""
    gradient = cr.grad(network, wrt="x")(x, Ws)
    J = network(x, Ws) + np.sum(gradient**2)
    return J


@dataclass(frozen=True)
class Deep:
    """An objective of `x`, whose first axis is called n, and of the parameters `name`."""

    objective: Callable[..., Any]
    name: str
    parameters: Any
    row: tuple[int, ...]

    def step(self, optimizer: Any = None, **options: Any) -> cr.TrainingStep:
        """A training step."""
        types = {"x": cr.float32["n", *self.row], self.name: self.parameters}
        optimizer = cr.sgd(0.1, momentum=0.9) if optimizer is None else optimizer
        return cr.training_step(self.objective, self.name, optimizer, **options, **types)

    def state(self, step: Any) -> Any:
        """The first state."""
        return step.init({self.name: self.parameters})

    def batch(self, n: int) -> np.ndarray:
        """Rows, the same for the same number of them."""
        return np.random.default_rng(n).normal(size=(n, *self.row)).astype(np.float32)


def matrix(rows: int, columns: int) -> np.ndarray:
    return (RANDOM.normal(size=(rows, columns)) / rows**0.5).astype(np.float32)


def deep(layers: int, width: int, objective: Callable[..., Any] = network) -> Deep:
    return Deep(objective, "Ws", [matrix(width, width) for _ in range(layers)], (width,))


def blocks(depth: int, width: int, length: int) -> Deep:
    wide = {"Win": (width, 4 * width), "Wout": (4 * width, width)}
    shapes = {**dict.fromkeys(("Wq", "Wk", "Wv", "Wo"), (width, width)), **wide}
    made = [{name: matrix(*shape) for name, shape in shapes.items()} for _ in range(depth)]
    return Deep(transformer, "blocks", made, (length, width))


PROGRAMS = {
    "network": deep(9, 32),
    "transformer": blocks(2, 16, 12),
    "second derivatives": deep(4, 32, curved),
}
N = 96
