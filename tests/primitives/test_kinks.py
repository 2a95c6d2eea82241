"""Derivatives where none exists: the conventions that the doc lines promise, at order 1 and 2."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from derivatives import first, second

from chainrule import grad
from chainrule.primitives.arithmetic import (
    absolute,
    integer_power,
    maximum,
    minimum,
    power,
    sign,
    sqrt,
    stop_gradient,
)
from chainrule.primitives.primitive import Flat
from chainrule.primitives.reduce import argmax, max_, min_
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing import as_function, check_modes_agree
from chainrule.testing.samples import input_names

INF, NAN = np.inf, np.nan


def at(primitive, *numbers, **params):
    """The derivatives by each input at 0-d points."""
    arrays = [np.asarray(number, np.float64) for number in numbers]
    return [float(g) for g in first(primitive, arrays, np.asarray(1.0), **params)]


def twice(primitive, *numbers, **params):
    """The gradient of the sum of the derivatives by each input."""
    arrays = [np.asarray(number, np.float64) for number in numbers]
    ones = [np.asarray(1.0)] * len(arrays)
    return [float(g) for g in second(primitive, arrays, np.asarray(1.0), ones, **params)]


def test_relu_is_flat_to_one_side_and_half_at_zero_by_maximum():
    assert at(maximum, -1.0, 0.0) == [0, 1]
    assert at(maximum, 0.0, 0.0) == [0.5, 0.5]
    assert at(maximum, 1.0, 0.0) == [1, 0]


@pytest.mark.parametrize("primitive", [maximum, minimum])
@pytest.mark.parametrize("number", [-1.0, 0.0, -0.0, INF, -INF, 1e-320])
def test_where_two_tie_each_gets_half(primitive, number):
    assert at(primitive, number, number) == [0.5, 0.5]
    assert twice(primitive, number, number) == [0, 0]


def test_zeros_of_either_sign_tie():
    assert at(maximum, 0.0, -0.0) == [0.5, 0.5]


@pytest.mark.parametrize("primitive", [max_, min_])
@pytest.mark.parametrize(
    ("row", "shares"),
    [
        ([1.0, 1.0, 1.0, 1.0], [0.25, 0.25, 0.25, 0.25]),
        ([0.0, -0.0], [0.5, 0.5]),
        ([INF, INF], [0.5, 0.5]),
        ([7.0], [1.0]),
    ],
)
def test_tied_elements_share_equally(primitive, row, shares):
    [g] = first(primitive, [np.array(row)], np.asarray(1.0), axes=(0,))
    assert g.tolist() == shares
    [h] = second(primitive, [np.array(row)], np.asarray(1.0), [np.ones(len(row))], axes=(0,))
    assert h.tolist() == [0.0] * len(row)


def test_only_the_tied_elements_share():
    [g] = first(max_, [np.array([3.0, 1.0, 3.0])], np.asarray(2.0), axes=(0,))
    assert g.tolist() == [1.0, 0.0, 1.0]
    [g] = first(min_, [np.array([3.0, 1.0, 3.0])], np.asarray(2.0), axes=(0,))
    assert g.tolist() == [0.0, 2.0, 0.0]


def test_ties_over_several_axes_share_over_all_of_them():
    x = np.array([[[1.0, 2.0], [2.0, 0.0]], [[5.0, 5.0], [5.0, 5.0]]])
    [g] = first(max_, [x], np.asarray([1.0, 1.0]), axes=(1, 2))
    assert g.tolist() == [[[0, 0.5], [0.5, 0]], [[0.25, 0.25], [0.25, 0.25]]]


@pytest.mark.parametrize("primitive", [max_, min_])
def test_nan_among_the_elements_does_not_spread_to_their_derivatives(primitive):
    [g] = first(primitive, [np.array([1.0, NAN, 2.0])], np.asarray(1.0), axes=(0,))
    assert g.tolist() == [0, 0, 0]


def test_absolute_and_sign_are_flat_at_zero():
    for zero in (0.0, -0.0):
        assert at(absolute, zero) == [0]
        assert twice(absolute, zero) == [0]
        assert at(sign, zero) == [0]
    assert at(absolute, -3.0) == [-1]
    assert at(absolute, INF) == [1]


def test_nothing_flows_through_stop_gradient():
    assert at(stop_gradient, 2.0) == [0]
    call = as_function(stop_gradient)
    assert grad(lambda x: call(x) * x)(np.asarray(3.0)) == 3.0


def test_sqrt_is_infinitely_steep_at_zero():
    assert at(sqrt, 0.0) == [INF]
    assert twice(sqrt, 0.0) == [-INF]


@pytest.mark.parametrize(
    ("exponent", "slope", "bend"),
    [(3.0, 0, 0), (2.0, 0, 2), (1.0, 1, 0), (0.5, INF, -INF), (0.0, 0, 0), (-1.0, -INF, INF)],
)
def test_a_power_of_zero(exponent, slope, bend):
    call = as_function(power)

    def by_base(x):
        return call(x, np.asarray(exponent))

    assert grad(by_base)(np.asarray(0.0)) == slope
    assert grad(grad(by_base))(np.asarray(0.0)) == bend


@pytest.mark.parametrize("x", [0.3, 2.5, 1e-90])
@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -1.5])
def test_the_slope_of_a_power_changes_with_the_exponent_also_at_zero(x, y):
    def call(x, y):
        return as_function(power)(x, y)

    with mpmath.workdps(250):
        exact = float(mpmath.diff(lambda x, y: x**y, (mpmath.mpf(x), mpmath.mpf(y)), (1, 1)))
    given = np.asarray(x), np.asarray(y)
    for inner, outer in ((0, 1), (1, 0)):
        slope = grad(call, wrt=inner)
        np.testing.assert_allclose(grad(slope, wrt=outer)(*given), exact, rtol=1e-13)


@pytest.mark.parametrize("x", [0.0, 1e-310, 1e-200, INF])
def test_a_power_of_exponent_zero_has_no_nan(x):
    assert at(power, x, 0.0)[0] == 0
    by_base = grad(grad(as_function(power)))(np.asarray(x), np.asarray(0.0))
    assert by_base == 0


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_a_power_of_zero_is_flat_in_the_exponent_and_stays_so(exponent):
    call = as_function(power)

    def by_exponent(y):
        return call(np.asarray(0.0), y)

    assert at(power, 0.0, exponent)[1] == 0
    assert grad(by_exponent)(np.asarray(exponent)) == 0
    assert grad(grad(by_exponent))(np.asarray(exponent)) == 0


@pytest.mark.parametrize(
    ("x", "exponent", "slope", "bend"),
    [
        (0.0, 0, 0, 0),
        (0.0, 1, 1, 0),
        (0.0, 2, 0, 2),
        (0.0, 3, 0, 0),
        (-2.0, 3, 12, -12),
        (-2.0, 2, -4, 2),
        (-2.0, -1, -0.25, -0.25),
        (0.0, -1, -INF, INF),
        (INF, 0, 0, 0),
    ],
)
def test_an_integer_power_at_zero_and_of_negative_numbers(x, exponent, slope, bend):
    assert at(integer_power, x, exponent=exponent) == [slope]
    assert twice(integer_power, x, exponent=exponent) == [bend]


def test_argmax_takes_the_first_of_ties_and_the_first_nan():
    def place(row):
        return int(argmax.evaluate(np, np.array(row), axis=0))

    assert place([1.0, 3.0, 3.0]) == 1
    assert place([1.0, NAN, NAN]) == 1


@pytest.mark.sweep(5)
@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.0])
@pytest.mark.parametrize(
    "primitive",
    [
        p
        for p in PRIMITIVES
        if not isinstance(p.derivative, Flat)
        and all(s.domains == s.domains[:1] * len(s.domains) for s in p.samples)
        and all(shape == () for shape in p.samples[0].shapes)
    ],
    ids=lambda p: p.name,
)
def test_both_modes_have_the_same_convention_at_special_points(primitive, number):
    sample = primitive.samples[0]
    arrays = [np.asarray(number) for _ in input_names(primitive, len(sample.shapes))]
    function = as_function(primitive, **dict(sample.params))
    with np.errstate(all="ignore"):
        derivatives = first(primitive, arrays, np.asarray(1.0), **dict(sample.params))
        outside = np.any(np.isnan(primitive.evaluate(np, *arrays, **dict(sample.params))))
    if np.all(np.isfinite(derivatives)):
        check_modes_agree(function, *arrays, seed=1)
    known = number < 0 or outside or primitive.name == "divide"
    assert known or not np.any(np.isnan(derivatives))
