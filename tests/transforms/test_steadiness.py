"""A derivative that is 0 by a relu meets numbers without a select, and whatever else with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr


def selects(f: Any, *args: Any, wrt: Any) -> int:
    nodes = cr.backward(cr.trace(f, *args), wrt=wrt).nodes
    return sum(node.primitive.name == "where" for node in nodes)


def stacked(layer: Any) -> Any:
    def f(x: Any, s: Any, b: Any, w: Any) -> Any:
        for _ in range(3):
            x = layer(x, s, b, w)
        return np.sum(x)

    return f


def batch_norm(x: Any, s: Any, b: Any) -> Any:
    centred = x - np.mean(x, axis=0)
    return centred / np.sqrt(np.mean(centred * centred, axis=0) + 1e-5) * s + b


LAYERS = {  # and how many selects each has: in its value, and for its slope
    "layer norm": (lambda x, s, b, w: cr.relu(cr.layer_norm(x, s, b)), 2),
    "batch norm": (lambda x, s, b, w: cr.relu(batch_norm(x, s, b)), 2),
    "scaled product": (lambda x, s, b, w: cr.relu(x @ w * s + b), 2),
    "residual": (lambda x, s, b, w: x + cr.relu(cr.layer_norm(x, s, b)) @ w, 2),
    "maximum": (lambda x, s, b, w: np.maximum(cr.layer_norm(x, s, b), 0), 2),
    "clip": (lambda x, s, b, w: np.clip(cr.layer_norm(x, s, b), -1, 1), 4),
    "tanh": (lambda x, s, b, w: cr.relu(np.tanh(x @ w + b) * s), 2),
    "moved": (lambda x, s, b, w: cr.relu((cr.layer_norm(x) * s).T.reshape(3, 3) + b), 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_whose_factors_are_numbers_needs_no_further_select(name: str) -> None:
    layer, each = LAYERS[name]
    given = np.ones((3, 3)), np.ones(3), np.zeros(3), np.ones((3, 3))
    assert selects(stacked(layer), *given, wrt=("x", "s", "b", "w")) == 3 * each


def test_what_may_overflow_or_is_given_as_data_needs_one() -> None:
    def count(f: Any) -> int:
        relu = lambda x, s, b: np.sum(cr.relu(f(x) * s + b))  # noqa: E731
        return selects(relu, np.ones((2, 3)), np.ones(3), np.ones(3), wrt=("s", "b"))

    for f in (np.exp, lambda x: x, lambda x: x[::-1], lambda x: np.sqrt(x * x), lambda x: 1 / x):
        assert count(f) == 3
    for f in (lambda x: 2 * x, np.sin, lambda x: np.sqrt(x * x + 1), lambda x: 1 / (1 + x * x)):
        assert count(f) == 2


SELECTS = {
    "relu": cr.relu,
    "maximum": lambda y: np.maximum(y, 0),
    "clip": lambda y: np.clip(y, 0, 9),
    "where": lambda y: np.where(y > 0, y, 0),
}
# Of x and s: 0 or less where x is 0, at the first two numbers.  What it is by s at the last, and
# what this is by x.
STEEP = {
    "root": (lambda x, s: np.sqrt(x) * s - 0.1, 2, 1 / 4),
    "below": (lambda x, s: s / (1 + np.sqrt(x)) - 0.2, 1 / 3, -1 / 36),
    "power": (lambda x, s: s * x**1.5 - 1, 8, 3),
    "largest": (lambda x, s: s * np.maximum(np.sqrt(x), 0) - 1, 2, 1 / 4),
    "moved": (lambda x, s: (s * np.sqrt(x)[::-1][::-1]).reshape(3, 1).T[0] - 1, 2, 1 / 4),
    "log": (lambda x, s: np.log(x) * abs(s) - 0.1, np.log(4), 1 / 4),
    "data": (lambda x, s: np.where(x > 0, x, -np.inf) * abs(s) - 2, 4, 1),
    "overflow": (lambda x, s: 8 * s - abs(s) * np.exp(np.where(x > 1, 0, 900)), 7, 0),
}


@pytest.mark.sweep(5)
@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("name", STEEP)
def test_what_is_0_by_a_select_stays_so_in_both_derivatives(name: str, select: str) -> None:
    f, by_s, bend = STEEP[name]
    x, s = np.array([0.0, 1.0, 4.0]), np.array([-1.0, -1.0, 1.0])

    def total(x: Any, s: Any) -> Any:
        return np.sum(SELECTS[select](f(x, s)))

    slope = cr.grad(total, wrt="s")
    for executor in ("reference", "native"):
        run = cr.backward(cr.trace(total, x, s), wrt="s").run(x=x, s=s, executor=executor)
        np.testing.assert_allclose(run["dout/ds"], [0, 0, by_s], rtol=1e-12)
    for jacobian in (cr.jacrev, cr.jacfwd):
        found = jacobian(slope, wrt="x")(x, s)
        np.testing.assert_allclose(found, np.diag([0, 0, bend]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("given", [np.nan, np.inf, -np.inf])
def test_a_mask_around_a_relu_leaves_out_what_is_no_number(given: float) -> None:
    valid = np.array([True, False, True])
    x, d = np.array([1.0, 2.0, -3.0]), np.array([1.0, given, 2.0])
    for select in (cr.relu, lambda y: np.maximum(y, 0), lambda y: np.clip(y, 0, 9)):
        for f, by_x in (
            (lambda x, d: x / np.sqrt(d * d + 1), np.sqrt(0.5)),
            (lambda x, d: np.tanh(x) * d, 1 / np.cosh(1) ** 2),
        ):

            def masked(x: Any, d: Any, f: Any = f, select: Any = select) -> Any:
                return np.sum(np.where(valid, select(f(x, d)), 0))

            found = cr.grad(masked, wrt=("x", "d"))(x, d)
            np.testing.assert_allclose(found[0], [by_x, 0, 0], rtol=1e-12)
            assert np.isfinite(found[1]).all()


def test_data_that_is_infinite_where_a_relu_selects_0() -> None:
    x, s = np.array([-np.inf, 1.0, 2.0]), np.ones(3)
    found = cr.grad(lambda x, s: np.sum(cr.relu(x * s)), wrt=("x", "s"))(x, s)
    np.testing.assert_array_equal(found, [[0, 1, 1], [0, 1, 2]])
