"""Smooth functions of |x| have their second derivatives at 0, in every mode, by mpmath's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import chainrule as cr
from chainrule.testing import check_gradients


def named(x):
    a = np.abs(x)
    y = a * np.log(a + 1)
    return y


EVEN = {
    "product": (lambda x: np.abs(x) * np.abs(x), lambda a: a * a),
    "log": (lambda x: np.abs(x) * np.log(np.abs(x) + 1), lambda a: a * mpmath.log(a + 1)),
    "named": (named, lambda a: a * mpmath.log(a + 1)),
    "sin": (lambda x: np.abs(x) * np.sin(np.fabs(x)), lambda a: a * mpmath.sin(a)),
    "cos": (lambda x: np.cos(np.abs(x)), mpmath.cos),
    "tanh": (lambda x: np.tanh(3 * np.abs(x)) * np.abs(x), lambda a: a * mpmath.tanh(3 * a)),
    "sech": (lambda x: 1 / np.cosh(np.abs(x)), mpmath.sech),
    "log cosh": (
        lambda x: np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))),
        lambda a: a + mpmath.log1p(mpmath.exp(-2 * a)),
    ),
    "Matérn 3/2": (
        lambda x: (1 + np.abs(x)) * np.exp(-np.abs(x)),
        lambda a: (1 + a) * mpmath.exp(-a),
    ),
    "Matérn 5/2": (
        lambda x: (1 + np.abs(x) + np.abs(x) ** 2 / 3) * np.exp(-np.abs(x)),
        lambda a: (1 + a + a * a / 3) * mpmath.exp(-a),
    ),
    "float power": (lambda x: np.abs(x) ** 2.0, lambda a: a * a),
    "fourth": (lambda x: np.abs(x) ** 4, lambda a: a**4),
    "Huber": (
        lambda x: np.where(np.abs(x) < 1, np.abs(x) * np.abs(x) / 2, np.abs(x) - 0.5),
        lambda a: a * a / 2 if a < 1 else a - mpmath.mpf(0.5),
    ),
}
POINTS = np.array([0.0, -0.0, -0.7, 1.3, 5e-324])


@pytest.mark.parametrize("name", EVEN)
def test_second_derivatives_of_even_functions_at_zero(name):
    f, of_distance = EVEN[name]

    def total(x):
        return np.sum(f(x))

    with mpmath.workdps(40):
        exact = [float(mpmath.diff(of_distance, abs(x), 2, direction=1)) for x in POINTS]
        exact[2:4] = [float(mpmath.diff(of_distance, abs(x), 2)) for x in POINTS[2:4]]
    gradient = cr.grad(total)
    for found in (
        np.diag(cr.hessian(total)(POINTS)),
        np.diag(cr.jacrev(gradient)(POINTS)),
        np.diag(cr.jacfwd(gradient)(POINTS)),
        np.diag(cr.jacfwd(cr.jacfwd(total))(POINTS)),
        cr.grad(lambda x: np.sum(gradient(x)))(POINTS),
        cr.hvp(total, (POINTS,), (np.ones(5),))[0],
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-13)
    assert gradient(POINTS)[0] == 0


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_both_executors_have_the_second_derivative_at_zero(executor):
    graph = cr.trace(cr.hessian(lambda x: np.sum(np.abs(x) * np.log1p(np.abs(x)))), np.zeros(2))
    found = graph.run(x=np.zeros(2), executor=executor).outputs
    np.testing.assert_array_equal(found, 2 * np.eye(2))


def test_kinks_stay_what_they_are():
    for f, slope, bend in (
        (lambda x: np.abs(x), 0, 0),
        (lambda x: x * np.abs(x), 0, 0),
        (lambda x: np.abs(x) ** 3, 0, 0),
        (lambda x: np.exp(-np.abs(x)), 0, 1),  # the second derivative of both sides
    ):
        assert cr.grad(f)(0.0) == slope
        assert cr.grad(cr.grad(f))(0.0) == bend


def test_odd_and_mixed_functions_of_absolute_values():
    point = np.array([0.6, -1.2])
    check_gradients(lambda x: np.abs(x[0]) * np.abs(x[1]) * np.sin(np.abs(x[0]) - x[1]), point)
    check_gradients(lambda x: np.sum(np.abs(x) * x / (1 + np.abs(x))) * np.sum(np.abs(x)), point)
    check_gradients(lambda x: np.sum(np.abs(x[:, None] - 2 * x) * np.abs(x)), np.array([1.0, -2.5]))
    third = cr.grad(cr.grad(cr.grad(EVEN["log"][0])))
    with mpmath.workdps(40):
        exact = mpmath.diff(EVEN["log"][1], mpmath.mpf(1.3), 3)
    np.testing.assert_allclose(third(1.3), float(exact), rtol=1e-12)
    np.testing.assert_allclose(third(-1.3), -float(exact), rtol=1e-12)
