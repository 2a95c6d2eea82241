"""Programs with loops and choices, to measure what they take: objectives and their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr

T, N, D = 12, 6, 16


@dataclass(frozen=True)
class Program:
    """An objective J(W, x) of (T, N, D) numbers; `n` is the axis of x that is a batch's, if any."""

    name: str
    objective: Callable[..., Any]
    shape: tuple[int, ...] = (T, N, D)
    n: int | None = 1

    @property
    def types(self) -> dict[str, Any]:
        """The types of the arguments, the batch with a named size."""
        axes = ["n" if axis == self.n else size for axis, size in enumerate(self.shape)]
        return {"x": cr.float32[*axes], "W": cr.float32[D, D]}

    @property
    def sizes(self) -> dict[str, int]:
        """The named size at which arrays are made."""
        return {} if self.n is None else {"n": N}

    def step(self, executor: str) -> cr.TrainingStep:
        """A training step with an array of the optimizer's."""
        optimizer = cr.sgd(0.01, momentum=0.9)
        return cr.training_step(self.objective, "W", optimizer, executor=executor, **self.types)

    def arrays(self, order: str = "C") -> dict[str, np.ndarray]:
        """A batch, in this order in memory, and parameters."""
        random = np.random.default_rng(3)
        x = random.normal(size=self.shape).astype(np.float32)
        W = (random.normal(size=(D, D)) * 0.1).astype(np.float32)
        found = {"x": x, "W": W}
        return {k: np.asfortranarray(v) for k, v in found.items()} if order == "F" else found


def plain(x: Any, W: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row @ W + h)
        return h, h

    last, hs = cr.scan(step, x[0] * 0, x)
    return np.sum(hs**2) + np.sum(last)


def recurrent(x: Any, W: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row + h @ W)
        return h, h

    last, _ = cr.scan(step, x[0] * 0, x)
    return np.sum(last**2)


def transposed(x: Any, W: Any) -> Any:
    """The slices are no rows of an array, and the matrix is turned round."""

    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row @ W.T + h)
        return h, np.sum(h)

    last, sums = cr.scan(step, x[:, 0] * 0, np.swapaxes(x, 0, 1))
    return np.sum(last**2) + np.sum(sums)


def several(x: Any, W: Any) -> Any:
    """Carries that change places, one of integers, and results of two dtypes."""

    def step(state: Any, row: Any) -> Any:
        h, c, count = state
        c = np.tanh(row @ W + c * count)
        return (c, h, count + 1), (h, count)

    start = (x[0] * 0, x[0] * 0, np.float32(0))
    (h, c, _), (hs, counts) = cr.scan(step, start, x, reverse=True)
    return np.sum(h * c) + np.sum(hs) * np.sum(counts)


def short(x: Any, W: Any) -> Any:
    """Too few steps for a body to be compiled."""

    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row @ W + h)
        return h, h

    last, hs = cr.scan(step, x[0] * 0, x[:3])
    return np.sum(last**2) + np.sum(hs)


def nested(x: Any, W: Any) -> Any:
    def inner(h: Any, row: Any) -> Any:
        h = np.tanh(row + h)
        return h, h

    def outer(h: Any, rows: Any) -> Any:
        last, hs = cr.scan(inner, h, rows @ W)
        return last, np.sum(hs)

    last, sums = cr.scan(outer, x[0, 0] * 0, x)
    return np.sum(last**2) + np.sum(sums)


def chosen(x: Any, W: Any) -> Any:
    def one(x: Any, W: Any) -> Any:
        return np.tanh(x @ W)

    def other(x: Any, W: Any) -> Any:
        return np.sin(x) @ W.T

    y = cr.cond(np.sum(x) > 0, one, other, x, W)
    return np.sum(y**2)


def chosen_in_steps(x: Any, W: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = cr.cond(np.sum(row) > 0, lambda h: np.sin(np.exp(h) + h), lambda h: h, row @ W + h)
        return h, h

    last, hs = cr.scan(step, x[0] * 0, x)
    return np.sum(last**2) + np.sum(hs)


def counted(x: Any, W: Any) -> Any:
    h = cr.fori_loop(0, 9, lambda i, h: np.tanh(h @ W + x[1]), x[0])
    return np.sum(h**2)


def sorted_in_steps(x: Any, W: Any) -> Any:
    """An operation without a kernel in compiled steps."""

    def step(h: Any, row: Any) -> Any:
        h = np.sort(np.tanh(row @ W + h), axis=-1)
        return h, np.cumsum(h, axis=0)

    last, hs = cr.scan(step, x[0] * 0, x)
    return np.sum(last**2) + np.sum(hs)


def repeated(x: Any, W: Any) -> Any:
    """A loop without a gradient, beside what has one."""
    V = cr.stop_gradient(W) * 0.1  # so that the loop ends
    h = cr.while_loop(lambda s: np.sum(s**2) > 0.5, lambda s: np.tanh(s @ V), cr.stop_gradient(x))
    return np.sum(np.tanh(x @ W)) + np.sum(h)


def bounded(x: Any, W: Any) -> Any:
    """The way back keeps states; what one iteration adds to a sum is written over it."""
    V = W * 0.1

    def step(state: Any) -> Any:
        count, h, total = state
        h = np.tanh(h @ V + x[1])
        return count + 1, h, total * 0.5 + np.sum(h).astype(np.float64)

    start = (0, x[0], np.float64(0))
    _, h, total = cr.while_loop(lambda s: np.sum(s[1] ** 2) > 10 * s[0], step, start, max_steps=30)
    return np.sum(h**2) + total.astype(x.dtype)


def bounded_in_steps(x: Any, W: Any) -> Any:
    """A loop that ends by a condition in one that does not, and the way back through both."""

    def step(h: Any, row: Any) -> Any:
        def more(g: Any) -> Any:
            return np.sin(g) * 0.5 + row @ W * 0.01

        h = cr.while_loop(lambda g: np.sum(g**2) > 0.5, more, h + row, max_steps=20)
        return h, np.sum(h)

    last, sums = cr.scan(step, x[0] * 0, x)
    return np.sum(last**2) + np.sum(sums)


def averaged(x: Any, W: Any) -> Any:
    """No loop: batch first."""
    h = np.maximum(x @ W, 0)
    return np.mean(cr.softmax(h) ** 2)


def factored(x: Any, W: Any) -> Any:
    """What LAPACK takes is most of it."""
    return np.sum(np.linalg.svd(np.tanh(x @ W), compute_uv=False))


PROGRAMS = (
    Program("plain", plain),
    Program("recurrent", recurrent),
    Program("transposed", transposed, (N, T, D), 0),
    Program("several", several),
    Program("short", short),
    Program("nested", nested),
    Program("counted", counted),
    Program("sorted in steps", sorted_in_steps),
    Program("repeated", repeated),
    Program("bounded", bounded),
    Program("bounded in steps", bounded_in_steps),
    Program("averaged", averaged, (N, T, D), 0),
    Program("factored", factored, (N, D), 0),
)

CHOICES = (Program("chosen", chosen), Program("chosen in steps", chosen_in_steps))
