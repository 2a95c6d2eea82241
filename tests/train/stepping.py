"""A network, and the same training steps natively and by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.train import State, TrainingStep

n = cr.size("n")
RTOL = {np.float64: 1e-12, np.float32: 2e-5}  # float32: 24 bits, sums of up to 64 terms, few steps

OPTIMIZERS = {
    "sgd": lambda: cr.sgd(0.1),
    "decay": lambda: cr.sgd(0.1, weight_decay=0.05),
    "momentum": lambda: cr.sgd(0.1, momentum=0.9),
    "nesterov": lambda: cr.sgd(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: cr.adam(0.02),
    "adam with decay": lambda: cr.adam(0.02, weight_decay=0.1),
    "adamw": lambda: cr.adamw(0.02, weight_decay=0.1),
}


def both(
    objective: Any, wrt: Any, optimizer: Any, **types: Any
) -> tuple[TrainingStep, TrainingStep]:
    """The native step, and the reference's."""
    native, reference = (
        cr.training_step(objective, wrt=wrt, optimizer=optimizer, executor=executor, **types)
        for executor in ("native", "reference")
    )
    return native, reference


def agree(state: State, wanted: State, rtol: float) -> None:
    """All arrays are the same, within rtol of the largest element of each."""
    assert state.steps == wanted.steps and [*state.arrays] == [*wanted.arrays]
    for name, expected in wanted.arrays.items():
        largest = np.max(np.abs(expected), initial=0.0)
        np.testing.assert_allclose(state[name], expected, rtol, rtol * largest, err_msg=name)


def follow(
    steps: tuple[TrainingStep, TrainingStep],
    given: Mapping[str, Any],
    batches: list[dict[str, Any]],
    rtol: float,
) -> tuple[State, State]:
    """The states after the same steps natively and by the reference; equal after each."""
    state, wanted = (step.init(given) for step in steps)
    for batch in batches:
        J, expected = (step(s, batch) for step, s in zip(steps, (state, wanted), strict=True))
        assert type(J) is type(expected)
        np.testing.assert_allclose(J, expected, rtol, rtol)
        agree(state, wanted, rtol)
    return state, wanted


def network(x: Any, y: Any, W1: Any, W2: Any, b1: Any = None, b2: Any = None) -> Any:
    z = x @ W1 if b1 is None else x @ W1 + b1
    h = np.maximum(z, 0)
    o = h @ W2 if b2 is None else h @ W2 + b2
    L = cr.cross_entropy(o, y)
    return L


def weights(dtype: Any, biases: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"W1": (20, 33), "W2": (33, 10)}
    if biases:
        shapes |= {"b1": (33,), "b2": (10,)}
    return {name: (0.3 * random.normal(size=s)).astype(dtype) for name, s in shapes.items()}


def batch(dtype: Any, rows: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 20)).astype(dtype)
    return {"x": x, "y": random.integers(0, 10, rows)}


def typed(dtype: Any, biases: bool) -> dict[str, Any]:
    kind = float64 if dtype is np.float64 else float32
    types = {"x": kind[n, 20], "y": int64[n], "W1": kind[20, 33], "W2": kind[33, 10]}
    return types | ({"b1": kind[33], "b2": kind[10]} if biases else {})
