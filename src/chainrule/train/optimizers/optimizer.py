"""An `Optimizer` describes how parameters are updated: its scalars, its arrays, a rule on nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.errors import InputError
from chainrule.primitives.arithmetic import multiply
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.value import Value
from chainrule.train.optimizers.schedule import Schedule

Named = Mapping[str, Any]  # of Values, as are all arguments and results of its functions
UpdateRule = Callable[[Any, Any, Named, Named], tuple[Any, Named]]
Factors = Callable[[Named, Named], tuple[Named, Named]]
Measures = Callable[[Named, Named], Named]


@dataclass(frozen=True)
class StateArray:
    """An array that an optimizer keeps from step to step; it begins as `initial` everywhere.

    In `Optimizer.arrays` there is one for each parameter, of its dtype (float32 for a parameter of
    float16) and its shape (`scalar`: the shape ()).  In `Optimizer.shared` there is one for all
    parameters together, float64[].
    """

    name: str
    initial: float = 0.0
    scalar: bool = False


STEPS = StateArray("steps")  # among `shared`: the number of steps taken, which schedules read too


@dataclass(frozen=True)
class Optimizer:
    """What a training step has to know of an optimizer.

    `scalars` are its hyperparameters with their defaults: each becomes one input of the graph.  In
    place of a default there may be a `Schedule`: the scalar is then computed from the number of
    steps, and the numbers of the schedule become inputs (`learning_rate_base`).
    `arrays` are what it keeps for each parameter, `shared` what it keeps once: beside a schedule,
    one called `steps` has to be the number of steps.

    `rule(parameter, gradient, scalars, arrays)` returns the next parameter and, by name, the next
    of each array; all are nodes of one dtype: that of the parameter, or float32 where that is
    float16.  The scalars are 0-d (`scaled` multiplies an array by one).

    `measures(gradients, scalars)` is what is computed once a step from the gradients of all
    parameters, which it is given by the parameters' names: it returns 0-d values of float64 that
    the rule and `factors` find among their scalars.

    `factors(scalars, shared)` is what is computed once a step, for all parameters: it returns 0-d
    values that the rule finds among its scalars, and the next of each shared array.  All are
    float64, so that 1 - 0.999 keeps its digits.  What measures and factors return gets its name in
    the graph.

    `checks` has, for a scalar, a function that raises InputError where a number cannot be that
    scalar; without one it can be every finite number.
    """

    name: str
    scalars: tuple[tuple[str, float | Schedule], ...]
    rule: UpdateRule = field(repr=False)
    arrays: tuple[StateArray, ...] = ()
    shared: tuple[StateArray, ...] = ()
    factors: Factors | None = field(default=None, repr=False)
    checks: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    measures: Measures | None = field(default=None, repr=False)

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The scalars that follow a schedule."""
        return {name: value for name, value in self.scalars if isinstance(value, Schedule)}

    @property
    def numbers(self) -> dict[str, float]:
        """All that a step may be given, with its default: scalars, and the numbers of schedules."""
        found: dict[str, float] = {}
        for name, value in self.scalars:
            if isinstance(value, Schedule):
                found |= {number_of(name, inner): default for inner, default in value.scalars}
            else:
                found[name] = value
        return found

    def check(self, number: str, value: Any) -> None:
        """InputError where a step is given `value` for one of `numbers` that cannot be so."""
        check = self._check_of(number)
        try:
            if check is not None:
                check(value)
            elif math.isnan(finite(value)):
                raise InputError(f"{number} of {self.name} is a finite number, got {value!r}")
        except InputError as error:
            if error.hint:
                raise
            hint = f"step(state, ..., {number}={self.numbers[number]:g})"
            raise InputError(error.what, where=error.where, hint=hint) from None

    def _check_of(self, number: str) -> Callable[[Any], Any] | None:
        if number in self.checks:
            return self.checks[number]
        for name, schedule in self.schedules.items():
            for inner, check in schedule.checks.items():
                if number_of(name, inner) == number:
                    return check
        return None


def number_of(scalar: str, inner: str) -> str:
    """The name of a schedule's number: `learning_rate_base`."""
    return f"{scalar}_{inner}"


def finite(value: Any) -> float:
    """The value as a float; NaN where it is no finite real number."""
    if type(value) is float:  # as most are, in every step of a schedule
        return value if math.isfinite(value) else math.nan
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return math.nan
    try:
        number = float(value) if not np.ndim(value) else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def scaled(scalar: Value, array: Value) -> Value:
    """The 0-d `scalar` times every element of `array`."""
    return multiply(spread(scalar, array), array)


def spread(scalar: Value, array: Value) -> Value:
    """The 0-d `scalar` in the shape of `array`."""
    shape = array.type.shape
    return broadcast_to(scalar, shape=shape) if shape else scalar
