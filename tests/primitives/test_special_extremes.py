"""Derivatives of special functions at zeros, subnormal and huge numbers and infinities: the limits,
by mpmath where numbers are finite."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import chainrule as cr

INF = np.inf
POINTS = np.array(
    [0, 5e-324, 1e-300, 1e-8, 0.5, 3, 25, 800, 1e9, 2e9, 1e20, 1e100, 1e200, 1.7e308, INF]
)
FUNCTIONS: dict[str, Any] = {
    "erf": cr.erf, "erfc": cr.erfc, "erfcx": cr.erfcx, "ndtr": cr.ndtr, "log_ndtr": cr.log_ndtr,
    "expit": cr.expit, "i0e": cr.i0e, "i1e": cr.i1e, "tanh": np.tanh, "exp": np.exp,
    "expm1": np.expm1, "softplus": cr.softplus, "log_sigmoid": cr.log_sigmoid,
    "logaddexp": lambda x: np.logaddexp(x, 1.0), "relu": cr.relu, "elu": cr.elu,
    "arctan": np.arctan, "arctan2": lambda x: np.arctan2(x, 1.0), "arcsinh": np.arcsinh,
    "hypot": lambda x: np.hypot(x, 1.0), "leaky_relu": cr.leaky_relu,
}  # fmt: skip
POSITIVE: dict[str, Any] = {
    "gammaln": cr.gammaln, "digamma": cr.digamma, "entr": cr.entr, "log1p": np.log1p,
    "xlogy": lambda x: cr.xlogy(2.0, x), "xlogy by x": lambda x: cr.xlogy(x, 2.0), "log": np.log,
    "arccosh": np.arccosh,
}  # fmt: skip


def orders(function: Any, count: int = 3) -> list[Any]:
    found = [function]
    for _ in range(count):
        found.append(cr.grad(found[-1]))
    return found


@pytest.mark.parametrize("name", [*FUNCTIONS, *POSITIVE])
def test_no_derivative_is_nan(name: str) -> None:
    function = {**FUNCTIONS, **POSITIVE}[name]
    points = np.concatenate([POINTS, -POINTS]) if name in FUNCTIONS else POINTS
    points = points[points > 1] if name == "arccosh" else points
    with np.errstate(all="ignore"):
        for order in range(4):
            bad = points[np.isnan(function(points))]
            assert not bad.size, (name, order, bad)
            function = cr.grad(lambda x, f=function: np.sum(f(x)))


@pytest.mark.parametrize("x", [0.0, 5e-324, 1e-300, 0.25, 0.5, 1 - 1e-16, 1.0])
def test_no_derivative_of_logit_is_nan(x: float) -> None:
    with np.errstate(all="ignore"):
        assert not any(np.isnan(f(x)) for f in orders(cr.logit, 2))


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_activations_far_out(name: str) -> None:
    for x in (1e9, 1e20, 1e200):
        found = [[float(f(sign * x)) for f in orders(getattr(cr, name))] for sign in (1, -1)]
        assert found == [[x, 1, 0, 0], [0, 0, 0, 0]]


def scaled_bessel(n: int) -> Any:
    return lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(n, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["i0e", "i1e"])
def test_derivatives_of_bessel_functions_do_not_cancel(name: str, dtype: Any) -> None:
    eps = np.finfo(dtype).eps
    function = scaled_bessel(int(name[1]))
    for order, found in enumerate(orders(getattr(cr, name))):
        for x in (0.1, 2.0, 7.5, 19.0, 21.0, 300.0, 5e4):
            given = dtype(x)
            with mpmath.workdps(60):
                exact = float(mpmath.diff(function, mpmath.mpf(float(given)), order))
            tolerance = 8 * eps + (2e-16 * (4 * min(x, 20) + 4) ** order)
            np.testing.assert_allclose(found(given), exact, rtol=tolerance)
            np.testing.assert_allclose(
                found(-given), exact * (-1) ** (order + int(name[1])), rtol=tolerance
            )
    far = dtype(1e30)  # x^(-3/2) / sqrt(8 pi), with the sign
    slope = cr.grad(getattr(cr, name))
    if dtype == np.float64:
        np.testing.assert_allclose(slope(far), -(1e30**-1.5) / np.sqrt(8 * np.pi), rtol=1e-15)
    else:
        assert slope(far) == -np.float32(float(far) ** -1.5 / np.sqrt(8 * np.pi))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_logarithm_of_a_tail_bends_by_one(dtype: Any) -> None:
    first, second, third = orders(cr.log_ndtr)[1:]
    for x in (-300.0, -6e4, -float(np.finfo(dtype).max), -INF):
        given = dtype(x)
        np.testing.assert_allclose(first(given), -given, rtol=2 * np.finfo(dtype).eps + 2e-5)
        np.testing.assert_allclose(second(given), -1, rtol=2 * np.finfo(dtype).eps + 2e-5)
        assert abs(third(given)) < 1e-3
    with mpmath.workdps(60):
        exact = mpmath.diff(
            lambda t: mpmath.log(mpmath.erfc(-t / mpmath.sqrt(2)) / 2), mpmath.mpf(-300), 2
        )
    np.testing.assert_allclose(cr.grad(cr.grad(cr.log_ndtr))(-300.0), float(exact), rtol=1e-10)


def test_limits_at_infinity() -> None:
    for name, at, limits in (
        ("erf", INF, [1, 0, 0, 0]), ("erf", -INF, [-1, 0, 0, 0]), ("erfc", -INF, [2, 0, 0, 0]),
        ("ndtr", INF, [1, 0, 0, 0]), ("log_ndtr", INF, [0, 0, 0, 0]), ("i0e", -INF, [0, 0, 0, 0]),
        ("log_ndtr", -INF, [-INF, INF, -1, 0]), ("i1e", INF, [0, 0, 0, 0]),
        ("arctan", -INF, [-np.pi / 2, 0, 0, 0]), ("arctan", INF, [np.pi / 2, 0, 0, 0]),
        ("arccosh", INF, [INF, 0, 0, 0]),
    ):  # fmt: skip
        function = {**FUNCTIONS, **POSITIVE}[name]
        with np.errstate(all="ignore"):
            assert [float(f(at)) for f in orders(function)] == limits, (name, at)


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_derivatives_of_arctan_keep_their_digits_far_out(dtype: Any) -> None:
    # up to where x^2 overflows, and beyond, where they are 0
    end = np.sqrt(float(np.finfo(dtype).max))
    for x in np.array([0, 0.3, 1, 7, 100, end**0.3, 0.9 * end, 2 * end, end**1.9], dtype):
        for sign in (1, -1):
            for order, found in enumerate(orders(np.arctan)):
                with mpmath.workdps(800), np.errstate(over="ignore"):
                    exact = float(mpmath.diff(mpmath.atan, mpmath.mpf(float(sign * x)), order))
                    got = found(sign * x)
                eps, least = np.finfo(dtype).eps, float(np.finfo(dtype).tiny)
                np.testing.assert_allclose(got, exact, rtol=16 * eps, atol=8 * least)
