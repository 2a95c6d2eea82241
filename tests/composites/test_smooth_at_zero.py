"""Smooth functions whose parts have kinks; kinks of others, which are warned of."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import KinkWarning
from chainrule.testing import check_gradients

ZERO, POINT = np.zeros(3), np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: cr.norm(x) ** 2,
        lambda x: np.linalg.norm(x) ** 2,
        lambda x: np.square(np.linalg.norm(x)),
        lambda x: np.sum(np.abs(x) ** 2),
        lambda x: np.sum(np.linalg.norm(x.reshape(1, 3), axis=1, keepdims=True) ** 2),
        lambda x: np.sqrt(np.sum(x**2)) ** 2,
        lambda x: np.linalg.norm(x) ** 2.0,
        lambda x: np.linalg.norm(x) ** np.int64(2),
        lambda x: np.linalg.norm(x) ** np.array(2.0),
        lambda x: np.power(np.linalg.norm(x), 2),
        lambda x: np.power(cr.norm(x), 2.0),
        lambda x: np.linalg.norm(x) * np.linalg.norm(x),
        lambda x: (lambda length: length * length)(cr.norm(x)),
        lambda x: np.sum(np.linalg.norm(x[:, None], "fro", axis=(0, 1)) ** 2),
        lambda x: np.sum(np.linalg.norm(x, ord=2, axis=0, keepdims=True) ** 2.0),
        lambda x: np.linalg.vector_norm(x) ** 2,
        lambda x: np.sqrt(np.sum(x * x)) * np.sqrt(np.sum(x * x)),
        lambda x: np.sum(np.abs(x) * np.abs(x)),
    ],
)
def test_squares_of_lengths_have_their_hessian_at_zero(f):
    for hessian in (cr.hessian(f), cr.jacrev(cr.grad(f))):
        np.testing.assert_array_equal(hessian(ZERO), 2 * np.eye(3))
        np.testing.assert_allclose(hessian(POINT), 2 * np.eye(3), atol=1e-15)
    np.testing.assert_array_equal(cr.grad(f)(ZERO), ZERO)
    np.testing.assert_array_equal(cr.grad(f)(POINT), 2 * POINT)
    np.testing.assert_allclose(cr.trace(f, POINT).run(x=POINT).outputs, 14, rtol=1e-15)


def test_even_powers_of_lengths_are_smooth():
    for f, bend in ((lambda x: cr.norm(x) ** 4, 0), (lambda x: np.exp(-(cr.norm(x) ** 2)), -2)):
        np.testing.assert_array_equal(cr.grad(f)(ZERO), ZERO)
        np.testing.assert_array_equal(cr.hessian(f)(ZERO), bend * np.eye(3))
        check_gradients(f, ZERO + 0.3, order=2)


def test_other_powers_keep_their_values():
    for f in (
        lambda x: np.linalg.norm(x) ** 4,
        lambda x: np.linalg.norm(x) ** 3,
        lambda x: np.linalg.norm(x) ** -2,
        lambda x: np.abs(x) ** 3,
        lambda x: np.abs(x) ** 4,
        lambda x: np.sqrt(x) ** 2,
        lambda x: np.sqrt(x * np.abs(x)) ** 2,
        lambda x: np.linalg.norm(x, 1) ** 2,
        lambda x: np.linalg.norm(x) ** 2.5,
        lambda x: np.linalg.norm(x) * np.linalg.norm(2 * x),
        lambda x: np.linalg.norm(x) * np.linalg.norm(x, 1),
    ):
        with np.errstate(invalid="ignore"):
            found, wanted = cr.trace(f, x=POINT).run(x=POINT).outputs, f(POINT)
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_a_named_length_has_its_gradient():
    def f(x):
        n = np.linalg.norm(x)
        J = n**2
        return J

    run = cr.backward(cr.trace(f, POINT), wrt=("x", "n")).run(x=POINT)
    np.testing.assert_allclose(run["dJ/dn"], 2 * np.sqrt(14))
    np.testing.assert_allclose(run["dJ/dx"], 2 * POINT)


@pytest.mark.parametrize("function", [np.logaddexp, np.logaddexp2])
@pytest.mark.parametrize("number", [np.inf, -np.inf, 0.0, 1e300])
def test_equal_numbers_share_the_slope_of_logaddexp(function, number):
    slopes = cr.grad(lambda x, y: function(x, y), wrt=(0, 1))(number, number)
    assert [float(one) for one in slopes] == [0.5, 0.5]
    for other in (np.inf, -np.inf):
        slopes = cr.grad(lambda x, y: function(x, y), wrt=(0, 1))(other, 1.0)
        assert [float(one) for one in slopes] == ([1, 0] if other > 0 else [0, 1])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.abs(x - 1),
        lambda x: np.maximum(x, 1),
        lambda x: np.clip(x, 1, 5),
    ],
)
def test_gradients_that_are_checked_at_a_kink_are_warned_of(f):
    with pytest.warns(KinkWarning, match="is checked at a kink of"):
        try:
            check_gradients(f, 1.0, order=1)
        except cr.errors.GradientCheckError:  # a convention is not what differences give
            pass
    check_gradients(f, 1.5, order=1)  # warnings are errors here


def test_kinks_that_no_derivative_reads_are_none():
    scale = np.array([1.0, 0.0, 1.0])
    check_gradients(lambda x: np.sum((np.abs(scale) * x) ** 2), POINT, order=1)
    check_gradients(lambda x: np.sum(np.maximum(x, np.where(x > 0, x, 2 * x))), POINT, order=1)
