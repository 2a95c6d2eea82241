"""Trigonometry, rounding and remainders at their ends, jumps and zeros: values and derivatives."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from derivatives import first, second

import chainrule as cr
from chainrule.primitives.hyperbolic import arccosh, arcsinh, arctanh
from chainrule.primitives.logarithms import cbrt
from chainrule.primitives.rounding import (
    ceil,
    copysign,
    floor,
    floor_divide,
    fmod,
    remainder,
    rint,
    trunc,
)
from chainrule.primitives.trigonometric import arccos, arcsin, arctan, arctan2, hypot

INF = np.inf


def at(primitive: Any, *numbers: float) -> list[float]:
    """The derivatives by each input at 0-d points."""
    with np.errstate(all="ignore"):
        arrays = [np.asarray(number, np.float64) for number in numbers]
        return [float(g) for g in first(primitive, arrays, np.asarray(1.0))]


def twice(primitive: Any, *numbers: float) -> list[float]:
    """The gradient of the sum of the derivatives by each input."""
    with np.errstate(all="ignore"):
        arrays = [np.asarray(number, np.float64) for number in numbers]
        ones = [np.asarray(1.0)] * len(arrays)
        return [float(g) for g in second(primitive, arrays, np.asarray(1.0), ones)]


@pytest.mark.parametrize(
    ("primitive", "x", "slope"),
    [
        (arcsin, 1.0, INF),
        (arcsin, -1.0, INF),
        (arccos, 1.0, -INF),
        (arccos, -1.0, -INF),
        (arccosh, 1.0, INF),
        (arctanh, 1.0, INF),
        (arctanh, -1.0, INF),
        (cbrt, 0.0, INF),
        (cbrt, -0.0, INF),
    ],
)
def test_at_the_ends_of_their_domains_inverses_are_infinitely_steep(primitive, x, slope):
    assert at(primitive, x) == [slope]


def test_the_cube_root_is_bent_infinitely_at_zero():
    assert twice(cbrt, 0.0) == [-INF]


@pytest.mark.parametrize("x", [1.5, -2.0])
def test_outside_of_its_domain_an_inverse_has_no_derivative(x):
    assert np.isnan(at(arcsin, x)).all()
    assert np.isnan(at(arccosh, -x)).all() == (x > 0)


@pytest.mark.parametrize("x", [0.9999999999999, -1 + 2.0**-50, 0.5, 1e-9])
def test_near_the_ends_the_slope_keeps_its_digits(x):
    with mpmath.workdps(60):
        exact = 1 / mpmath.sqrt(1 - mpmath.mpf(x) ** 2)
        assert abs(at(arcsin, x)[0] / exact - 1) < 1e-15
        assert abs(at(arccos, x)[0] / exact + 1) < 1e-15
        assert abs(at(arctanh, x)[0] / exact**2 - 1) < 1e-15


@pytest.mark.parametrize("x", [1e200, -1e300, 3e5])
def test_slopes_of_huge_arguments_do_not_overflow(x):
    np.testing.assert_allclose(at(arcsinh, x), [1 / abs(x)], rtol=1e-9)
    np.testing.assert_allclose(at(arccosh, abs(x)), [1 / abs(x)], rtol=1e-9)
    np.testing.assert_allclose(at(arctan, x), [1 / x / x], rtol=1e-9)
    np.testing.assert_allclose(at(hypot, x, x), [np.sign(x) * np.sqrt(0.5)] * 2, rtol=1e-14)
    np.testing.assert_allclose(at(arctan2, x, x), [0.5 / x, -0.5 / x], rtol=1e-14)


def test_the_length_of_nothing_and_its_angle_are_flat():
    for zero in (0.0, -0.0):
        assert at(hypot, zero, 0.0) == at(arctan2, zero, 0.0) == [0, 0]
        assert twice(hypot, zero, 0.0) == [0, 0]
        assert np.isfinite(twice(arctan2, zero, 0.0)).all()


def test_on_an_axis_length_and_angle_are_differentiable_twice():
    assert at(hypot, 0.0, -2.0) == [0, -1]
    np.testing.assert_allclose(twice(hypot, 0.0, -2.0), [0.5, 0], atol=1e-15)
    assert at(arctan2, 0.0, -2.0) == [-0.5, 0]
    np.testing.assert_allclose(twice(arctan2, 0.0, -2.0), [-0.25, -0.25], atol=1e-15)
    tiny = 1e-200
    np.testing.assert_allclose(at(hypot, tiny, -tiny), [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-14)
    np.testing.assert_allclose(at(arctan2, tiny, tiny), [0.5 / tiny, -0.5 / tiny], rtol=1e-14)


@pytest.mark.parametrize("x", [0.0, -0.0, 1e-300, 1e-20, 1e-9, -3e-5, 0.01, 0.31, 0.32, 0.9, -7.3])
def test_sinc_is_accurate_near_zero_in_every_order(x):
    def exact(t):
        return mpmath.sinc(mpmath.pi * t)

    orders = [cr.grad(np.sinc), cr.grad(cr.grad(np.sinc)), cr.grad(cr.grad(cr.grad(np.sinc)))]
    with mpmath.workdps(60):
        for order, function in enumerate(orders, 1):
            got = float(function(np.asarray(x)))
            want = mpmath.diff(exact, mpmath.mpf(x), order, h=mpmath.mpf(10) ** -12)
            scale = max(abs(want), mpmath.mpf(10) ** -6 if abs(x) < 1e-6 else 0)
            assert abs(got - want) <= 1e-13 * max(scale, 1 if order > 2 else 0), (order, got, want)


@pytest.mark.parametrize("finite", [0.0, -1.0, 3e5])
@pytest.mark.parametrize("far", [INF, -INF])
def test_infinitely_far_away_a_length_grows_and_an_angle_rests(far, finite):
    unit = np.sign(far)
    assert at(hypot, far, finite) == [unit, 0]
    assert at(hypot, finite, far) == [0, unit]
    np.testing.assert_allclose(at(hypot, far, -far), [unit * 0.5**0.5, -unit * 0.5**0.5], 1e-15)
    for points in ((far, finite), (finite, far), (far, far)):
        assert at(arctan2, *points) == twice(hypot, *points) == twice(arctan2, *points) == [0, 0]
    assert np.isnan(at(hypot, np.nan, finite)).any()


def test_where_nothing_moves_rounding_is_flat():
    for primitive in (floor, ceil, trunc, rint):
        for x in (0.0, 0.5, -1.5, 2.0, INF):
            assert at(primitive, x) == [0]
    assert at(floor_divide, 3.0, 1.0) == [0, 0]


def test_where_a_remainder_jumps_it_goes_on_to_one_side():
    assert at(remainder, 3.0, 1.0) == [1, -3]
    assert at(remainder, 2.5, 1.0) == [1, -2]
    assert at(remainder, -2.5, 1.0) == [1, 3]
    assert at(remainder, 2.5, -1.0) == [1, 3]
    assert at(fmod, -3.0, 1.0) == [1, 3]
    assert at(fmod, -2.5, 1.0) == [1, 2]
    assert at(fmod, 2.5, -1.0) == [1, 2]
    assert twice(remainder, 3.0, 1.0) == twice(fmod, -3.0, 1.0) == [0, 0]


def test_a_sign_taken_from_another_number():
    assert at(copysign, -3.0, 2.0) == [-1, 0]
    assert at(copysign, -3.0, -0.0) == [1, 0]
    assert at(copysign, 0.0, -1.0) == [0, 0]


def slope(function, *numbers):
    arrays = [np.asarray(number, np.float64) for number in numbers]
    with np.errstate(all="ignore"):
        return [float(g) for g in cr.vjp(function, *arrays)[1](np.asarray(1.0))]


@pytest.mark.parametrize("function", [np.logaddexp, np.logaddexp2])
def test_logaddexp_divides_its_derivative_also_between_extremes(function):
    assert slope(function, 1.0, 1.0) == [0.5, 0.5]
    for big in (1e4, 1e308, INF):
        assert slope(function, big, 3.0) == slope(function, 3.0, -big) == [1, 0]
        assert slope(function, -big, big) == [0, 1]
    assert sum(slope(function, INF, INF)) == sum(slope(function, -INF, -INF)) == 1


def test_fmax_and_fmin_leave_nan_alone_and_share_ties():
    for function in (np.fmax, np.fmin):
        assert slope(function, np.nan, 2.0) == [0, 1]
        assert slope(function, 2.0, np.nan) == [1, 0]
        assert slope(function, 2.0, 2.0) == [0.5, 0.5]
    assert slope(np.fmax, 3.0, 2.0) == slope(np.fmin, 2.0, 3.0) == [1, 0]


def test_parts_that_are_chosen_pass_their_derivative_on():
    assert slope(np.heaviside, 0.0, 2.0) == [0, 1]
    assert slope(np.heaviside, 1.0, 2.0) == slope(np.heaviside, -1.0, 2.0) == [0, 0]
    assert slope(lambda x: np.modf(x)[0], 2.0) == slope(lambda x: np.modf(x)[0], -0.25) == [1]
    assert slope(lambda x: np.modf(x)[1], 2.0) == slope(lambda x: np.modf(x)[0], INF) == [0]
    assert slope(np.nan_to_num, 3.0) == [1]
    for number in (np.nan, INF, -INF):
        assert slope(np.nan_to_num, number) == [0]
    assert slope(np.angle, -2.0) == slope(np.angle, 0.0) == slope(lambda x: np.round(x), 2.4) == [0]
    assert slope(lambda x: np.divmod(x, 1.0)[1], 2.5) == [1]
    assert slope(lambda x: np.divmod(x, 1.0)[0], 2.5) == slope(lambda x: np.fix(x), 2.5) == [0]
