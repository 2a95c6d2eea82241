"""A training whose checkpoints are tested, here and in the processes that tests start."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule import float64

n = cr.size("n")


def objective(x: float64[n, 3], y: float64[n], w: float64[3], b: float64[()]):
    error = x @ w + b - y
    J = np.mean(error**2)
    return J


def step_of(executor: str = "reference", optimizer: cr.Optimizer | None = None) -> cr.TrainingStep:
    return cr.training_step(
        objective, wrt=("w", "b"), optimizer=optimizer or cr.adam(0.01), executor=executor
    )


def batch(number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    return {"x": random.standard_normal((5, 3)), "y": random.standard_normal(5)}


def begin(step: cr.TrainingStep) -> cr.State:
    return step.init(w=np.array([1.0, -2.0, 0.5]), b=0.25)


def trained(step: cr.TrainingStep, state: cr.State, until: int) -> cr.State:
    while state.steps < until:
        step(state, batch(state.steps))
    return state


def same(one: cr.State, other: cr.State) -> bool:
    return list(one) == list(other) and all(
        one[k].tobytes() == other[k].tobytes() and one[k].dtype == other[k].dtype for k in one
    )
