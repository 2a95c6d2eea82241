"""A small convolutional network learns the digits, on both executors alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64

SHAPES = {"K1": (8, 1, 3, 3), "b1": (8,), "K2": (16, 8, 3, 3), "b2": (16,), "W": (64, 10)}


def scores(x: Any, K1: Any, b1: Any, K2: Any, b2: Any, W: Any) -> Any:
    h1 = cr.max_pool2d(cr.relu(cr.conv2d(x, K1, b1, padding="same")), 2)
    h2 = cr.max_pool2d(cr.relu(cr.conv2d(h1, K2, b2, padding="same")), 2)
    return np.reshape(h2, (x.shape[0], 64)) @ W


def objective(
    x: float32["n 1 8 8"],
    y: int64["n"],
    K1: float32[8, 1, 3, 3],
    b1: float32[8],
    K2: float32[16, 8, 3, 3],
    b2: float32[16],
    W: float32[64, 10],
) -> Any:
    o = scores(x, K1, b1, K2, b2, W)
    J = cr.cross_entropy(o, y)
    return J


def initial() -> dict[str, np.ndarray]:
    keys = cr.random.split(cr.random.key(0), len(SHAPES))
    found = {}
    for key, (name, shape) in zip(keys, SHAPES.items(), strict=True):
        fan_in = np.prod(shape[1:] if name.startswith("K") else shape[:1])
        scale = np.float32(0 if name.startswith("b") else np.sqrt(2 / fan_in))
        found[name] = scale * cr.random.normal(key, shape)
    return found


def images_and_labels() -> tuple[np.ndarray, np.ndarray]:
    digits = cr.data.digits()
    rows = cr.random.permutation(cr.random.key(2), 1797)  # writers follow one another in the file
    return digits.images[rows].reshape(-1, 1, 8, 8), digits.labels[rows]


def step_on(executor: str) -> cr.TrainingStep:
    return cr.training_step(
        objective, wrt=tuple(SHAPES), optimizer=cr.adam(0.005), executor=executor
    )


@pytest.mark.slow
def test_a_convolutional_network_learns_the_digits() -> None:
    images, labels = images_and_labels()
    step = step_on("native")
    state = step.init(**initial())
    for epoch in range(8):
        order = cr.random.permutation(cr.random.fold_in(cr.random.key(1), epoch), 1500)
        for rows in np.split(order[:1480], 37):
            step(state, x=images[rows], y=labels[rows])
    guesses = np.argmax(scores(images[1500:], **state.parameters), axis=-1)
    assert np.mean(guesses == labels[1500:]) > 0.94


@pytest.mark.slow
def test_both_executors_take_the_same_steps() -> None:
    images, labels = images_and_labels()
    found = []
    for executor in ("reference", "native"):
        step = step_on(executor)
        state = step.init(**initial())
        objectives = [
            step(state, x=images[rows], y=labels[rows]) for rows in np.split(np.arange(90), 3)
        ]
        found.append((objectives, state.parameters))
    (ours, weights), (others, other_weights) = found
    np.testing.assert_allclose(ours, others, rtol=1e-5)
    for name, array in weights.items():
        np.testing.assert_allclose(array, other_weights[name], rtol=1e-3, atol=1e-4)
