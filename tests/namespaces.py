"""NumPy, chainrule, autograd and PyTorch behind the same names, for the programs of `programs`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from programs import Program

import chainrule as cr

_COMPOSITES = dict(
    softmax=cr.softmax,
    log_softmax=cr.log_softmax,
    logsumexp=cr.logsumexp,
    relu=cr.relu,
    softplus=cr.softplus,
    sigmoid=cr.sigmoid,
    erf=cr.erf,
    gelu=cr.gelu,
    reverse=lambda x: x[::-1],
)
_NUMPY = {name: getattr(np, name) for name in np.__all__}
traced = SimpleNamespace(**_NUMPY | _COMPOSITES)
plain = traced  # the same functions on arrays are NumPy


def with_gradients(program: Program, seed: int) -> tuple[cr.Graph, dict[str, Any]]:
    """The program's graph with all its gradients, and arguments for it."""
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    forward = cr.trace(program.function(traced), **arguments)
    return cr.backward(forward, wrt=program.parameters), arguments


def kink_distance(program: Program, arguments: list[np.ndarray]) -> float:
    """How far the nearest operand of a maximum, comparison, ... is from where derivatives jump."""
    nearest = [np.inf]

    def note(difference: Any) -> None:
        nearest.append(np.min(np.abs(difference), initial=np.inf))

    def compared(function: Any) -> Any:
        def call(x: Any, y: Any) -> Any:
            note(np.subtract(x, y))
            return function(x, y)

        return call

    def alone(function: Any) -> Any:
        def call(x: Any) -> Any:
            note(x)
            return function(x)

        return call

    def folded(function: Any) -> Any:
        def call(x: Any, axis: Any, keepdims: bool) -> Any:
            extreme = function(x, axis=axis, keepdims=True)
            away = np.sort(np.abs(np.subtract(x, extreme)).reshape(-1))
            winners = extreme.size
            note(away[winners : winners + 1])
            return function(x, axis=axis, keepdims=keepdims)

        return call

    def clip(x: Any, low: float, high: float) -> Any:
        note(x - low)
        note(x - high)
        return np.clip(x, low, high)

    wary = dict(
        maximum=compared(np.maximum),
        minimum=compared(np.minimum),
        greater=compared(np.greater),
        abs=alone(np.abs),
        sign=alone(np.sign),
        relu=alone(cr.relu),
        max=folded(np.max),
        min=folded(np.min),
        clip=clip,
    )
    program.function(SimpleNamespace(**vars(traced) | wary))(*arguments)
    return float(min(nearest))


def autograd_namespace() -> SimpleNamespace:
    """autograd's NumPy, with the composites written out as formulas."""
    import autograd.numpy as anp
    import autograd.scipy.special as special

    def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
        if np.ndim(x) == 0:  # fails there
            return 1.0 * x
        return special.logsumexp(x, axis=axis, keepdims=keepdims)

    names = {name: getattr(anp, name) for name in np.__all__ if hasattr(anp, name)}
    return SimpleNamespace(
        **names
        | dict(
            softmax=lambda x, axis: anp.exp(x - logsumexp(x, axis, True)),
            log_softmax=lambda x, axis: x - logsumexp(x, axis, True),
            logsumexp=logsumexp,
            relu=lambda x: anp.maximum(x, 0.0),
            softplus=lambda x: anp.logaddexp(x, 0.0),
            sigmoid=lambda x: 1 / (1 + anp.exp(-x)),
            erf=special.erf,
            gelu=lambda x: x * 0.5 * (1 + special.erf(x / anp.sqrt(2.0))),
            square=lambda x: x * x,
            where=lambda mask, x, y: mask * x + (1 - mask) * y,  # its own forgets to unbroadcast
            broadcast_to=lambda x, shape: x + np.zeros(shape),
            pad=lambda x, pairs: anp.pad(x, pairs, "constant"),
            reverse=lambda x: x[::-1],
        )
    )


def torch_namespace() -> SimpleNamespace:
    """PyTorch behind NumPy's names and arguments."""
    import torch
    from torch.nn import functional

    def number(x: Any) -> Any:
        return x if isinstance(x, torch.Tensor) else torch.tensor(float(x), dtype=torch.float64)

    def fold(function: Any) -> Any:
        def call(x: Any, axis: Any, keepdims: bool = False) -> Any:
            axes = tuple(range(x.ndim)) if axis is None else axis
            return x.clone() if axes == () else function(x, dim=axes, keepdim=keepdims)

        return call

    def pad(x: Any, pairs: Any) -> Any:
        return functional.pad(x, [width for pair in pairs[::-1] for width in pair])

    mean = fold(torch.mean)
    names = "tanh sin cos exp log1p sqrt log abs expm1 sign square reciprocal where softmax"
    names += " log_softmax relu sigmoid erf logaddexp einsum broadcast_to"
    return SimpleNamespace(
        **{name: getattr(torch, name) for name in names.split()},
        array=lambda values: torch.tensor(values),
        softplus=lambda x: torch.logaddexp(x, torch.zeros_like(x)),
        gelu=functional.gelu,
        maximum=lambda x, y: torch.maximum(number(x), number(y)),
        minimum=lambda x, y: torch.minimum(number(x), number(y)),
        greater=lambda x, y: torch.gt(x, number(y)),
        clip=torch.clamp,
        power=torch.pow,
        sum=lambda x, axis=None, keepdims=False: fold(torch.sum)(x, axis, keepdims),
        mean=mean,
        max=fold(torch.amax),
        min=fold(torch.amin),
        var=lambda x, axis, keepdims: mean((x - mean(x, axis, True)) ** 2, axis, keepdims),
        logsumexp=fold(torch.logsumexp),
        shape=lambda x: tuple(x.shape),
        reshape=torch.reshape,
        transpose=torch.permute,
        concatenate=lambda arrays, axis: torch.cat(arrays, dim=axis),
        stack=lambda arrays, axis: torch.stack(arrays, dim=axis),
        pad=pad,
        reverse=lambda x: torch.flip(x, (0,)),
    )
