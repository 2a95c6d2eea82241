"""Special functions: a few ulp from mpmath, far out too; every order; what they are at the ends."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import chainrule as cr

INF, NAN = np.inf, np.nan
RANDOM = np.random.default_rng(3)
ULPS = 4


def log_beta(x: Any, y: Any) -> Any:
    return mpmath.loggamma(x) + mpmath.loggamma(y) - mpmath.loggamma(x + y)


EXACT = {
    "erfc": mpmath.erfc,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "ndtr": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "log_ndtr": lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    "gammaln": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma,
    "logit": lambda x: mpmath.log(x / (1 - x)),
    "expit": lambda x: 1 / (1 + mpmath.exp(-x)),
    "entr": lambda x: -x * mpmath.log(x),
    "i0e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x),
    "i1e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x),
}
NEAR, WIDE = RANDOM.uniform(0.01, 3, 60), 10 ** RANDOM.uniform(0, 5, 40)
UNIT = np.concatenate([RANDOM.uniform(0, 1, 80), 0.5 + RANDOM.normal(size=20) * 1e-4])
TINY = 10 ** RANDOM.uniform(-323, 0, 40)
NORMAL = np.concatenate(
    [np.linspace(0.5, 9, 400), np.linspace(9, 12, 100), [9.877734277337487, 6.952]]
)
SWITCHES = np.concatenate([one + RANDOM.normal(size=8) * 1e-3 for one in (0.5, 0.7, 1, 2.3, 8)])
POINTS = {
    "erfc": np.concatenate([RANDOM.uniform(-6, 26, 150), SWITCHES, TINY]),
    "erfcx": np.concatenate([RANDOM.uniform(-26, 30, 120), WIDE, SWITCHES, -SWITCHES, TINY]),
    "ndtr": np.concatenate([RANDOM.uniform(-37, 9, 150), SWITCHES, -SWITCHES, -TINY, -NORMAL]),
    "log_ndtr": np.concatenate([RANDOM.uniform(-40, 2, 150), SWITCHES, -SWITCHES, -WIDE, NORMAL]),
    "gammaln": np.concatenate(
        [NEAR, WIDE, 1 + 1e-6 * NEAR, 2 - 1e-3 * NEAR, TINY, SWITCHES, 1.5 + NORMAL / 30 - 0.1]
    ),
    "digamma": np.concatenate([NEAR, WIDE, SWITCHES]),
    "logit": np.concatenate([UNIT, 1 / (1 + WIDE)]),
    "expit": RANDOM.uniform(-80, 40, 150),
    "entr": np.concatenate([NEAR, WIDE, 1 / WIDE]),
    "i0e": np.concatenate([NEAR, -NEAR, 1 + WIDE[:10] / 1e5, SWITCHES, TINY]),
    "i1e": np.concatenate([NEAR, -NEAR, 1 + WIDE[:10] / 1e5, SWITCHES, TINY]),
}


def ulps(found: np.ndarray, exact: list[Any]) -> float:
    """The largest error in units of the last place of the exact numbers."""
    rounded = np.array([float(one) for one in exact]).astype(found.dtype)
    spacing = np.spacing(np.abs(rounded))
    errors = [
        abs(mpmath.mpf(float(a)) - b) / float(c)
        for a, b, c in zip(found, exact, spacing, strict=True)
    ]
    return float(max(errors))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_ulps_of_exact_ones(name: str, dtype: Any, executor: str) -> None:
    x = POINTS[name].astype(dtype)
    if dtype == np.float32:  # subnormal results have ulps of their own
        x = (
            x[(np.abs(x) < 80) & (x > -9) & (x != 0)]
            if name != "logit"
            else x[(x > 1e-30) & (x < 1)]
        )
    with mpmath.workdps(60):
        exact = [EXACT[name](mpmath.mpf(float(one))) for one in x]
        graph = cr.trace(getattr(cr, name), x)
        by_reference = 4.5 if name in ("ndtr", "log_ndtr") else ULPS
        limit = by_reference if executor == "reference" else ULPS
        assert ulps(graph.run(x=x, executor=executor).outputs, exact) < limit
        assert ulps(getattr(cr, name)(x), exact) < by_reference


def test_betaln_cancels_nothing_but_its_own_zeros() -> None:
    x, y = np.concatenate([10 ** RANDOM.uniform(-3, top, (2, 300)) for top in (7, 1.3, 0.5)], 1)
    with mpmath.workdps(60):
        exact = [log_beta(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x, y, strict=True)]
    wanted = np.array([float(one) for one in exact])
    eps = np.finfo(np.float64).eps
    for found in (cr.betaln(x, y), cr.betaln(y, x)):
        assert np.all(np.abs(found - wanted) <= 5 * eps * np.maximum(np.abs(wanted), 1))


@pytest.mark.parametrize("name", ["gammaln", "digamma"])
def test_below_0_the_error_is_small_beside_1_or_the_value(name: str) -> None:
    x = -np.concatenate([RANDOM.uniform(0, 6, 300), RANDOM.uniform(6, 40, 300)])
    with mpmath.workdps(60):
        exact = np.array([float(EXACT[name](mpmath.mpf(one))) for one in x])
    eps = np.finfo(np.float64).eps
    assert np.all(np.abs(getattr(cr, name)(x) - exact) <= 8 * eps * np.maximum(np.abs(exact), 1))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("at", [0.31, 0.7])
@pytest.mark.parametrize("name", EXACT)
def test_derivatives_of_every_order(name: str, at: float) -> None:
    function = getattr(cr, name)
    with mpmath.workdps(40):
        for order in range(1, 5):
            function = cr.grad(function)
            exact = mpmath.diff(EXACT[name], mpmath.mpf(at), order)
            np.testing.assert_allclose(function(at), float(exact), rtol=2e-13)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("erfcx", -8.0), ("erfcx", 0.0), ("erfcx", 5.0), ("erfcx", 1e4),
        ("log_ndtr", -30.0), ("log_ndtr", -2.0), ("log_ndtr", 0.0), ("log_ndtr", 5.0),
        ("erfc", 6.0), ("ndtr", -20.0), ("gammaln", -1.3), ("digamma", -2.6), ("gammaln", 1e5),
        ("i0e", -3.0), ("i1e", 12.0), ("i1e", -0.4), ("entr", 1e-9), ("logit", 1 - 1e-9),
    ],
)  # fmt: skip
def test_first_and_second_derivatives_far_out(name: str, at: float) -> None:
    with mpmath.workdps(60):
        slope, bend = (float(mpmath.diff(EXACT[name], mpmath.mpf(at), k)) for k in (1, 2))
    function = getattr(cr, name)
    np.testing.assert_allclose(cr.grad(function)(at), slope, rtol=1e-11)
    np.testing.assert_allclose(cr.grad(cr.grad(function))(at), bend, rtol=1e-9)
    np.testing.assert_allclose(cr.hessian(function)(at), bend, rtol=1e-9)


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    ("name", "given", "value", "slope"),
    [
        ("erfc", INF, 0, 0), ("erfc", -INF, 2, 0), ("erfcx", INF, 0, 0), ("erfcx", -INF, INF, -INF),
        ("ndtr", -INF, 0, 0), ("ndtr", INF, 1, 0), ("log_ndtr", INF, 0, 0),
        ("log_ndtr", -INF, -INF, INF), ("log_ndtr", 40.0, 0, 0), ("log_ndtr", 1e200, 0, 0),
        ("gammaln", 1.0, 0, -np.euler_gamma), ("gammaln", 2.0, 0, 1 - np.euler_gamma),
        ("gammaln", 0.0, INF, -INF), ("gammaln", -1.0, INF, NAN), ("digamma", -1.0, NAN, NAN),
        ("logit", 0.0, -INF, INF), ("logit", 0.5, 0, 4), ("logit", 1.5, NAN, -4 / 3),
        ("entr", 0.0, 0, INF), ("entr", -1.0, -INF, NAN), ("entr", 1.0, 0, -1),
        ("i0e", 0.0, 1, 0), ("i1e", 0.0, 0, 0.5), ("expit", -INF, 0, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_what_they_are_at_the_ends(
    name: str, given: float, value: float, slope: float, executor: str
) -> None:
    function = getattr(cr, name)
    x = np.asarray(given)
    with np.errstate(all="ignore"):
        run = cr.backward(cr.trace(lambda x: function(x), x), wrt="x").run(x=x, executor=executor)
    np.testing.assert_allclose(run["out"], value, rtol=1e-14, atol=0)
    np.testing.assert_allclose(run["dout/dx"], slope, rtol=1e-14, atol=0)
    assert np.isnan(function(NAN))


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_xlogy_beside_zero(executor: str) -> None:
    x, y = np.array([0, 0, 0, 0, 2, 0, NAN]), np.array([0, 2, -1, NAN, 0, INF, 1])
    graph = cr.backward(cr.trace(lambda x, y: cr.xlogy(x, y), x, y), ("x", "y"), seed=np.ones(7))
    with np.errstate(all="ignore"):
        run = graph.run(x=x, y=y, executor=executor)
    np.testing.assert_array_equal(run["out"], scipy.special.xlogy(x, y))
    np.testing.assert_array_equal(run["dout/dx"], [0, np.log(2), 0, NAN, -INF, INF, 0])
    np.testing.assert_array_equal(run["dout/dy"], [0, 0, 0, NAN, INF, 0, NAN])


SAME = {
    "erf": cr.erf, "erfc": cr.erfc, "erfcx": cr.erfcx, "ndtr": cr.ndtr, "log_ndtr": cr.log_ndtr,
    "gammaln": cr.gammaln, "digamma": cr.digamma, "psi": cr.digamma, "logit": cr.logit,
    "expit": cr.expit, "entr": cr.entr, "i0e": cr.i0e, "i1e": cr.i1e, "expm1": np.expm1,
    "log1p": np.log1p, "exp2": np.exp2, "cbrt": np.cbrt,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("name", SAME)
def test_scipys_functions_are_traced(name: str, dtype: Any) -> None:
    of_scipy = getattr(scipy.special, name)
    x = np.array([0.2, 0.7]).astype(dtype)
    graph = cr.trace(lambda x: of_scipy(x), x)
    assert graph.outputs[0][1].primitive is cr.trace(SAME[name], x).outputs[0][1].primitive
    with np.errstate(all="ignore"):
        found, wanted = graph.run(x=x).outputs, of_scipy(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_scipys_functions_of_two_arguments_broadcast() -> None:
    x, y = np.array([[1.0], [2.0]]), np.array([0.5, 3.0])
    for name in ("xlogy", "betaln"):
        function = getattr(scipy.special, name)
        for other in (y, 2.0, 2):
            found = cr.trace(lambda x, f=function, y=other: f(x, y), x).run(x=x).outputs
            np.testing.assert_allclose(found, function(x, other), rtol=1e-14)
            np.testing.assert_allclose(getattr(cr, name)(x, other), function(x, other), rtol=1e-14)
    assert cr.xlogy(0.5, np.ones(2, np.float32)).dtype == np.float32
    assert cr.vmap(cr.betaln)(x, y).shape == (2, 1)


ROOT = float(np.sqrt(2))
SAME_FUNCTION = [
    (lambda x: 1 - cr.erf(x), cr.erfc),
    (lambda x: 1.0 - scipy.special.erf(x), cr.erfc),
    (lambda x: -cr.erf(x) + 1, cr.erfc),
    (lambda x: np.float64(1) - cr.erf(x), cr.erfc),
    (lambda x: np.array(1.0) - cr.erf(x), cr.erfc),
    (lambda x: np.ones_like(x) - cr.erf(x), cr.erfc),
    (lambda x: 1 + cr.erf(-x), cr.erfc),
    (lambda x: cr.erf(-x) + 1, cr.erfc),
    (lambda x: cr.erf(x) - 1, lambda x: -cr.erfc(x)),
    (lambda x: -1 - cr.erf(-x), lambda x: -cr.erfc(x)),
    (lambda x: 0.5 * (1 - cr.erf(x / ROOT)), lambda x: 0.5 * cr.erfc(x / ROOT)),
    (lambda x: 0.5 - 0.5 * cr.erf(x), lambda x: 0.5 * cr.erfc(x)),
    (lambda x: -0.5 * cr.erf(x) + 0.5, lambda x: 0.5 * cr.erfc(x)),
    (lambda x: 0.5 * cr.erf(-x) + 0.5, lambda x: 0.5 * cr.erfc(x)),
    (lambda x: cr.erf(x) * 0.5 - 0.5, lambda x: -0.5 * cr.erfc(x)),
    (lambda x: 0.5 - cr.erf(x) / 2, lambda x: 0.5 * cr.erfc(x)),
    (lambda x: 0.3 - 0.3 * cr.ndtr(x), lambda x: 0.3 * cr.ndtr(-x)),
    (lambda x: -2 - 2 * cr.erf(-x), lambda x: -2 * cr.erfc(x)),
    (lambda x: 1 - cr.erfc(x), cr.erf),
    (lambda x: 1 - cr.expit(x), lambda x: cr.expit(-x)),
    (lambda x: 1 - cr.sigmoid(x), lambda x: cr.expit(-x)),
    (lambda x: 1 - cr.ndtr(x), lambda x: cr.ndtr(-x)),
    (lambda x: np.log(cr.ndtr(-x)), lambda x: cr.log_ndtr(-x)),
    (lambda x: np.log1p(-cr.ndtr(x)), lambda x: cr.log_ndtr(-x)),
    (lambda x: np.log(cr.expit(x)), scipy.special.log_expit),
    (lambda x: np.log(1 - cr.expit(x)), lambda x: scipy.special.log_expit(-x)),
    (lambda x: np.log1p(-cr.sigmoid(x)), lambda x: scipy.special.log_expit(-x)),
]


@pytest.mark.parametrize(("written", "meant"), SAME_FUNCTION)
def test_differences_that_would_lose_their_digits_are_one_function(
    written: Any, meant: Any
) -> None:
    x = np.array([-9.0, -3.0, 0.1, 4.9, 26.0])
    np.testing.assert_array_equal(cr.trace(written, x).run(x=x).outputs, meant(x))


def test_the_normal_distribution_by_erf_stays_compiled() -> None:
    graph = cr.trace(lambda x: x * 0.5 * (1 + cr.erf(x / ROOT)), np.ones(3))
    assert "erfc" not in str(graph)


LOGS = [
    (lambda x: np.log(cr.erfc(x)), 1),
    (lambda x: np.log(1 - cr.erf(x)), 1),
    (lambda x: np.log1p(-cr.erf(x)), 1),
    (lambda x: np.log1p(cr.erf(x)), -1),
]


@pytest.mark.parametrize(("written", "sign"), LOGS)
def test_the_logarithm_of_erfc_is_finite_and_has_its_derivatives(written: Any, sign: int) -> None:
    x = np.array([-5.0, -0.4, 1e-9, 0.49, 0.51, 3.0, 30.0, 1e9]) * sign
    first = cr.grad(lambda x: np.sum(written(x)))
    second = cr.grad(lambda x: np.sum(first(x)))
    with mpmath.workdps(80):
        exact = [
            [
                float(mpmath.diff(lambda t: mpmath.log(mpmath.erfc(t)), sign * one, k))
                for one in x[:7]
            ]
            for k in range(3)
        ]
    for k, function in enumerate((lambda x: cr.trace(written, x).run(x=x).outputs, first, second)):
        found = function(x) * (sign if k == 1 else 1)
        np.testing.assert_allclose(found[:7], exact[k], rtol=(4e-16, 1e-13, 1e-11)[k])
    np.testing.assert_allclose(second(x)[7], -2, rtol=1e-15)


def test_a_difference_in_a_wider_dtype_is_taken_there() -> None:
    x = np.array([4.9, 0.2], np.float32)
    found = cr.trace(lambda x: np.float64(1) - cr.erf(x), x).run(x=x).outputs
    np.testing.assert_array_equal(found, cr.erfc(x.astype(np.float64)))


@pytest.mark.parametrize("name", ["erf", "sigmoid", *EXACT])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float32"])
def test_integers_become_floats_as_in_scipy(name: str, dtype: str) -> None:
    function = getattr(cr, name)
    of_scipy = getattr(scipy.special, {"sigmoid": "expit"}.get(name, name))
    x = np.ones(2, dtype)
    wanted = of_scipy(x).dtype
    assert function(x).dtype == wanted
    assert cr.trace(lambda x: function(x), x).run(x=x).outputs.dtype == wanted


def test_two_integers_become_floats_as_in_scipy() -> None:
    for name in ("xlogy", "betaln"):
        for left in ("int8", "int64", "float32", "float64"):
            for right in ("uint8", "int32", "float32"):
                x, y = np.ones(2, left), np.ones(2, right)
                found, wanted = (getattr(one, name)(x, y).dtype for one in (cr, scipy.special))
                assert found == wanted, (name, left, right)


def test_a_difference_of_a_named_value_stays_a_difference() -> None:
    def f(x: Any) -> Any:
        e = cr.erf(x)
        y = 1 - e
        return y

    graph = cr.trace(f, np.asarray(0.5))
    assert graph["y"].primitive.name == "subtract"
    assert cr.backward(graph, wrt="e").run(x=0.5)["dy/de"] == -1
    for other in (
        lambda x: 2 - cr.erf(x),
        lambda x: cr.erf(x) - 0.5,
        lambda x: 0.4 - 0.5 * cr.erf(x),
        lambda x: 2 - cr.erf(x) / 2,
        lambda x: True - cr.erf(x),
    ):
        assert cr.trace(other, np.asarray(0.5)).outputs[0][1].primitive.name == "subtract"
