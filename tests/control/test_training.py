"""Loops in training iterations, with random numbers, and with what they close over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import close, unrolled

import chainrule as cr
from chainrule import float64, uint32
from chainrule.errors import InputError

RANDOM = np.random.default_rng(0)
BATCH = {"x": RANDOM.normal(size=(6, 5, 2)), "y": RANDOM.normal(size=6)}
PARAMS = {
    "U": RANDOM.normal(size=(2, 4)),
    "W": RANDOM.normal(size=(4, 4)) / 2,
    "v": RANDOM.normal(size=4),
}


def objective_with(loop: Any) -> Any:
    def objective(x: float64["n 5 2"], y: float64["n"], params: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = np.tanh(x @ params["U"] + h @ params["W"])
            return h, h @ params["v"]

        rows = np.transpose(x, (1, 0, 2))
        h, o = loop(cell, x[:, 0, :1] * np.zeros(4), rows)
        J = np.mean((h @ params["v"] - y) ** 2) + np.mean(o**2)
        return J

    return objective


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_training_with_a_loop_is_training_with_the_unrolled_one(executor: str) -> None:
    states = []
    for loop in (cr.scan, unrolled):
        step = cr.training_step(
            objective_with(loop), "params", cr.adam(1e-2), params=PARAMS, executor=executor
        )
        state = step.init(params=PARAMS)
        for _ in range(5):
            step(state, BATCH)
        states.append(state)
    for one, other in zip(*(state.arrays.values() for state in states), strict=True):
        assert close(one, other, 4096)  # five iterations of adam, which divides by small numbers


def test_random_numbers_of_each_step_are_those_of_its_key() -> None:
    def program(key: uint32["2"]) -> Any:
        def step(total: Any, key: Any) -> Any:
            noise = cr.random.normal(key, (3,))
            return total + noise, noise

        return cr.scan(step, np.zeros(3, np.float32), cr.random.split(key, 4))

    key = cr.random.key(7)
    total, noise = cr.trace(program).run(key=key).outputs
    keys = cr.random.split(key, 4)
    assert np.array_equal(noise, np.stack([cr.random.normal(one, (3,)) for one in keys]))
    assert np.allclose(total, noise.sum(0), rtol=1e-6)


def test_dropout_in_a_step_is_not_taken_out_in_silence() -> None:
    def objective(x: float64["4 2"], w: float64["2"], key: uint32["2"]) -> Any:
        def step(total: Any, pair: Any) -> Any:
            row, key = pair
            return total + np.sum(cr.dropout(row, 0.5, key=key) * w), None

        keys = cr.random.split(key, 4)
        return cr.scan(step, 0.0, (x, keys))[0]

    w = np.ones(2)
    step = cr.training_step(objective, "w", cr.sgd(0.1), w=w)
    state = step.init(w=w)
    with pytest.raises(InputError, match="the dropout in objective cannot be taken out"):
        cr.evaluate(step, state, {"x": np.ones((4, 2))})


def test_a_loop_over_numbers_may_read_a_traced_value() -> None:
    xs = np.arange(1.0, 4.0)

    def product(w: Any) -> Any:
        return cr.scan(lambda c, x: (c * w + x, None), 1.0, xs)[0]

    def python(w: Any) -> Any:
        return unrolled(lambda c, x: (c * w + x, x), 1.0, xs)[0]

    assert product(2.0) == python(2.0)
    assert close(cr.grad(product)(2.0), cr.grad(python)(2.0))
    inner = cr.grad(lambda w: cr.scan(lambda c, x: (c + product(w) * x, None), 0.0, xs)[0])
    assert close(inner(2.0), 6 * cr.grad(python)(2.0))
