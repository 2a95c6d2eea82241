"""ONNX's optimizers (ai.onnx.preview.training): parameters, gradients, state in; new ones out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call


def _parts(call: Call, given: Sequence[Any], kinds: int) -> list[tuple[Any, ...]]:
    """The arrays of each parameter: itself, its gradient, its state."""
    count, rest = divmod(len(given), kinds)
    if rest:
        call.refuse(f"{len(given)} arrays, which are not {kinds} for each parameter")
    return [tuple(given[kind * count + one] for kind in range(kinds)) for one in range(count)]


def _in_order(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(one for kind in zip(*results, strict=True) for one in kind)


def adam(call: Call, rate: Any, step: Any, *given: Any) -> tuple[Any, ...]:
    alpha, beta = call.get("alpha", 0.9), call.get("beta", 0.999)
    results = []
    number = step.astype(rate.dtype)
    adjusted = rate * np.sqrt(1 - beta**number) / (1 - alpha**number)
    rate = np.where(step > 0, adjusted, rate)
    for x, g, v, h in _parts(call, given, 4):
        g = g + call.get("norm_coefficient", 0.0) * x
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        new = x - rate * v / (np.sqrt(h) + call.get("epsilon", 1e-6))
        results.append(((1 - call.get("norm_coefficient_post", 0.0)) * new, v, h))
    return _in_order(results)


def adagrad(call: Call, rate: Any, step: Any, *given: Any) -> tuple[Any, ...]:
    results = []
    rate = rate / (1 + step.astype(rate.dtype) * call.get("decay_factor", 0.0))
    for x, g, h in _parts(call, given, 3):
        g = g + call.get("norm_coefficient", 0.0) * x
        h = h + g * g
        results.append((x - rate * g / (np.sqrt(h) + call.get("epsilon", 1e-6)), h))
    return _in_order(results)


def momentum(call: Call, rate: Any, step: Any, *given: Any) -> tuple[Any, ...]:
    results = []
    alpha = call.get("alpha")
    beta = np.where(step > 0, call.get("beta"), 1.0).astype(rate.dtype)
    for x, g, v in _parts(call, given, 3):
        g = g + call.get("norm_coefficient") * x
        v = alpha * v + beta * g
        way = g + alpha * v if call.get("mode") == "nesterov" else v
        results.append((x - rate * way, v))
    return _in_order(results)


UPDATES: dict[str, Callable[..., Any]] = {
    "Adagrad": adagrad,
    "Adam": adam,
    "Momentum": momentum,
}
