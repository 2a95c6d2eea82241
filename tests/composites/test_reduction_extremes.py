"""Reductions and statistics at zeros, ties, NaN, infinities and nothing: values and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

NAN, INF = np.nan, np.inf
NAMES = ("x", "y")


def value_of(function: Any, *given: np.ndarray) -> np.ndarray:
    return cr.trace(function, *given).run(dict(zip(NAMES, given, strict=False))).outputs


def gradient(function: Any, *given: Any) -> Any:
    """Of the sum of the results."""
    return cr.grad(lambda x: np.sum(function(x)))(*map(np.asarray, given))


def bend(function: Any, x: Any) -> np.ndarray:
    """The second derivative of the sum of the results, along a direction of ones."""
    x = np.asarray(x)
    return cr.hvp(lambda x: np.sum(function(x)), x, np.ones(x.shape))


@pytest.mark.parametrize(
    ("x", "slopes", "bends"),
    [
        ([2.0, 3.0, 4.0], [12, 8, 6], [7, 6, 5]),
        ([2.0, 0.0, 4.0], [0, 8, 0], [4, 6, 2]),
        ([0.0, 0.0, 4.0], [0, 0, 0], [4, 4, 0]),
        ([0.0, 0.0, 0.0], [0, 0, 0], [0, 0, 0]),
        ([5.0], [1], [0]),
        ([], [], []),
    ],
)
def test_a_product_has_the_derivatives_of_a_polynomial(x: Any, slopes: Any, bends: Any) -> None:
    for function in (lambda x: np.prod(x), lambda x: np.cumprod(x)[-1:] if len(x) else x):
        np.testing.assert_array_equal(gradient(function, x), slopes)
        np.testing.assert_array_equal(bend(function, x), bends)


def test_a_product_that_no_float_can_divide_has_a_derivative() -> None:
    x = np.array([1e-200, 1e-200, 1e300])
    np.testing.assert_allclose(gradient(lambda x: np.prod(x), x), [1e100, 1e100, 0], 1e-14)


def test_a_third_derivative_of_a_product_of_zeros_is_one() -> None:
    def mixed(x: Any) -> Any:
        return cr.grad(lambda x: cr.grad(lambda x: np.prod(x))(x)[0])(x)[1]

    np.testing.assert_array_equal(cr.grad(mixed)(np.zeros(3)), [0, 0, 1])


@pytest.mark.parametrize(
    ("function", "x", "slopes"),
    [
        (lambda x: np.maximum.accumulate(x), [1.0, 3.0, 3.0, 2.0, 5.0], [1, 3, 0, 0, 1]),
        (lambda x: np.minimum.accumulate(x), [1.0, 3.0, 1.0, NAN, 5.0], [3, 0, 0, 2, 0]),
        (lambda x: np.max(x, initial=3.0), [1.0, 3.0], [0, 0.5]),
        (lambda x: np.ptp(x), [1.0, 4.0, 4.0], [-1, 0.5, 0.5]),
        (lambda x: np.ptp(x), [2.0, 2.0], [0, 0]),
        (lambda x: np.median(x), [2.0, 1.0, 2.0, 2.0], [0.5, 0, 0.5, 0]),
        (lambda x: np.median(x), [1.0, NAN, 2.0], [0, 0, 0]),
        (lambda x: np.nanmedian(x), [1.0, NAN, 2.0], [0.5, 0, 0.5]),
        (lambda x: np.quantile(x, 0.25), [7.0, 3.0, 5.0, 1.0], [0, 0.75, 0, 0.25]),
        (lambda x: np.nanquantile(x, 0.5, method="lower"), [NAN, 3.0, 1.0, 2.0], [0, 0, 0, 1]),
        (lambda x: np.nansum(x) ** 2, [NAN, 3.0], [0, 6]),
        (lambda x: np.nanprod(x), [NAN, 3.0, 0.0], [0, 0, 3]),
        (lambda x: np.nanmean(x), [NAN, 3.0, 1.0], [0, 0.5, 0.5]),
        (lambda x: np.nanmax(x), [NAN, 3.0, 1.0], [0, 1, 0]),
        (lambda x: np.nanmin(x), [NAN, NAN], [0, 0]),
        (lambda x: np.nanvar(x), [NAN, 3.0, 1.0], [0, 1, -1]),
        (lambda x: np.nanstd(x), [NAN, 3.0, 3.0], [0, 0, 0]),
        (lambda x: np.nanstd(x), [NAN, NAN], [0, 0]),
        (lambda x: np.nancumsum(x), [NAN, 3.0, 1.0], [0, 2, 1]),
        (lambda x: np.sum(x, where=x < 9) ** 2, [INF, 3.0, NAN], [0, 6, 0]),
        (lambda x: np.prod(x, where=np.abs(x) < 9), [INF, 3.0, NAN], [0, 1, 0]),
        (lambda x: np.mean(x, where=x < 9), [INF, 3.0, NAN, 1.0], [0, 0.5, 0, 0.5]),
        (lambda x: np.var(x, where=x < 9), [INF, 3.0, NAN, 1.0], [0, 1, 0, -1]),
        (lambda x: np.std(x, where=x < 9), [INF, 3.0, NAN, 3.0], [0, 0, 0, 0]),
        (lambda x: np.std(x, ddof=0.5), [2.0, 2.0, 2.0], [0, 0, 0]),
        (lambda x: np.max(x, where=x < 9, initial=0), [INF, 3.0, NAN], [0, 1, 0]),
        (lambda x: np.interp(x, [0, 1, 3], [1, 3, 2]), [0.0, 1.0, 2.0, 3.0], [2, -0.5, -0.5, 0]),
        (lambda x: np.interp(x, [0, 1, 1], [1, 3, 2]), [-INF, INF, NAN, 1.0, 0.5], [0, 0, 0, 0, 2]),
    ],
)  # fmt: skip
def test_slopes_at_kinks_and_beside_what_is_left_out(function: Any, x: Any, slopes: Any) -> None:
    found = gradient(function, x)
    if function.__code__.co_names[1] == "interp":
        slopes = np.where(np.isnan(x), found, slopes)  # where there is no number, none is promised
    np.testing.assert_array_equal(found, slopes)
    assert np.isfinite(bend(function, np.where(np.isfinite(x), x, 1.0))).all()


def test_values_of_a_line_have_derivatives_beyond_its_ends_and_at_infinity() -> None:
    x = np.array([-INF, -1.0, 0.5, 9.0, INF])
    found = cr.grad(lambda f: np.sum(np.interp(x, [0, 1, 3], f)))(np.array([1.0, 3, 2]))
    np.testing.assert_array_equal(found, [2.5, 0.5, 2])


def test_a_perfect_correlation_has_no_slope() -> None:
    x = np.array([[1.0, 2.0, 4.0], [2.0, 4.0, 8.0], [-1.0, -2.0, -4.0]])
    found = gradient(lambda x: np.corrcoef(x) ** 2, x)
    np.testing.assert_allclose(found, 0, atol=1e-14)


def test_a_place_that_is_never_reached_has_none() -> None:
    x = np.array([[3.0, NAN, 5.0, NAN], [INF, INF, -INF, INF]])
    for ufunc in (np.maximum, np.minimum):
        want = ufunc.accumulate(x, axis=1)
        got = value_of(lambda x, u=ufunc: u.accumulate(x, axis=1), x)
        np.testing.assert_array_equal(got, want)


def test_counts_of_an_integer_that_does_not_fit_are_refused_when_they_run() -> None:
    graph = cr.trace(lambda x: np.bincount(x, minlength=3), np.array([0, 2]))
    np.testing.assert_array_equal(graph.run(x=np.array([2, 2])).outputs, [0, 0, 2])
    for wrong in (3, -1):
        with pytest.raises(cr.errors.IndexOutOfRangeError, match=f"index {wrong}"):
            graph.run(x=np.array([0, wrong]))


@pytest.mark.parametrize(
    "method", ["sum", "prod", "mean", "any", "all", "max", "min", "var", "std"]
)
def test_methods_are_those_of_arrays(method: str) -> None:
    x = np.array([[1.0, 0.0, 3.0], [2.0, 2.5, -1.0]])
    for options in ({}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}):
        got = value_of(lambda x, o=options: getattr(x, method)(**o), x)
        want = np.asarray(getattr(x, method)(**options))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, 1e-14)


@pytest.mark.parametrize("method", ["cumsum", "cumprod", "argmin", "argmax"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_methods_along_an_axis_are_those_of_arrays(method: str, axis: Any) -> None:
    x = np.array([[1.0, 0.0, 3.0], [2.0, 2.5, -1.0]])
    got = value_of(lambda x: getattr(x, method)(axis=axis), x)
    np.testing.assert_array_equal(got, getattr(x, method)(axis=axis))


REDUCE = [np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or]


@pytest.mark.parametrize("ufunc", REDUCE, ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
def test_reductions_of_ufuncs_are_numpys(ufunc: np.ufunc, dtype: str) -> None:
    x = np.array([[1, 0, 3], [2, 2, -1]]).astype(dtype)
    calls = [
        lambda x: ufunc.reduce(x),
        lambda x: ufunc.reduce(x, 1, keepdims=True),
        lambda x: ufunc.reduce(x, axis=None),
        lambda x: ufunc.reduce(x, axis=(0, 1)),
    ]
    if ufunc in REDUCE[:4]:
        chosen = np.array([True, False, True])
        calls.append(lambda x: ufunc.reduce(x, axis=0, where=chosen, initial=True))
        calls += [lambda x: ufunc.accumulate(x), lambda x: ufunc.accumulate(x, axis=-1)]
    for call in calls:
        got, want = value_of(call, x), np.asarray(call(x))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "ufunc", [np.add, np.subtract, np.power, np.less, np.arctan2, np.fmax], ids=lambda u: u.__name__
)
def test_outer_is_numpys(ufunc: np.ufunc) -> None:
    x, y = np.array([[1.0, 2.0], [3.0, 0.5]]), np.array([2.0, -1.0, 3.0])
    for call, given in (
        (lambda x, y: ufunc.outer(x, y), (x, y)),
        (lambda x: ufunc.outer(x, 2.0), (x,)),
        (lambda x: ufunc.outer([2.0, 3.0], x), (x,)),
    ):
        got, want = value_of(call, *given), call(*given)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, 1e-14)


def test_a_name_is_given_to_what_a_method_of_a_ufunc_makes() -> None:
    def program(x: Any) -> Any:
        outer = np.multiply.outer(x, x)
        total = np.add.reduce(outer, axis=None)
        return total

    graph = cr.trace(program, np.ones(3))
    assert graph["outer"].type.shape == (3, 3)
    assert graph["total"].type.shape == ()


def test_reversed_windows_of_every_mode_are_seen_by_vmap() -> None:
    a, v = np.arange(12.0).reshape(3, 4), np.array([1.0, -2.0, 0.5])
    got = cr.vmap(lambda a: np.convolve(a, v))(a)
    np.testing.assert_allclose(got, [np.convolve(row, v) for row in a], 1e-14)
    x = np.array([[0.5, 1.5], [2.5, 0.0], [9.0, -1.0]])
    points = np.cumsum(np.abs(a) + 1, axis=1)
    got = cr.vmap(lambda x, p: np.interp(x, p, v[[0, 1, 2, 0]]))(x, points)
    want = [np.interp(x[i], points[i], v[[0, 1, 2, 0]]) for i in range(3)]
    np.testing.assert_allclose(got, want, 1e-14)
