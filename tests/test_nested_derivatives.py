"""Derivatives of functions that contain derivatives: to order three, and never confused."""

from __future__ import annotations

from typing import Any

import numpy as np
from finite_differences import close, differences

import chainrule as cr

RANDOM = np.random.default_rng(11)


def test_derivatives_nest_to_order_three() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * x**2

    x = 0.7
    s, c = np.sin(x), np.cos(x)
    close(cr.grad(f)(x), c * x**2 + 2 * x * s)
    close(cr.grad(cr.grad(f))(x), -s * x**2 + 4 * x * c + 2 * s)
    close(cr.grad(cr.grad(cr.grad(f)))(x), -c * x**2 - 6 * x * s + 6 * c)
    forward = lambda g: lambda t: cr.jvp(g, (t,), (1.0,))[1]  # noqa: E731
    close(forward(forward(forward(f)))(x), -c * x**2 - 6 * x * s + 6 * c)
    close(forward(cr.grad(forward(f)))(x), -c * x**2 - 6 * x * s + 6 * c)
    close(cr.grad(forward(cr.grad(f)))(x), -c * x**2 - 6 * x * s + 6 * c)


def test_the_hessian_of_an_array_function_in_both_orders() -> None:
    A = RANDOM.normal(size=(3, 3))

    def f(x: Any) -> Any:
        return np.sum(np.tanh(A @ x) ** 2)

    x, v = RANDOM.normal(size=3), RANDOM.normal(size=3)
    forward_reverse = cr.hvp(f, x, v)
    reverse_reverse = cr.grad(lambda x: np.sum(cr.grad(f)(x) * v))(x)
    reverse_forward = cr.grad(lambda x: cr.jvp(f, (x,), (v,))[1])(x)
    close(forward_reverse, reverse_reverse)
    close(forward_reverse, reverse_forward)
    numeric = differences(lambda x: np.sum(cr.grad(f)(x) * v), x)
    close(forward_reverse, numeric, 1e-8)


def test_perturbations_are_not_confused() -> None:
    # d/dx [ x d/dy (x + y) ] = 1, and with products at every level (Siskind and Pearlmutter, 2005)
    close(cr.grad(lambda x: x * cr.grad(lambda y: x + y)(1.0))(1.0), 1)
    close(cr.grad(lambda x: x * cr.grad(lambda y: x * y)(x))(3.0), 6)
    close(cr.grad(lambda x: cr.grad(lambda y: x * y * y)(2.0))(5.0), 4)
    forward = lambda g, t: cr.jvp(g, (t,), (1.0,))[1]  # noqa: E731
    close(forward(lambda x: x * forward(lambda y: x + y, 1.0), 1.0), 1)
    close(cr.grad(lambda x: x * forward(lambda y: x * y, 1.0))(4.0), 8)
    close(forward(lambda x: x * cr.grad(lambda y: x * y)(1.0), 4.0), 8)


def test_an_inner_derivative_sees_the_outer_variable_as_a_constant() -> None:
    x = RANDOM.normal(size=3)

    def outer(x: Any) -> Any:
        inner = cr.grad(lambda y: np.sum(x * y**3))
        return np.sum(inner(x) * x)  # 3 x^3 x, of which y is x only after differentiation

    close(outer(x), np.sum(3 * x**4))
    close(cr.grad(outer)(x), 12 * x**3)
    close(cr.grad(lambda a: cr.grad(lambda b: np.sum(a * b))(a)[0])(x), [1, 0, 0])


def test_a_derivative_of_a_closed_over_value_called_with_numbers() -> None:
    # The inner function is called with plain numbers and meets an outer traced value inside.
    def outer(x: Any) -> Any:
        value, slope = cr.value_and_grad(lambda y: np.sum(x * np.sin(y)))(np.ones(3))
        return value + np.sum(slope)

    x = RANDOM.normal(size=3)
    close(outer(x), np.sum(x) * (np.sin(1) + np.cos(1)))
    close(cr.grad(outer)(x), np.full(3, np.sin(1) + np.cos(1)))


def test_vjp_inside_a_traced_function() -> None:
    def f(x: Any) -> Any:
        value, pull = cr.vjp(lambda y: np.sin(y) * x, x)
        return np.sum(value) + np.sum(pull(np.ones(3))[0])  # sin(x) x + cos(x) x

    x = RANDOM.normal(size=3)
    close(cr.grad(f)(x), np.cos(x) * x + np.sin(x) - np.sin(x) * x + np.cos(x))


def test_derivatives_are_nodes_of_the_users_graph() -> None:
    def f(x: Any) -> Any:
        slope = cr.grad(lambda y: np.sum(y**3))(x)
        return np.sum(slope * slope)

    graph = cr.trace(f, np.ones(3))
    assert "slope" in graph
    x = RANDOM.normal(size=3)
    close(cr.backward(graph).run(x=x)["dout/dx"], 36 * x**3)
    close(graph.run(x=x)["slope"], 3 * x**2)


def test_the_forward_pass_of_a_vjp_runs_once_and_its_pull_many_times() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.exp(x) * np.sin(x)

    x = RANDOM.normal(size=4)
    value, pull = cr.vjp(f, x)
    rows = np.stack([pull(row)[0] for row in np.eye(4)])
    assert len(calls) == 1
    close(value, np.exp(x) * np.sin(x))
    close(rows, np.diag(np.exp(x) * (np.sin(x) + np.cos(x))))
