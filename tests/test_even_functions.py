"""Even powers of |x| have their second derivatives at 0, where the graph shows them."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr

EVEN = {
    "product": (lambda x: np.abs(x) * np.abs(x), 2),
    "fabs": (lambda x: np.fabs(x) * np.abs(x), 2),
    "square": (lambda x: np.abs(x) ** 2, 2),
    "float power": (lambda x: np.abs(x) ** 2.0, 2),
    "fourth": (lambda x: np.abs(x) ** 4, 4),
}
POINTS = np.array([0.0, -0.0, -0.7, 1.3])


@pytest.mark.parametrize("name", EVEN)
def test_second_derivatives_of_even_powers_at_zero(name):
    f, power = EVEN[name]

    def total(x):
        return np.sum(f(x))

    exact = power * (power - 1) * POINTS ** (power - 2)
    gradient = cr.grad(total)
    for found in (
        np.diag(cr.hessian(total)(POINTS)),
        np.diag(cr.jacfwd(gradient)(POINTS)),
        np.diag(cr.jacfwd(cr.jacfwd(total))(POINTS)),
        cr.grad(lambda x: np.sum(gradient(x)))(POINTS),
        cr.hvp(total, (POINTS,), (np.ones(4),))[0],
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_signs_that_the_user_wrote_stay():
    """A tie is 0 times whatever stands beside it, in every derivative."""
    w, tie = np.array([1.0, 4.0]), np.array([0.0, 1.0])

    def logistic(w, t):
        return np.sum(np.sign(t) * np.log1p(np.exp(-np.sign(t) * w)))

    np.testing.assert_allclose(cr.grad(logistic)(w, tie), [0, -1 / (1 + np.exp(4))], rtol=1e-12)
    squares = cr.hessian(lambda w, t: np.sum((np.sign(t) * w) ** 2))
    np.testing.assert_array_equal(squares(w, tie), [[0, 0], [0, 2]])
    assert np.isnan(cr.grad(logistic)(w, np.array([np.nan, 1.0]))[0])
    assert cr.grad(lambda x, y: np.sin(np.sign(x) * y) * np.sign(x), wrt="y")(0.0, 0.7) == 0
