"""`sgd`, `rmsprop`, `adam` and `adamw`: the formulas of PyTorch's optimizers, as nodes."""

from __future__ import annotations

from typing import Any

from chainrule.errors import InputError
from chainrule.primitives.arithmetic import maximum, power, sqrt
from chainrule.primitives.value import Value, like
from chainrule.tracebacks import entry
from chainrule.train.optimizers.hyperparameters import CHECKS, below_one, from_zero, pair, rate
from chainrule.train.optimizers.optimizer import (
    STEPS,
    Named,
    Optimizer,
    StateArray,
    UpdateRule,
    scaled,
    spread,
)
from chainrule.train.optimizers.schedule import Schedule

Updated = tuple[Value, Named]


@entry
def sgd(
    learning_rate: float | Schedule,
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
    decay of 0 is left out of the graph.  The learning rate may be a schedule (`cr.schedules`), and
    is then computed in every step.  Raises InputError where a number is negative or not finite,
    and for `nesterov` without momentum.
    """
    momentum = from_zero("a momentum", momentum, "cr.sgd(0.1, momentum=0.9)")
    if nesterov and not momentum:
        raise InputError(
            f"nesterov=True looks ahead along a momentum, got momentum={momentum:g}",
            hint="cr.sgd(0.1, momentum=0.9, nesterov=True)",
        )
    scalars = {
        "learning_rate": rate(learning_rate, "cr.sgd(0.1)"),
        "momentum": momentum,
        "weight_decay": from_zero("a weight decay", weight_decay, "cr.sgd(0.1, weight_decay=1e-4)"),
    }
    rule = _descend_ahead if nesterov else _descend_with_momentum if momentum else _descend
    arrays = (StateArray("velocity"),) if momentum else ()
    return Optimizer("sgd", _used(scalars), rule, arrays, checks=CHECKS)


@entry
def rmsprop(
    learning_rate: float | Schedule = 0.01,
    alpha: float = 0.99,
    eps: float = 1e-8,
    *,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """RMSprop (Tieleman and Hinton, 2012, lecture 6.5): g over the root of its mean square.

    With g = dJ/dW (with weight decay, dJ/dW + weight_decay · W), v is the running mean of the
    square, v = alpha · v + (1 - alpha) · g² (`W_v`); W becomes
    W - learning_rate · g / (sqrt(v) + eps).  With `centered`, the running mean m of g (`W_m`) is
    taken out: v - m² takes the place of v under the root (Graves, 2013, equations 38 to 45).  With
    momentum, W follows a velocity, momentum · velocity + g / (sqrt(v) + eps) (`W_velocity`).  The
    means begin at 0 and are not freed from it; as `torch.optim.RMSprop`.

    The rest is as for `sgd`; alpha is from 0 up to 1.
    """
    momentum = from_zero("a momentum", momentum, "cr.rmsprop(momentum=0.9)")
    scalars = {
        "learning_rate": rate(learning_rate, "cr.rmsprop(0.01)"),
        "alpha": below_one("alpha", alpha, "cr.rmsprop(alpha=0.99)"),
        "eps": from_zero("eps", eps, "cr.rmsprop(eps=1e-8)"),
        "momentum": momentum,
        "weight_decay": from_zero("a weight decay", weight_decay, "cr.rmsprop(weight_decay=1e-4)"),
    }
    kept = ["v", *(["m"] if centered else []), *(["velocity"] if momentum else [])]
    return Optimizer(
        "rmsprop",
        _used(scalars),
        _divide_by_root,
        arrays=tuple(StateArray(name) for name in kept),
        factors=_rmsprop_factors,
        checks=CHECKS,
    )


@entry
def adam(
    learning_rate: float | Schedule = 1e-3,
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
    takes others by name.  A weight decay of 0 is left out of the graph.  The learning rate may be a
    schedule (`cr.schedules`).  Raises InputError where a number is not finite or out of range:
    betas from 0 up to 1, the others from 0.
    """
    decay = from_zero("a weight decay", weight_decay, "cr.adam(weight_decay=1e-2)")
    return _adaptive("adam", learning_rate, betas, eps, decay, _adapt)


@entry
def adamw(
    learning_rate: float | Schedule = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    weight_decay: float = 1e-2,
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019, algorithm 2).

    W is multiplied by 1 - learning_rate · weight_decay, and moves as with `adam`, whose m and v
    do not see the decay; as `torch.optim.AdamW`.  The rest is as for `adam`.
    """
    decay = from_zero("a weight decay", weight_decay, "cr.adamw(weight_decay=1e-2)")
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


def _divide_by_root(parameter: Value, gradient: Value, scalars: Named, arrays: Named) -> Updated:
    g = _decayed(parameter, gradient, scalars)
    after = {"v": _mean(arrays["v"], g * g, scalars)}
    square = after["v"]
    if "m" in arrays:
        after["m"] = _mean(arrays["m"], g, scalars)
        # A variance; of a constant gradient, rounding could leave it just below 0: no NaN from it.
        square = maximum(square - after["m"] * after["m"], like(0.0, square))
    move = g / (sqrt(square) + spread(scalars["eps"], square))
    if "velocity" in arrays:
        move = after["velocity"] = scaled(scalars["momentum"], arrays["velocity"]) + move
    return parameter - scaled(scalars["learning_rate"], move), after


def _mean(before: Value, value: Value, scalars: Named) -> Value:
    """The running mean, with the new value in it."""
    return scaled(scalars["alpha"], before) + scaled(scalars["one_minus_alpha"], value)


def _rmsprop_factors(scalars: Named, shared: Named) -> tuple[Named, Named]:
    return {"one_minus_alpha": 1 - scalars["alpha"]}, {}


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
    beta1, beta2 = pair(betas, name)
    scalars = {
        "learning_rate": rate(learning_rate, f"cr.{name}(1e-3)"),
        "beta1": below_one("beta1", beta1, f"cr.{name}(betas=(0.9, 0.999))"),
        "beta2": below_one("beta2", beta2, f"cr.{name}(betas=(0.9, 0.999))"),
        "eps": from_zero("eps", eps, f"cr.{name}(eps=1e-8)"),
        "weight_decay": weight_decay,
    }
    return Optimizer(
        name,
        _used(scalars),
        rule,
        arrays=(StateArray("m"), StateArray("v")),
        shared=(STEPS,),
        factors=_decaying_factors if rule is _adapt_and_decay else _adaptive_factors,
        checks=CHECKS,
    )


def _used(scalars: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The scalars, without momentum and weight decay where these are 0: no product with zero."""
    left_out = ("momentum", "weight_decay")
    return tuple((name, value) for name, value in scalars.items() if value or name not in left_out)


def no_optimizer(value: Any) -> InputError:
    """The error for `optimizer=` that is none: a name, a function that was not called, ..."""
    called = getattr(value, "__name__", value)
    example = {
        "sgd": "cr.sgd(learning_rate=0.1)",
        "rmsprop": "cr.rmsprop()",
        "adam": "cr.adam()",
        "adamw": "cr.adamw()",
    }
    hint = example.get(str(called).lower(), example["sgd"])
    if callable(value):
        return InputError(
            f"optimizer={called} is a function that makes one, and was not called",
            hint=f"optimizer={hint if called in example else f'{called}(...)'}",
        )
    return InputError(f"optimizer={value!r} is no optimizer", hint=f"optimizer={hint}")
