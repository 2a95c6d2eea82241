"""Trainers of objectives with random keys."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from trainings import arrays, data, dropping, trainer, weights

import chainrule as cr
from chainrule import float32, uint32

KEY = cr.random.key(7)
n = cr.size("n")


def test_dropout_with_a_key_among_the_data_takes_that_key():
    fixed = cr.random.key(99)

    def batches(epoch: int) -> list[dict[str, Any]]:
        return [{**data(), "key": fixed}] * 3

    made = trainer(dropping, cr.sgd(0.1), data=batches)
    made.fit(1)
    step = cr.training_step(dropping, ("W1", "W2"), cr.sgd(0.1), executor="reference")
    state = step.init(weights())
    for _ in range(3):
        step(state, data(), key=fixed)
    assert arrays(made.state) == arrays(state)


def test_the_memory_of_a_trainer_that_makes_keys_is_that_of_its_step():
    made = trainer(dropping, cr.sgd(0.1))
    before = made.memory()
    made.fit(1)
    assert made.memory().needed_nbytes == before.needed_nbytes > 0


def test_several_random_inputs_get_keys_of_their_own():
    def objective(
        x: float32[n, 3], w: float32[3], first: uint32[2], second: uint32[2], scale: float32[()]
    ):
        a = cr.random.normal(first, (3,))
        b = cr.random.normal(second, (3,))
        J = np.mean((x @ (w + a * scale)) ** 2) + np.sum(b * w)
        return J

    given = {"w": np.ones(3, np.float32), "scale": np.ones((), np.float32)}
    x = np.ones((4, 3), np.float32)
    made = cr.Trainer(
        objective, given, cr.sgd(0.1), {"x": x}, batch_size=4, wrt="w", key=KEY, progress=False
    )
    made.fit(3)
    step = cr.training_step(objective, "w", cr.sgd(0.1))
    state = step.init(w=given["w"])
    for t in range(3):
        keys = [cr.random.fold_in(cr.random.fold_in(KEY, i), t) for i in (1, 2)]
        step(state, x=x, first=keys[0], second=keys[1], scale=given["scale"])
    assert arrays(made.state) == arrays(state)


def test_the_keys_of_many_steps_are_those_of_fold_in():
    from chainrule.train.step.random_inputs import Keys

    keys = Keys(("a", "b"), KEY)
    for step, (index, name) in itertools.product((0, 1, 255, 256, 70_000), enumerate("ab", 1)):
        own = cr.random.fold_in(KEY, index)
        np.testing.assert_array_equal(keys.at(step)[name], cr.random.fold_in(own, step))
