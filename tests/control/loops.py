"""Iterations of loops, and the same loops as Python unrolls them."""

from collections.abc import Callable
from typing import Any

import numpy as np


def unrolled(f: Callable[..., Any], carry: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    """`cr.scan` of one carry, one array xs and one y, by a loop of Python."""
    ys = []
    for x in xs[::-1] if reverse else xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


def cell(W: Any, U: Any, b: Any) -> Callable[..., Any]:
    """The iteration of a recurrent network; each state is kept."""

    def step(h: Any, x: Any) -> Any:
        z = x @ U + h @ W + b
        h = np.tanh(z)
        return h, h

    return step


def gated(W: Any, U: Any, b: Any) -> Callable[..., Any]:
    """Two carries (a minimal long short-term memory); it keeps a product of both."""

    def step(state: Any, x: Any) -> Any:
        h, c = state
        gate = 1 / (1 + np.exp(-(x @ U + h @ W)))
        c = gate * c + (1 - gate) * np.tanh(x @ U + b)
        h = np.tanh(c)
        return (h, c), np.sum(h * c)

    return step


def weights(seed: int = 0, inputs: int = 2, width: int = 3) -> tuple[np.ndarray, ...]:
    """W, U and b for the iterations."""
    random = np.random.default_rng(seed)
    return (
        random.normal(size=(width, width)) * 0.5,
        random.normal(size=(inputs, width)),
        random.normal(size=width),
    )


def sequence(length: int, seed: int = 1, inputs: int = 2) -> np.ndarray:
    """The slices of a loop."""
    return np.random.default_rng(seed).normal(size=(length, inputs))


def close(got: Any, expected: Any, ulps: float = 64) -> bool:
    """Whether both are the same but for the rounding of sums in another order."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    scale = np.max(np.abs(expected), initial=1e-300)
    return bool(np.all(np.abs(got - expected) <= ulps * np.finfo(np.float64).eps * scale))
