"""Compiled functions and derivatives inside each other: the numbers of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

RANDOM = np.random.default_rng(7)
X, V = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(4, 3))
W = RANDOM.normal(size=(3, 2))


def energy(x: Any, W: Any = W) -> Any:
    return np.sum(np.tanh(x @ W) ** 2) + np.sum(np.sin(x) * x)


def flat(value: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in cr.graph.structure.flatten(value)[0]]


def close(got: Any, wanted: Any) -> None:
    assert len(flat(got)) == len(flat(wanted))
    for one, other in zip(flat(got), flat(wanted), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


# Each takes an executor, and is a function of x.
DERIVATIVES: dict[str, Callable[[str | None], Callable[[Any], Any]]] = {
    "grad": lambda e: lambda x: cr.grad(energy, executor=e)(x),
    "grad of both": lambda e: lambda x: cr.grad(energy, wrt=("x", "W"), executor=e)(x, W),
    "value_and_grad": lambda e: lambda x: cr.value_and_grad(energy, executor=e)(x),
    "aux": lambda e: (
        lambda x: cr.value_and_grad(lambda x: (energy(x), [x * 2]), has_aux=True, executor=e)(x)
    ),
    "vjp": lambda e: lambda x: _pulled(cr.vjp(lambda x: np.exp(x @ W), x, executor=e)),
    "jvp": lambda e: lambda x: cr.jvp(energy, (x,), (V,), executor=e),
    "hvp": lambda e: lambda x: cr.hvp(energy, (x,), (V,), executor=e),
    "grad of grad": lambda e: (
        lambda x: cr.grad(lambda x: np.sum(cr.grad(energy, executor=e)(x) ** 2), executor=e)(x)
    ),
}


def _pulled(pair: Any) -> Any:
    value, pull = pair
    return value, pull(value * 2), pull(value * 3)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_is_that_of_the_reference(name: str):
    make = DERIVATIVES[name]
    wanted = make("reference")(X)
    close(make("native")(X), wanted)
    for executor in ("native", "reference"):
        compiled = cr.compile(make(None), executor=executor)
        for _ in range(2):
            close(compiled(X), wanted)


@pytest.mark.parametrize("executor", ["native", "reference"])
@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jvp", "hvp", "vjp"])
def test_a_compiled_function_has_derivatives(name: str, executor: str):
    plain = energy if name != "vjp" else lambda x: np.exp(x @ W)
    compiled = cr.compile(plain, executor=executor)
    compiled(X)
    calls: dict[str, Callable[[Any], Any]] = {
        "grad": lambda f: cr.grad(f, executor=executor)(X),
        "value_and_grad": lambda f: cr.value_and_grad(f, executor=executor)(X),
        "jvp": lambda f: cr.jvp(f, (X,), (V,), executor=executor),
        "hvp": lambda f: cr.hvp(f, (X,), (V,), executor=executor),
        "vjp": lambda f: _pulled(cr.vjp(f, X, executor=executor)),
    }
    close(calls[name](compiled), calls[name](plain))


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_compiled_functions_call_compiled_functions(executor: str):
    inner = cr.compile(lambda x, c: np.tanh(x @ W) * c, executor=executor)
    outer = cr.compile(lambda x: np.sum(inner(x, 2.0) ** 2) + np.sum(inner(x, x @ W)))
    wanted = np.sum((np.tanh(X @ W) * 2) ** 2) + np.sum(np.tanh(X @ W) * (X @ W))
    for _ in range(2):
        np.testing.assert_allclose(outer(X), wanted, rtol=1e-13)
        np.testing.assert_allclose(inner(X, 1.0), np.tanh(X @ W), rtol=1e-13)
    close(cr.compile(inner, executor=executor)(X, 3.0), np.tanh(X @ W) * 3)


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_a_compiled_function_may_read_a_value_that_is_being_traced(executor: str):
    def outer(x: Any) -> Any:
        inner = cr.compile(lambda y: np.sum(x * y), executor=executor)
        return inner(np.full(3, 2.0)) + inner(1.0) + inner(x)

    x = np.arange(3.0)
    close(cr.grad(outer, executor=executor)(x), 3 + 2 * x)
    close(cr.compile(outer, executor=executor)(x), np.sum(x * 3 + x * x))


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_a_compiled_function_of_constants_is_a_constant_in_a_trace(executor: str):
    table = cr.compile(lambda k: np.sin(k), executor=executor)
    f = cr.compile(lambda x: x * table(np.arange(3.0)), executor=executor)
    close(f(np.ones(3)), np.sin(np.arange(3.0)))


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_nan_and_infinity_go_through(executor: str):
    f = cr.compile(lambda x: (x * 2, np.exp(x), np.sum(x), np.max(x), x / x), executor=executor)
    for x in ([np.nan, 1, 2.0], [np.inf, -np.inf, 0.0], [1e308, 1e308, -0.0]):
        x = np.array(x)
        with np.errstate(all="ignore"):
            wanted = (x * 2, np.exp(x), np.sum(x), np.max(x), x / x)
        close(f(x), tuple(np.asarray(one) for one in wanted))
