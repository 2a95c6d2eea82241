"""Training steps whose predicted time within a budget is compared with what they take.

They have other sizes than the cases of `cases/`.  The speeds of `chainrule.plan.speeds` were fitted
to the instructions of all but the scan, so that they are no independent test of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cases import transformer_objective as transformer

import chainrule as cr


@dataclass(frozen=True)
class Program:
    """An objective, its parameters and its batch; `axis` is that of rows, 0 where not said."""

    objective: Callable[..., Any]
    params: dict[str, Any]
    batch: dict[str, np.ndarray]
    axis: dict[str, int] = field(default_factory=dict)

    @property
    def types(self) -> dict[str, Any]:
        """The types of the batch, n rows each."""
        found = {}
        for name, array in self.batch.items():
            axes = [*map(str, array.shape)]
            axes[self.axis.get(name, 0)] = "n"
            found[name] = getattr(cr, array.dtype.name)[" ".join(axes)]
        return found

    @property
    def rows(self) -> int:
        """How many there are."""
        name, array = next(iter(self.batch.items()))
        return array.shape[self.axis.get(name, 0)]

    def step(self, **options: Any) -> Any:
        """The training step by gradient descent."""
        optimizer = cr.sgd(1e-3)
        given = {"params": self.params, **self.types, **options}
        return cr.training_step(self.objective, "params", optimizer, **given)


def mlp(depth: int, width: int, rows: int, dtype: Any = np.float32) -> Program:
    """Layers of equal width with tanh."""

    def objective(params, x, y):
        h = x
        for W, b in zip(params["W"], params["b"], strict=True):
            h = np.tanh(h @ W + b)
        J = np.mean((h - y) ** 2)
        return J

    random = np.random.default_rng(0)
    W = [_normal(random, dtype, width, width) / width**0.5 for _ in range(depth)]
    b = [np.zeros(width, dtype) for _ in range(depth)]
    batch = {name: _normal(random, dtype, rows, width) for name in "xy"}
    return Program(objective, {"W": [one.astype(dtype) for one in W], "b": b}, batch)


def residual(depth: int, width: int, rows: int, dtype: Any = np.float32) -> Program:
    """Blocks of layer norm and gelu without a product: all time is in elementwise code."""

    def objective(params, x, y):
        h = x
        for block in params["blocks"]:
            h = h + cr.gelu(cr.layer_norm(h, block["a"], block["b"])) * block["c"]
        J = np.mean((h - y) ** 2)
        return J

    random = np.random.default_rng(0)
    blocks = [{name: np.ones(width, dtype) for name in "abc"} for _ in range(depth)]
    batch = {name: _normal(random, dtype, rows, width) for name in "xy"}
    return Program(objective, {"blocks": blocks}, batch)


def convolutions(depth: int, channels: int, size: int, rows: int) -> Program:
    """Convolutions of 3 x 3 with relu, all of the same size."""

    def objective(params, x, y):
        h = x
        for W, b in zip(params["W"], params["b"], strict=True):
            h = np.maximum(cr.conv2d(h, W, b, padding=1), 0)
        logits = np.mean(h, axis=(2, 3)) @ params["Wo"]
        J = cr.cross_entropy(logits, y)
        return J

    random = np.random.default_rng(0)
    W = [_normal(random, np.float32, channels, channels, 3, 3) / 12 for _ in range(depth)]
    b = [np.zeros(channels, np.float32) for _ in range(depth)]
    Wo = _normal(random, np.float32, channels, 10)
    x = _normal(random, np.float32, rows, channels, size, size)
    y = random.integers(0, 10, rows)
    W = [one.astype(np.float32) for one in W]
    return Program(objective, {"W": W, "b": b, "Wo": Wo}, {"x": x, "y": y})


def recurrent(length: int, width: int, rows: int) -> Program:
    """A recurrent network: one `scan` over the positions."""

    def objective(params, x, y):
        def cell(h, x):
            h = np.tanh(x @ params["Wx"] + h @ params["Wh"])
            return h, h

        _, hs = cr.scan(cell, np.zeros_like(x, shape=(x.shape[1], width)), x)
        J = np.mean((hs - y) ** 2)
        return J

    random = np.random.default_rng(0)
    params = {name: _normal(random, np.float32, width, width) / width**0.5 for name in ("Wx", "Wh")}
    params = {name: one.astype(np.float32) for name, one in params.items()}
    x = _normal(random, np.float32, length, rows, width)
    y = _normal(random, np.float32, length, rows, width)
    return Program(objective, params, {"x": x, "y": y}, {"x": 1, "y": 1})


def transformers(depth: int, width: int, length: int, batch: int) -> Program:
    """A causal transformer."""
    tokens, targets = transformer.random_tokens(256, length, batch)
    params = transformer.initial_parameters(256, length, width, depth)
    return Program(transformer.objective, params, {"tokens": tokens, "targets": targets})


def _normal(random: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "MLP of 50 layers, 256 wide, 512 rows": lambda: mlp(50, 256, 512),
    "the same in float64": lambda: mlp(50, 256, 512, np.float64),
    "MLP of 50 layers, 32 wide, 64 rows": lambda: mlp(50, 32, 64),
    "MLP of 4 layers, 1024 wide, 1024 rows": lambda: mlp(4, 1024, 1024),
    "transformer, 4 blocks, 128 wide": lambda: transformers(4, 128, 64, 16),
    "transformer, 2 blocks, 256 wide": lambda: transformers(2, 256, 128, 8),
    "6 convolutions, 16 channels of 32 x 32": lambda: convolutions(6, 16, 32, 16),
    "16 blocks of layer norm and gelu": lambda: residual(16, 512, 1024),
    "the same in float64 ": lambda: residual(16, 512, 1024, np.float64),
    "scan of 256 steps, 128 wide": lambda: recurrent(256, 128, 64),
}
