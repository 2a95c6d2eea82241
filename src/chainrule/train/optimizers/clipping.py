"""`clip_by_global_norm`: an optimizer whose gradients are clipped to a norm."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.primitives.arithmetic import minimum, sqrt
from chainrule.primitives.logic import cast
from chainrule.primitives.reduce import sum_
from chainrule.primitives.value import Value, like
from chainrule.tracebacks import entry
from chainrule.train.optimizers.hyperparameters import CHECKS, rate
from chainrule.train.optimizers.optimizer import Named, Optimizer, scaled
from chainrule.train.optimizers.schedule import Schedule

EPS = 1e-6  # PyTorch's: a norm of 0 divides by no zero


@entry
def clip_by_global_norm(optimizer: Optimizer, max_norm: float | Schedule) -> Optimizer:
    """Makes the optimizer scale gradients down if their norm exceeds `max_norm`.

    The norm is that of the gradients of all parameters, seen as one vector (Pascanu, Mikolov and
    Bengio, 2013, section 3.2): a value of the graph, `gradient_norm`, summed in float64.  Every
    gradient is multiplied by `clip_factor`, the smaller of 1 and max_norm / (gradient_norm + 1e-6),
    before the optimizer sees it (also before its weight decay); as
    `torch.nn.utils.clip_grad_norm_` with `error_if_nonfinite=False`: a norm that is infinite makes
    finite gradients 0 and infinite ones NaN, and one that is NaN makes all of them NaN.

    `max_norm` is a default, as other numbers of an optimizer: a step takes another by name.  Raises
    InputError where it is negative or not finite, and for an optimizer that clips already.
    """
    if not isinstance(optimizer, Optimizer):
        raise InputError(
            f"cr.clip_by_global_norm clips for an optimizer, got {type(optimizer).__name__}",
            hint="cr.clip_by_global_norm(cr.sgd(0.1), max_norm=1.0)",
        )
    numbers = dict(optimizer.scalars)
    if "max_norm" in numbers:
        raise InputError(
            f"{optimizer.name} has a max_norm already: {numbers['max_norm']}",
            hint="clip once, with the smaller of the two norms",
        )
    largest = rate(
        max_norm, "cr.clip_by_global_norm(cr.sgd(0.1), max_norm=1.0)", what="a largest norm"
    )
    return replace(
        optimizer,
        scalars=(*optimizer.scalars, ("max_norm", largest)),
        rule=_clipped(optimizer),
        measures=_with_norm(optimizer),
        checks={**optimizer.checks, "max_norm": CHECKS["max_norm"]},
    )


def _clipped(optimizer: Optimizer) -> Any:
    @functools.wraps(optimizer.rule)
    def rule(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Any:
        return optimizer.rule(parameter, scaled(scalars["clip_factor"], gradient), scalars, arrays)

    return rule


def _with_norm(optimizer: Optimizer) -> Any:
    def measures(gradients: Named, scalars: Named) -> Named:
        norm = sqrt(functools.reduce(Value.__add__, map(_squares, gradients.values())))
        factor = minimum(scalars["max_norm"] / (norm + EPS), like(1.0, norm))
        found = {"gradient_norm": norm, "clip_factor": factor}
        if optimizer.measures is None:
            return found
        clipped = {n: scaled(_in(factor, g.dtype), g) for n, g in gradients.items()}
        return {**found, **optimizer.measures(clipped, {**scalars, **found})}

    return measures


def _squares(gradient: Value) -> Value:
    """The sum of squares, in float64: in float32 it overflows from a norm of 2e19 on."""
    wide = _in(gradient, np.dtype(np.float64))
    squares = wide * wide
    return sum_(squares, axes=tuple(range(wide.ndim))) if wide.ndim else squares


def _in(value: Value, dtype: np.dtype) -> Value:
    return value if value.dtype == dtype else cast(value, dtype=dtype, weak=False)
