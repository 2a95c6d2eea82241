"""`sgd`, `adam` and `adamw`: the formulas of PyTorch's optimizers, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from chainrule.errors import InputError
from chainrule.primitives.arithmetic import power, sqrt
from chainrule.primitives.value import Value, like
from chainrule.train.calling import explained
from chainrule.train.optimizer import (
    Named,
    Optimizer,
    StateArray,
    UpdateRule,
    finite,
    scaled,
    spread,
)

Updated = tuple[Value, Named]


@explained
def sgd(
    learning_rate: float,
    momentum: float = 0.0,
    *,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Stochastic gradient descent: W becomes W - learning_rate · dJ/dW.

    With weight decay, g = dJ/dW + weight_decay · W takes the place of dJ/dW.  With momentum, W
    follows v = momentum · v + g, which begins as 0 (`W_velocity`); with `nesterov`,
    g + momentum · v (Sutskever et al., 2013, in the form of `torch.optim.SGD`, dampening 0).

    The numbers are defaults: a step takes others by name (`learning_rate=`).  A momentum or weight
    decay of 0 is left out of the graph.  Raises InputError where one is negative or not finite,
    and for `nesterov` without momentum.
    """
    momentum = _from_zero("a momentum", momentum, "cr.sgd(0.1, momentum=0.9)")
    if nesterov and not momentum:
        raise InputError(
            f"nesterov=True looks ahead along a momentum, got momentum={momentum:g}",
            hint="cr.sgd(0.1, momentum=0.9, nesterov=True)",
        )
    scalars = {
        "learning_rate": _from_zero("a learning rate", learning_rate, "cr.sgd(0.1)"),
        "momentum": momentum,
        "weight_decay": _from_zero(
            "a weight decay", weight_decay, "cr.sgd(0.1, weight_decay=1e-4)"
        ),
    }
    rule = _descend_ahead if nesterov else _descend_with_momentum if momentum else _descend
    arrays = (StateArray("velocity"),) if momentum else ()
    return Optimizer("sgd", _used(scalars), rule, arrays, checks=_CHECKS)


@explained
def adam(
    learning_rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adam (Kingma and Ba, 2015, algorithm 1): steps of about the learning rate in every element.

    m and v are running means of the gradient and its square (`W_m`, `W_v`), which the number of
    steps (`steps`, shared) frees from their beginning at 0; W becomes
    W - learning_rate · m / (1 - beta1^steps) / (sqrt(v / (1 - beta2^steps)) + eps).
    With weight decay, dJ/dW + weight_decay · W takes the place of dJ/dW, as in `torch.optim.Adam`.

    The numbers (`learning_rate`, `beta1`, `beta2`, `eps`, `weight_decay`) are defaults: a step
    takes others by name.  A weight decay of 0 is left out of the graph.  Raises InputError where
    one is not finite or out of range: betas from 0 up to 1, the others from 0.
    """
    decay = _from_zero("a weight decay", weight_decay, "cr.adam(weight_decay=1e-2)")
    return _adaptive("adam", learning_rate, betas, eps, decay, _adapt)


@explained
def adamw(
    learning_rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    weight_decay: float = 1e-2,
) -> Optimizer:
    """Adam with weight decay beside the gradient (Loshchilov and Hutter, 2019, algorithm 2).

    W is multiplied by 1 - learning_rate · weight_decay, and moves as with `adam`, whose m and v
    do not see the decay; as `torch.optim.AdamW`.  The rest is as for `adam`.
    """
    decay = _from_zero("a weight decay", weight_decay, "cr.adamw(weight_decay=1e-2)")
    rule = _adapt_and_decay if decay else _adapt
    return _adaptive("adamw", learning_rate, betas, eps, decay, rule)


# Rules ----------------------------------------------------------------------------------------


def _descend(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Updated:
    gradient = _decayed(parameter, gradient, scalars)
    return parameter - scaled(scalars["learning_rate"], gradient), {}


def _descend_with_momentum(
    parameter: Value, gradient: Value, scalars: Named, arrays: Named
) -> Updated:
    gradient = _decayed(parameter, gradient, scalars)
    velocity = scaled(scalars["momentum"], arrays["velocity"]) + gradient
    return parameter - scaled(scalars["learning_rate"], velocity), {"velocity": velocity}


def _descend_ahead(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Updated:
    gradient = _decayed(parameter, gradient, scalars)
    momentum = spread(scalars["momentum"], parameter)
    velocity = momentum * arrays["velocity"] + gradient
    ahead = gradient + momentum * velocity
    return parameter - scaled(scalars["learning_rate"], ahead), {"velocity": velocity}


def _decayed(parameter: Value, gradient: Value, scalars: Named) -> Value:
    """The gradient of the objective plus weight_decay/2 · the sum of squares."""
    if "weight_decay" not in scalars:
        return gradient
    return gradient + scaled(scalars["weight_decay"], parameter)


def _adapt(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Updated:
    change, after = _adapted(_decayed(parameter, gradient, scalars), scalars, arrays)
    return parameter - change, after


def _adapt_and_decay(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Updated:
    change, after = _adapted(gradient, scalars, arrays)
    return scaled(scalars["decay_factor"], parameter) - change, after


def _adapted(g: Value, scalars: Named, arrays: Named) -> Updated:
    """By how much the parameter moves, and the next m and v."""
    m = scaled(scalars["beta1"], arrays["m"]) + scaled(scalars["one_minus_beta1"], g)
    v = scaled(scalars["beta2"], arrays["v"]) + scaled(scalars["one_minus_beta2"], g * g)
    change = scaled(scalars["step_size"], m / (sqrt(v) + spread(scalars["eps_corrected"], v)))
    return change, {"m": m, "v": v}


def _adaptive_factors(scalars: Named, shared: Named) -> tuple[Named, Named]:
    """The corrections of the bias of m and v, moved out of the arrays into two scalars.

    With c1 and c2 the corrections, learning_rate · (m / c1) / (sqrt(v / c2) + eps) is
    step_size · m / (sqrt(v) + eps_corrected) (Kingma and Ba, end of section 2): two
    multiplications fewer for each element.
    """
    one = like(1, scalars["beta1"])
    steps = shared["steps"] + one
    first, second = one - power(scalars["beta1"], steps), one - power(scalars["beta2"], steps)
    root = sqrt(second)
    factors = {
        "bias_correction1": first,
        "bias_correction2": second,
        "step_size": scalars["learning_rate"] * root / first,
        "eps_corrected": scalars["eps"] * root,
        "one_minus_beta1": one - scalars["beta1"],
        "one_minus_beta2": one - scalars["beta2"],
    }
    return factors, {"steps": steps}


def _decaying_factors(scalars: Named, shared: Named) -> tuple[Named, Named]:
    factors, after = _adaptive_factors(scalars, shared)
    kept = 1 - scalars["learning_rate"] * scalars["weight_decay"]
    return {**factors, "decay_factor": kept}, after


# Hyperparameters ------------------------------------------------------------------------------


def _adaptive(
    name: str, learning_rate: Any, betas: Any, eps: Any, weight_decay: float, rule: UpdateRule
) -> Optimizer:
    beta1, beta2 = _pair(betas, name)
    scalars = {
        "learning_rate": _from_zero("a learning rate", learning_rate, f"cr.{name}(1e-3)"),
        "beta1": _below_one("beta1", beta1, f"cr.{name}(betas=(0.9, 0.999))"),
        "beta2": _below_one("beta2", beta2, f"cr.{name}(betas=(0.9, 0.999))"),
        "eps": _from_zero("eps", eps, f"cr.{name}(eps=1e-8)"),
        "weight_decay": weight_decay,
    }
    return Optimizer(
        name,
        _used(scalars),
        rule,
        arrays=(StateArray("m"), StateArray("v")),
        shared=(StateArray("steps"),),
        factors=_decaying_factors if rule is _adapt_and_decay else _adaptive_factors,
        checks=_CHECKS,
    )


def _used(scalars: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """The scalars, without momentum and weight decay where these are 0: no product with zero."""
    left_out = ("momentum", "weight_decay")
    return tuple((name, value) for name, value in scalars.items() if value or name not in left_out)


def _pair(betas: Any, name: str) -> tuple[Any, Any]:
    try:
        beta1, beta2 = betas
    except (TypeError, ValueError):
        raise InputError(
            f"betas is a pair of numbers, beta1 and beta2, got {betas!r}",
            hint=f"cr.{name}(betas=(0.9, 0.999))",
        ) from None
    return beta1, beta2


def _from_zero(what: str, value: Any, hint: str) -> float:
    number = finite(value)
    if not number >= 0:
        raise InputError(f"{what} is a finite number of at least 0, got {value!r}", hint=hint)
    return number


def _below_one(what: str, value: Any, hint: str) -> float:
    number = finite(value)
    if not 0 <= number < 1:
        raise InputError(
            f"{what} is a number of at least 0 and less than 1, got {value!r}", hint=hint
        )
    return number


def _given(check: Callable[[str, Any, str], float], what: str, example: str) -> Any:
    return partial(_checked, check, what, f"step(state, ..., {example})")


def _checked(check: Callable[[str, Any, str], float], what: str, hint: str, value: Any) -> float:
    return check(what, value, hint)


# What a step may be given in place of the defaults.
_CHECKS: Mapping[str, Callable[[Any], float]] = {
    "learning_rate": _given(_from_zero, "a learning rate", "learning_rate=0.1"),
    "momentum": _given(_from_zero, "a momentum", "momentum=0.9"),
    "weight_decay": _given(_from_zero, "a weight decay", "weight_decay=1e-4"),
    "beta1": _given(_below_one, "beta1", "beta1=0.9"),
    "beta2": _given(_below_one, "beta2", "beta2=0.999"),
    "eps": _given(_from_zero, "eps", "eps=1e-8"),
}


def no_optimizer(value: Any) -> InputError:
    """The error for `optimizer=` that is none: a name, a function that was not called, ..."""
    called = getattr(value, "__name__", value)
    example = {"sgd": "cr.sgd(learning_rate=0.1)", "adam": "cr.adam()", "adamw": "cr.adamw()"}
    hint = example.get(str(called).lower(), example["sgd"])
    if callable(value):
        return InputError(
            f"optimizer={called} is a function that makes one, and was not called",
            hint=f"optimizer={hint if called in example else f'{called}(...)'}",
        )
    return InputError(f"optimizer={value!r} is no optimizer", hint=f"optimizer={hint}")
