"""Variables of a derivative that is being taken survive the simplification of an inner one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X, V = np.array([1.0, 2.0]), np.array([0.3, -0.4])


def along(v: Any) -> Any:
    return cr.jvp(lambda p: np.sum(np.sin(p)), (X,), (v,))[1]


def along_itself(v: Any) -> Any:
    return np.sum(np.tanh(cr.jvp(lambda p: p, (X,), (v,))[1]))


def along_a_product(v: Any) -> Any:
    return np.sum(cr.jvp(lambda p: p**3, (X,), (v * v,))[1])


def pulled_back(v: Any) -> Any:
    return np.sum(np.sin(cr.vjp(lambda p: p * p, v)[1](v)[0]))


def seeded(v: Any) -> Any:
    w = cr.array([1.5, v[0] * v[1]])
    return np.sum(np.tanh(cr.vjp(lambda p: 2.0 * p, w)[1](v)[0]))


def second(v: Any) -> Any:
    def slope(w: Any) -> Any:
        return np.sum(cr.jvp(lambda p: p**3, (X,), (w,))[1] ** 2)

    return np.sum(cr.grad(slope)(v))


@pytest.mark.parametrize("f", [along, along_itself, along_a_product, pulled_back, seeded, second])
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_derivatives_by_directions_and_seeds(f: Callable[..., Any], executor: str) -> None:
    graph, h = cr.trace(f, V), 1e-6

    def value(v: np.ndarray) -> Any:
        return graph.run({graph.inputs[0].name: v}).outputs

    expected = [(value(V + h * e) - value(V - h * e)) / (2 * h) for e in np.eye(2)]
    assert np.all(np.abs(expected) > 1e-3)
    found = cr.grad(f, executor=executor)(V)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    for place, e in enumerate(np.eye(2)):
        forward = cr.jvp(f, (V,), (e,), executor=executor)[1]
        np.testing.assert_allclose(forward, found[place], rtol=1e-12)


def test_two_variables_of_one_value_stay_two() -> None:
    def product(a: Any, b: Any) -> Any:
        return np.sum(cr.jvp(lambda p: p * p, (X,), (a * a * b,))[1])

    def both(v: Any) -> Any:
        first, last = cr.grad(product, wrt=(0, 1))(v, v)
        return first - 10 * last

    factor = 2 * X * V * V
    np.testing.assert_allclose(cr.vmap(both)(V[None])[0], 2 * factor - 10 * factor, rtol=1e-12)
