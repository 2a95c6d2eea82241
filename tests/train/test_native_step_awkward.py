"""Native training steps of awkward objectives, and on batches in awkward memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_layouts import AWKWARD
from stepping import OPTIMIZERS, agree, batch, both, follow, network, typed, weights

import chainrule as cr
from chainrule import float64, int64
from chainrule.train.optimizers.optimizer import Optimizer


def unreached(w: float64[3], v: float64[2, 2], x: float64[3]):
    J = np.sum(np.sin(w * x))
    return J


def shared(w: float64[3], v: float64[3], x: float64[3]):
    J = np.sum((w + v) * x)  # one gradient for both
    return J


def a_parameter(w: float64[()], x: float64[3]):
    J = w
    return J


def an_input(w: float64[3], x: float64[()]):
    J = x
    return J


def a_constant(w: float64[3], x: float64[3]):
    J = np.float64(3.0)
    return J


def by_its_transpose(w: float64[4, 4], x: float64[3]):
    J = np.sum(w * w.T) + np.sum(x)
    return J


def by_products_with_itself(w: float64[4, 4], x: float64[4]):
    J = np.sum((w.T @ w @ w @ x) ** 2)
    return J


def exchanged(w: float64[4], v: float64[4], x: float64[4]):
    J = np.sum(w * v)
    return J


def empty(w: float64[0, 3], v: float64[3], x: float64[3]):
    J = np.sum(w) + np.sum(v * x)
    return J


def normalised(w: float64[6, 6], x: float64[6]):
    J = np.sum(cr.softmax(w / np.sqrt(np.sum(w**2))) @ x)
    return J


def whole(w: float64[3], x: int64[3, 3]):
    J = np.sum((x @ x) * w)  # a product of integers has no kernel
    return J


def halves(w: cr.float16[3, 2], x: cr.float16[4, 3]):
    J = np.sum(np.tanh((x @ w).astype(np.float64)))
    return J


@pytest.mark.sweep(5)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize(
    "objective",
    [
        *(unreached, shared, a_parameter, an_input, a_constant, by_its_transpose),
        *(by_products_with_itself, exchanged, empty, normalised, whole, halves),
    ],
)
def test_awkward_objectives_are_stepped_as_by_the_reference(objective: Any, optimizer: str):
    graph = cr.trace(objective)
    random = np.random.default_rng(0)
    given = {
        item.name: (random.normal(size=item.type.shape) * 3).astype(item.type.dtype)
        for item in graph.inputs
    }
    parameters = tuple(name for name in given if name != "x")
    steps = both(objective, parameters, OPTIMIZERS[optimizer]())
    arrays = {name: given[name] for name in parameters}
    # Other roundings of float32 sums make other float16 numbers, 2^-11 apart.
    rtol = 2e-3 if objective is halves else 1e-11
    follow(steps, arrays, [{"x": given["x"] + k} for k in range(5)], rtol)


def test_the_arrays_of_the_state_can_be_the_batch():
    def objective(w: float64[4, 4], x: float64[4, 4]):
        J = np.sum(np.tanh(w @ x) ** 2)
        return J

    w = np.random.default_rng(0).normal(size=(4, 4))
    steps = both(objective, "w", cr.sgd(0.1))
    state, wanted = (step.init(w=w) for step in steps)
    for _ in range(3):
        for part in (lambda x: x, lambda x: x.T, lambda x: x[::-1]):
            J, expected = (
                step(one, x=part(one.arrays["w"]))
                for step, one in zip(steps, (state, wanted), strict=True)
            )
            np.testing.assert_allclose(J, expected, rtol=1e-12)
            agree(state, wanted, 1e-12)


WAYS = {**AWKWARD, "a list": lambda x: x.tolist() if x.dtype != np.float32 else x}


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_may_lie_in_memory_as_it_likes(way: str):
    given = weights(np.float32, True)
    steps = both(network, tuple(given), cr.sgd(0.1), **typed(np.float32, True))
    plain = [batch(np.float32, 6, k) for k in range(3)]
    state, wanted = (step.init(given) for step in steps)
    for data in plain:
        odd = {name: WAYS[way](value) for name, value in data.items()}
        np.testing.assert_allclose(steps[0](state, odd), steps[1](wanted, data), rtol=2e-5)
        agree(state, wanted, 2e-5)


def takes_the_gradient() -> Optimizer:
    """W becomes dJ/dW."""
    return Optimizer("gradient", (), lambda parameter, gradient, scalars, arrays: (gradient, {}))


def a_batch(w: float64[4], v: float64[4], x: float64[4]):
    J = np.sum(w * x) + np.sum(v)
    return J


def a_table(w: float64[4], v: float64[4], x: float64[4]):
    J = np.sum(w * np.arange(4.0)) + np.sum(v * v * x)
    return J


@pytest.mark.parametrize("objective", [exchanged, a_batch, a_table, shared])
def test_a_parameter_may_become_another_one_an_input_or_a_constant(objective: Any):
    random = np.random.default_rng(0)
    size = cr.trace(objective).input("w").type.shape
    given = {"w": random.normal(size=size), "v": random.normal(size=size)}
    steps = both(objective, ("w", "v"), takes_the_gradient())
    batches = [{"x": random.normal(size=size)} for _ in range(4)]
    state, _ = follow(steps, given, batches, 1e-14)
    if objective is exchanged:
        np.testing.assert_array_equal(state["w"], given["w"])
        steps[0](state, batches[0])
        np.testing.assert_array_equal(state["w"], given["v"])
