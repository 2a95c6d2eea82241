"""Each optimizer, with each schedule and with clipping, equals PyTorch's, step for step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from updating import (
    MAX_NORM,
    OPTIMIZERS,
    RTOL,
    SCHEDULES,
    STEPS,
    assert_close,
    batch,
    given,
    objective,
    optimizer_of,
)

import chainrule as cr

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

KINDS = {
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


def cosine(t: int) -> float:
    """The factor of the cosine in SCHEDULES, as a user of LambdaLR writes it."""
    if t < 12:
        return t / 12
    return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, (t - 12) / (80 - 12))))


SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=15, gamma=0.7),
    "piecewise": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [20, 30, 70], gamma=0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.LambdaLR(o, cosine),
}
EXECUTORS = pytest.mark.parametrize(
    "executor", ["reference", pytest.param("native", marks=pytest.mark.exhaustive)]
)
EVERY = pytest.mark.parametrize("name", OPTIMIZERS)


def follow(
    name: str,
    executor: str,
    schedule: str | None = None,
    clips: bool = False,
    steps: int = STEPS,
) -> None:
    """Both take the same steps; objectives and parameters agree."""
    make, options = OPTIMIZERS[name]
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in given().items()}
    renamed = {"lr" if name == "learning_rate" else name: v for name, v in options.items()}
    optimizer = KINDS[make.__name__](theirs.values(), **renamed)
    scheduler = schedule and SCHEDULERS[schedule](optimizer)
    step = cr.training_step(
        objective,
        wrt=("W", "w", "scale"),
        optimizer=optimizer_of(name, schedule, clips),
        executor=executor,
    )
    state, norms = step.init(given()), []
    for index in range(steps):
        data = batch(index)
        value = step(state, data)
        x, y = torch.tensor(data["x"]), torch.tensor(data["y"])
        h = torch.tanh(x @ theirs["W"])
        J = ((h @ theirs["w"] * theirs["scale"] - y) ** 2).mean()
        assert value == pytest.approx(J.item(), rel=RTOL)
        optimizer.zero_grad()
        J.backward()
        if clips:
            norms.append(torch.nn.utils.clip_grad_norm_(theirs.values(), MAX_NORM).item())
        optimizer.step()
        if scheduler:
            scheduler.step()
    assert not clips or min(norms) < MAX_NORM < max(norms)
    assert_close(state, {name: value.detach().numpy() for name, value in theirs.items()})


@EXECUTORS  # the native one below, with more
@EVERY
def test_steps_equal_those_of_pytorch(name, executor):
    follow(name, executor, steps=20)


@pytest.mark.slow  # a schedule does not ask which optimizer it serves: below is each with one
@pytest.mark.sweep(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["sgd", "rmsprop with all", "adamw"])
def test_scheduled_steps_equal_those_of_pytorch(name, schedule):
    follow(name, "reference", schedule)


@pytest.mark.exhaustive  # clipped and scheduled below
@EVERY
def test_clipped_steps_equal_those_of_pytorch(name):
    follow(name, "reference", clips=True)


@pytest.mark.sweep(5)
@EVERY
def test_clipped_and_scheduled_steps_equal_those_of_pytorch(name):
    follow(name, "native", "cosine", clips=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rates_equal_those_of_pytorch(schedule):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.3)
    scheduler = SCHEDULERS[schedule](optimizer)
    rates = []
    for _ in range(STEPS):
        rates += scheduler.get_last_lr()
        optimizer.step()
        scheduler.step()

    def minus_w(w=0.0):
        J = -w
        return J

    step = cr.training_step(minus_w, wrt="w", optimizer=cr.sgd(SCHEDULES[schedule](0.3)))
    state = step.init(w=np.zeros(()))
    ours = []
    for _ in range(STEPS):
        ours.append(step.run(state, keep=["learning_rate"])["learning_rate"])
        step(state)
    np.testing.assert_allclose(ours, rates, rtol=1e-12)
