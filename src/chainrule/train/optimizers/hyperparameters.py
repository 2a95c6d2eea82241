"""Checks hyperparameters: when an optimizer is made, and in every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from chainrule.errors import InputError
from chainrule.train.optimizers.optimizer import finite
from chainrule.train.optimizers.schedule import Schedule

Check = Callable[[str, Any, str], float]  # of what it is, the value given, and what to try


def from_zero(what: str, value: Any, hint: str) -> float:
    """The value as a float; InputError where it is no finite number of at least 0."""
    number = finite(value)
    if not number >= 0:
        raise InputError(f"{what} is a finite number of at least 0, got {value!r}", hint=hint)
    return number


def below_one(what: str, value: Any, hint: str) -> float:
    """The value as a float; InputError where it is not in [0, 1)."""
    number = finite(value)
    if not 0 <= number < 1:
        raise InputError(
            f"{what} is a number of at least 0 and less than 1, got {value!r}", hint=hint
        )
    return number


def from_one(what: str, value: Any, hint: str) -> float:
    """The value as a float; InputError where it is no finite number of at least 1."""
    number = finite(value)
    if not number >= 1:
        raise InputError(f"{what} is a finite number of at least 1, got {value!r}", hint=hint)
    return number


def rate(value: Any, hint: str, what: str = "a learning rate") -> Any:
    """A number from 0, or a schedule as it is; InputError for anything else."""
    if isinstance(value, Schedule):
        return value
    if callable(value):
        raise InputError(
            f"{what} is a number or a schedule, got the function "
            f"{getattr(value, '__name__', repr(value))}",
            hint="cr.schedules.cosine(0.1, steps=1000, warmup=100), or a rule on nodes of your "
            "own:\ncr.schedules.Schedule(name, scalars, rule)",
        )
    return from_zero(what, value, hint)


def pair(betas: Any, name: str) -> tuple[Any, Any]:
    """Both betas; InputError where there are not two."""
    try:
        beta1, beta2 = betas
    except (TypeError, ValueError):
        raise InputError(
            f"betas is a pair of numbers, beta1 and beta2, got {betas!r}",
            hint=f"cr.{name}(betas=(0.9, 0.999))",
        ) from None
    return beta1, beta2


def given(check: Check, what: str) -> Callable[[Any], float]:
    """The check of what a step is given: of the value alone."""
    return partial(_checked, check, what)


def _checked(check: Check, what: str, value: Any) -> float:
    return check(what, value, "")


# What a step may be given in place of an optimizer's defaults.
CHECKS: Mapping[str, Callable[[Any], float]] = {
    "learning_rate": given(from_zero, "a learning rate"),
    "momentum": given(from_zero, "a momentum"),
    "weight_decay": given(from_zero, "a weight decay"),
    "beta1": given(below_one, "beta1"),
    "beta2": given(below_one, "beta2"),
    "alpha": given(below_one, "alpha"),
    "eps": given(from_zero, "eps"),
    "max_norm": given(from_zero, "a largest norm"),
}
