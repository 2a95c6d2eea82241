"""Learning-rate schedules: `constant`, `step`, `piecewise` and `cosine`.

Each takes the place of a number: `cr.sgd(learning_rate=cr.schedules.cosine(0.1, steps=1000))`.  The
rate is then computed in the graph of the training step, from a counter of steps that lives in the
state, so that no Python is called for it.  In the formulas t is the number of steps taken before
this one: 0 in the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.primitives.arithmetic import cos, maximum, minimum, power
from chainrule.primitives.logic import cast, greater_equal, less, where
from chainrule.primitives.value import Value, like
from chainrule.tracebacks import entry
from chainrule.train.optimizers.hyperparameters import from_one, from_zero, given
from chainrule.train.optimizers.optimizer import Named
from chainrule.train.optimizers.schedule import Schedule

__all__ = ["Schedule", "constant", "cosine", "piecewise", "step"]


@entry
def constant(rate: float) -> float:
    """A constant rate as a float: a number needs no schedule, and a step takes others by name.

    Raises InputError where it is negative or not finite.
    """
    return from_zero("a learning rate", rate, "cr.schedules.constant(0.1)")


@entry
def step(rate: float, every: float, factor: float = 0.1) -> Schedule:
    """rate · factor^floor(t / every): after each `every` steps the rate is multiplied by `factor`.

    As `torch.optim.lr_scheduler.StepLR` with `step_size=every, gamma=factor`, stepped after every
    training step.  The numbers are inputs of the graph (`learning_rate_base`,
    `learning_rate_every`, `learning_rate_factor`).  Raises InputError where `every` is less than 1
    or another number is negative, or one is not finite.
    """
    example = "cr.schedules.step(0.1, every=30, factor=0.1)"
    scalars = (
        ("base", from_zero("a learning rate", rate, example)),
        ("every", from_one("every", every, example)),
        ("factor", from_zero("a factor", factor, example)),
    )
    return Schedule("step", scalars, _step, _CHECKS)


@entry
def piecewise(rate: float, boundaries: Iterable[float], factor: float = 0.1) -> Schedule:
    """rate · factor^k, where k is the number of boundaries that are at most t.

    As `torch.optim.lr_scheduler.MultiStepLR` with `milestones=boundaries, gamma=factor`.  The
    numbers are inputs of the graph (`learning_rate_base`, `learning_rate_factor`,
    `learning_rate_boundary0`, `learning_rate_boundary1`, ...).  Raises InputError where boundaries
    are no numbers from 0, each more than the one before, or another number is negative or not
    finite.
    """
    example = "cr.schedules.piecewise(0.1, boundaries=(100, 200), factor=0.1)"
    scalars = (
        ("base", from_zero("a learning rate", rate, example)),
        ("factor", from_zero("a factor", factor, example)),
        *((f"boundary{i}", b) for i, b in enumerate(_increasing(boundaries, example))),
    )
    return Schedule("piecewise", scalars, _piecewise, _CHECKS)


@entry
def cosine(rate: float, steps: float, warmup: float = 0, floor: float = 0.0) -> Schedule:
    """Half a cosine from `rate` down to `floor`, after a linear warm-up from 0.

    `steps` counts the warm-up in.  For t < warmup the rate is rate · t / warmup (Goyal et al.,
    2017, section 2.2; so a warm-up's first step has the rate 0).  After it,
    floor + (rate - floor) · (1 + cos(π · p)) / 2 with p = (t - warmup) / (steps - warmup)
    (Loshchilov and Hutter, 2017, equation 5, without restarts); from t = steps on it is `floor`.
    The same as `optax.warmup_cosine_decay_schedule(0, rate, warmup, steps, floor)`.

    The numbers are inputs of the graph (`learning_rate_base`, `learning_rate_steps`,
    `learning_rate_warmup`, `learning_rate_floor`).  Raises InputError where one is negative or not
    finite, `steps` is less than 1 or than `warmup`, or `floor` more than `rate`.
    """
    example = "cr.schedules.cosine(0.1, steps=1000, warmup=100, floor=0.001)"
    scalars = {
        "base": from_zero("a learning rate", rate, example),
        "steps": from_one("steps", steps, example),
        "warmup": from_zero("a warm-up", warmup, example),
        "floor": from_zero("a floor", floor, example),
    }
    if scalars["warmup"] > scalars["steps"]:
        raise InputError(
            f"steps includes the warm-up: got warmup={warmup!r} of steps={steps!r}", hint=example
        )
    if scalars["floor"] > scalars["base"]:
        raise InputError(
            f"a cosine decreases: got floor={floor!r} above rate={rate!r}", hint=example
        )
    return Schedule("cosine", tuple(scalars.items()), _cosine, _CHECKS)


# Rules ----------------------------------------------------------------------------------------


def _step(steps: Value, scalars: Named) -> Value:
    stages = cast(steps / scalars["every"], dtype=np.dtype(np.int64), weak=False)  # rounds down
    return scalars["base"] * power(scalars["factor"], _float(stages))


def _piecewise(steps: Value, scalars: Named) -> Value:
    boundaries = [node for name, node in scalars.items() if name.startswith("boundary")]
    passed = reduce(Value.__add__, [_float(greater_equal(steps, node)) for node in boundaries])
    return scalars["base"] * power(scalars["factor"], passed)


def _cosine(steps: Value, scalars: Named) -> Value:
    base, warmup, floor = scalars["base"], scalars["warmup"], scalars["floor"]
    one = like(1, steps)
    # Both divisors are at least 1: no warm-up, or nothing but warm-up, divides by no zero.
    rising = base * (steps / maximum(warmup, one))
    done = minimum((steps - warmup) / maximum(scalars["steps"] - warmup, one), one)
    falling = floor + (base - floor) * ((1 + cos(math.pi * done)) / 2)
    return where(less(steps, warmup), rising, falling)


def _float(node: Value) -> Value:
    return cast(node, dtype=np.dtype(np.float64), weak=False)


# Numbers --------------------------------------------------------------------------------------


def _increasing(boundaries: Any, example: str) -> list[float]:
    try:
        given_ = list(boundaries)
    except TypeError:
        raise InputError(
            f"boundaries are numbers of steps, got {boundaries!r}", hint=example
        ) from None
    numbers = [from_zero("a boundary", boundary, example) for boundary in given_]
    if not numbers or any(a >= b for a, b in pairwise(numbers)):
        raise InputError(
            f"boundaries are numbers of steps, each more than the one before, got {given_!r}",
            hint=example,
        )
    return numbers


# What a step may be given in place of a schedule's defaults.
_CHECKS = {
    "base": given(from_zero, "a learning rate"),
    "every": given(from_one, "every"),
    "factor": given(from_zero, "a factor"),
    "steps": given(from_one, "steps"),
    "warmup": given(from_zero, "a warm-up"),
    "floor": given(from_zero, "a floor"),
}
