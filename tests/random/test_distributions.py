"""Further distributions: what their names say, the same on every executor, finite, as JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_draws import KEY, distance, equal, jax_random

import chainrule as cr
from chainrule import float32, float64, int64, uint32
from chainrule.random import continuous, discrete

n = cr.size("n")
CONTINUOUS = ["exponential", "laplace", "logistic", "gumbel", "cauchy"]
# The 99.9 % point of Kolmogorov's distribution is 1.95; the keys are fixed.
UNLIKELY = 1.95
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def distribution_of(name: str) -> Callable[[np.ndarray], np.ndarray]:
    from scipy import stats

    return {
        "exponential": stats.expon,
        "laplace": stats.laplace,
        "logistic": stats.logistic,
        "gumbel": stats.gumbel_r,
        "cauchy": stats.cauchy,
    }[name].cdf


@DTYPES
@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_distributions_are_what_their_names_say(name: str, dtype: Any) -> None:
    drawn = getattr(cr.random, name)(KEY, (200, 500), dtype)
    assert drawn.dtype == dtype
    cdf = distribution_of(name)
    assert distance(drawn, cdf) < UNLIKELY
    assert distance(drawn, lambda x: cdf(1.05 * x)) > UNLIKELY  # the test can fail
    assert distance(drawn, lambda x: cdf(x + 0.1)) > UNLIKELY


@pytest.mark.sweep(3)
@DTYPES
@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0.5, np.inf), (-np.inf, -3), (-9, 9)])
def test_truncated_normal_numbers_are_normal_within_their_limits(
    low: float, high: float, dtype: Any
) -> None:
    from scipy.stats import truncnorm

    drawn = cr.random.truncated_normal(KEY, low, high, (100_000,), dtype)
    assert low <= drawn.min() and drawn.max() <= high
    assert distance(drawn, truncnorm(low, high).cdf) < UNLIKELY
    assert distance(drawn, truncnorm(low - 0.1, high).cdf) > UNLIKELY or low < -8


def test_the_moments_are_the_distributions() -> None:
    count = 200_000
    for name, mean, var in (
        ("exponential", 1, 1),
        ("laplace", 0, 2),
        ("logistic", 0, np.pi**2 / 3),
        ("gumbel", np.euler_gamma, np.pi**2 / 6),
    ):
        drawn = getattr(cr.random, name)(KEY, (count,), np.float64)
        assert abs(drawn.mean() - mean) < 4 * np.sqrt(var / count), name
        assert abs(drawn.var() / var - 1) < 4 * np.sqrt(9 / count), name


@DTYPES
def test_the_first_and_the_last_bits_give_finite_numbers(dtype: Any, monkeypatch: Any) -> None:
    step = 2.0 ** -(23 if dtype == np.float32 else 52)
    extreme = np.array([0, step, 0.5, 1 - step], dtype)
    for module in (continuous, discrete):
        monkeypatch.setattr(module, "unit_interval", lambda key, shape, dtype: extreme)
    for name in CONTINUOUS:
        drawn = getattr(cr.random, name)(KEY, (4,), dtype)
        assert np.isfinite(drawn).all(), name
        steps = np.diff(drawn) * (-1 if name == "laplace" else 1)
        # the least u of these two is not 0
        assert (steps > 0).all() or (name in ("logistic", "cauchy") and (steps >= 0).all()), name
        assert not np.signbit(drawn[0]) or name != "exponential"
    for limits in ((-np.inf, np.inf), (8, np.inf), (30, 40), (-1, 1)):
        drawn = cr.random.truncated_normal(KEY, *limits, (4,), dtype)
        assert np.isfinite(drawn).all()
        assert (drawn >= limits[0]).all() and (drawn <= limits[1]).all()
    whole = extreme.astype(np.float64)
    monkeypatch.setattr(discrete, "unit_interval", lambda key, shape, dtype: whole)
    for low, high in ((0, 3), (-5, 2), (-(2**31), 2**31), (7, 8)):
        drawn = cr.random.randint(KEY, (4,), low, high)
        assert drawn[0] == low and (drawn < high).all()
    for p in ([0, 0.3, 0.7, 0], [1.0], [1, 2, 3]):
        assert (np.asarray(p)[cr.random.choice(KEY, len(p), (4,), p=p)] > 0).all()


def test_all_integers_of_a_range_are_equally_likely() -> None:
    drawn = cr.random.randint(KEY, (70_000,), -3, 4)
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert np.sum((counts - 10_000) ** 2 / 10_000) < 22.5  # the 99.9 % point of 6 degrees
    many = cr.random.randint(KEY, (100_000,), -(2**31), 2**31)
    assert distance(many, lambda x: (x + 2.0**31) / 2.0**32) < UNLIKELY
    small = cr.random.randint(KEY, (300,), 0, 256, np.uint8)
    assert small.dtype == np.uint8 and small.max() > 250
    each = cr.random.randint(KEY, (2, 3), [0, 10, 20], np.array([[5], [30]])[:1] + 20)
    assert ((each >= [0, 10, 20]) & (each < 25)).all()


def test_signs_and_classes_have_their_probabilities() -> None:
    signs = cr.random.rademacher(KEY, (100_000,), np.float32)
    assert set(signs.tolist()) == {-1.0, 1.0} and signs.dtype == np.float32
    assert abs(signs.mean()) < 4 / np.sqrt(100_000)
    p = np.array([0.1, 0.2, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    for drawn in (
        cr.random.categorical(KEY, logits, shape=(100_000,)),
        cr.random.categorical(KEY, logits + 1e4, shape=(100_000,)),
        cr.random.choice(KEY, 4, (100_000,), p=p),
        cr.random.choice(KEY, 4, (100_000,), p=30 * p),
    ):
        part = np.bincount(drawn, minlength=4) / 100_000
        assert (np.abs(part - p) <= 4 * np.sqrt(p * (1 - p) / 100_000)).all()


def test_shapes_of_categorical_and_choice() -> None:
    logits = np.zeros((2, 5, 3), np.float32)
    assert cr.random.categorical(KEY, logits).shape == (2, 5)
    assert cr.random.categorical(KEY, logits, axis=0).shape == (5, 3)
    assert cr.random.categorical(KEY, logits, axis=-2, shape=(7, 2, 3)).shape == (7, 2, 3)
    assert cr.random.categorical(KEY, logits, axis=-2).max() == 4
    rows = np.arange(12.0).reshape(4, 3)
    picked = cr.random.choice(KEY, rows, (2, 5))
    assert picked.shape == (2, 5, 3)
    np.testing.assert_array_equal(picked, rows[(picked[..., 0] / 3).astype(int)])
    assert cr.random.choice(KEY, 6).shape == ()


@pytest.mark.slow
def test_what_is_chosen_without_replacement_comes_up_once() -> None:
    for key in cr.random.split(KEY, 20):
        assert sorted(cr.random.choice(key, 6, (2, 3), False).ravel()) == list(range(6))
        assert len({*cr.random.choice(key, 6, (3,), False)}) == 3
        some = cr.random.choice(key, 4, (3,), False, p=[0.2, 0, 0.3, 0.5])
        assert sorted(some) == [0, 2, 3]
    first = [
        cr.random.choice(k, 3, (1,), False, p=[0.1, 0.3, 0.6])[0]
        for k in cr.random.split(KEY, 2000)
    ]
    part = np.bincount(first) / 2000
    np.testing.assert_allclose(part, [0.1, 0.3, 0.6], atol=4 * np.sqrt(0.25 / 2000))


def test_correlated_numbers_have_their_mean_and_covariance() -> None:
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 1.0], [1.0, 3.0]])
    drawn = cr.random.multivariate_normal(KEY, mean, cov, (100_000,), np.float64)
    assert drawn.shape == (100_000, 2)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=4 * np.sqrt(3 / 100_000))
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=4 * np.sqrt(18 / 100_000))
    several = cr.random.multivariate_normal(KEY, np.zeros((5, 2)), cov)
    assert several.shape == (5, 2) and several.dtype == np.float32


# In graphs ----------------------------------------------------------------------------------------


def drawn(
    x: float32[n, 5], key: uint32[2], logits: float64[n, 3], low: int64[()], a: float64[7, 2]
) -> Any:
    shape = x.shape
    result = {name: getattr(cr.random, name)(key, shape) for name in CONTINUOUS}
    result |= {f"{name}64": getattr(cr.random, name)(key, shape, np.float64) for name in CONTINUOUS}
    result["signs"] = cr.random.rademacher(key, shape)
    result["integers"] = cr.random.randint(key, shape, low, 50)
    result["sizes"] = cr.random.randint(key, (4,), 0, x.shape[0])
    result["classes"] = cr.random.categorical(key, logits)
    result["more"] = cr.random.categorical(key, logits, shape=(2, x.shape[0]))
    result["chosen"] = cr.random.choice(key, a, (x.shape[0],))
    result["weighted"] = cr.random.choice(key, 7, shape, p=np.arange(7.0))
    result["distinct"] = cr.random.choice(key, a, (4,), replace=False)
    result["favoured"] = cr.random.choice(key, 7, (4,), replace=False, p=np.arange(7.0))
    result["order"] = cr.random.permutation(key, 5000)
    return result


@pytest.mark.sweep(2)
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_graph_has_the_bits_that_are_drawn_at_once(executor: str) -> None:
    graph = cr.trace(drawn)
    for rows in (1, 3, 40):
        given = {
            "x": np.zeros((rows, 5), np.float32),
            "key": KEY,
            "logits": np.linspace(0, 1, 3 * rows).reshape(rows, 3),
            "low": np.int64(-2),
            "a": np.arange(14.0).reshape(7, 2),
        }
        run = graph.run(**given, executor=executor)
        at_once = drawn(**given)
        assert run.outputs.keys() == at_once.keys()
        for name, got in run.outputs.items():
            expected = at_once[name]
            assert (got.dtype, got.shape) == (expected.dtype, np.shape(expected)), name
            np.testing.assert_array_equal(got, expected, err_msg=name)


def test_the_limits_and_the_covariance_may_be_traced_and_have_derivatives() -> None:
    weights = np.linspace(0.5, 2, 6)

    def J(low: Any, high: Any, mean: Any, root: Any, key: Any) -> Any:
        x = cr.random.truncated_normal(key, low, high, (6,), np.float64)
        y = cr.random.multivariate_normal(key, mean, root @ root.T, (3,), np.float64)
        J = np.sum(weights * x) + np.sum(np.sin(y))
        return J

    given = (
        np.full(6, -1.0),
        np.array(0.7),
        np.array([0.3, -0.2]),
        np.array([[1.0, 0.0], [0.4, 0.8]]),
    )
    found = cr.grad(J, wrt=(0, 1, 2, 3))(*given, KEY)
    step = 1e-6
    for place, gradient in enumerate(found):
        for at in np.ndindex(given[place].shape):
            ends = []
            for sign in (1, -1):
                moved = [np.array(one) for one in given]
                moved[place][at] += sign * step
                ends.append(J(*moved, KEY))
            assert gradient[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    # and for both limits together every number moves between them
    assert (found[0] > 0).all()


def test_names_and_symbols_of_draws() -> None:
    def program(key: uint32[2], logits: float32[n, 3]) -> Any:
        noise = cr.random.gumbel(key, (3,))
        label = cr.random.categorical(key, logits)
        picked = cr.random.choice(key, logits, (2,))
        order = cr.random.permutation(key, 3)
        return noise, label, picked, order

    graph = cr.trace(program)
    assert {"noise", "label", "picked", "order"} <= set(graph.names)
    assert graph["noise"].origin.scope.symbol == "Gumbel"


def test_numbers_do_not_depend_on_the_version_of_anything() -> None:
    # Written down once; those of JAX 0.10.2 (see below) but for the integers and what is chosen.
    key = cr.random.key(42)
    assert cr.random.randint(key, (6,), 0, 100).tolist() == INTEGERS_OF_42
    assert cr.random.categorical(key, np.zeros((4, 9))).tolist() == CLASSES_OF_42
    assert cr.random.choice(key, 10, (4,), replace=False).tolist() == CHOSEN_OF_42
    assert cr.random.rademacher(key, (6,)).tolist() == SIGNS_OF_42
    np.testing.assert_allclose(cr.random.laplace(key, (3,)), LAPLACE_OF_42, rtol=1e-6)


INTEGERS_OF_42 = [42, 1, 57, 72, 68, 64]
CLASSES_OF_42 = [3, 4, 7, 1]
CHOSEN_OF_42 = [7, 4, 2, 5]
SIGNS_OF_42 = [1, -1, -1, -1, 1, -1]
LAPLACE_OF_42 = [0.02283965, -0.44565356, -0.26467288]


# JAX ----------------------------------------------------------------------------------------------


@pytest.mark.peers  # test_draws.py has what they are made of in float64, too
@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]
)
def test_draws_are_jaxs(dtype: Any) -> None:
    rtol = 2e-5 if dtype == np.float32 else 1e-12
    with jax_random(x64=dtype == np.float64) as random:
        theirs = random.key(7)
        for name in CONTINUOUS:
            ours = getattr(cr.random, name)(KEY, (40, 50), dtype)
            other = np.asarray(getattr(random, name)(theirs, (40, 50), dtype))
            assert ours.dtype == other.dtype
            # JAX rounds u and the difference from 1 or 1/2
            near = np.abs(ours) < 5 if name in ("logistic", "cauchy") else np.isfinite(ours)
            np.testing.assert_allclose(ours[near], other[near], rtol=rtol, atol=rtol)
        for limits in ((-1.0, 2.0), (0.5, 3.0)):
            ours = cr.random.truncated_normal(KEY, *limits, (40, 50), dtype)
            other = random.truncated_normal(theirs, *limits, (40, 50), dtype)
            np.testing.assert_allclose(ours, other, rtol=20 * rtol, atol=rtol)
        logits = np.linspace(-1, 1, 60, dtype=dtype).reshape(4, 5, 3)
        for options in ({}, {"axis": 0}, {"axis": 1, "shape": (6, 4, 3)}):
            ours = cr.random.categorical(KEY, logits, **options)
            equal(ours, np.asarray(random.categorical(theirs, logits, **options), np.int64))
        if dtype == np.float32:  # with x64 JAX tosses coins of 64 bits
            equal(
                cr.random.rademacher(KEY, (40,)),
                np.asarray(random.rademacher(theirs, (40,)), np.int64),
            )
        ours = cr.random.choice(KEY, 9, (5,), replace=False)
        equal(ours, np.asarray(random.choice(theirs, 9, (5,), replace=False), np.int64))
