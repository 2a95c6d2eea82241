"""An `Optimizer` says how parameters are updated: its scalars, its arrays, and a rule on nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chainrule.errors import InputError
from chainrule.primitives.arithmetic import multiply
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.value import Value

Named = Mapping[str, Any]  # of Values, as are all arguments and results of a rule
UpdateRule = Callable[[Any, Any, Named, Named], tuple[Any, Named]]


@dataclass(frozen=True)
class StateArray:
    """An array that an optimizer keeps for each parameter, beside it.

    It has the parameter's dtype and shape (`scalar`: the shape ()), and begins as `initial`
    everywhere.
    """

    name: str
    initial: float = 0.0
    scalar: bool = False


@dataclass(frozen=True)
class Optimizer:
    """What a training step has to know of an optimizer.

    `scalars` are its hyperparameters with their defaults: each becomes one input of the graph.
    `arrays` are what it keeps for each parameter.  `rule(parameter, gradient, scalars, arrays)`
    returns the next parameter and, by name, the next of each array; all are nodes, the scalars
    0-d and of the parameter's dtype (`scaled` multiplies an array by one).
    """

    name: str
    scalars: tuple[tuple[str, float], ...]
    rule: UpdateRule = field(repr=False)
    arrays: tuple[StateArray, ...] = ()


def scaled(scalar: Value, array: Value) -> Value:
    """The 0-d `scalar` times every element of `array`."""
    shape = array.type.shape
    return multiply(broadcast_to(scalar, shape=shape) if shape else scalar, array)


def sgd(learning_rate: float) -> Optimizer:
    """Stochastic gradient descent: W becomes W - learning_rate · dJ/dW.

    The number is a default; a step takes another one as `learning_rate=`.  Raises InputError
    where it is negative or not finite.
    """
    return Optimizer("sgd", (("learning_rate", _rate(learning_rate)),), _descend)


def _descend(
    parameter: Value, gradient: Value, scalars: Named, arrays: Named
) -> tuple[Value, Named]:
    return parameter - scaled(scalars["learning_rate"], gradient), {}


def _rate(value: Any) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if isinstance(value, (bool, str)) or not (math.isfinite(rate) and rate >= 0):
        raise InputError(
            f"a learning rate is a finite number of at least 0, got {value!r}",
            hint="cr.sgd(0.1)",
        )
    return rate
