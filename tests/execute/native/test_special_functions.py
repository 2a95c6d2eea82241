"""Special functions in native code: their errors against mpmath, and what they are at the ends."""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from emitted import TARGETS, WIDTHS, function
from exact_special import scaled_bessel, slope_of_erfcx, slope_of_i0e, slope_of_i1e

from chainrule.execute.native.libm.mathematics import FUNCTIONS

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
INF, NAN = np.inf, np.nan


SPECIAL = {"erfc", "erfcx", "ndtr", "i0e", "i1e", "gammaln", "digamma"}
OF_GAMMA = {"gammaln", "digamma"}
FIRST_ZERO = 0.9616321449683623  # of digamma, less 0.5
EXACT: dict[str, Any] = {
    "erfc": mpmath.erfc,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "erfcx_slope": slope_of_erfcx,
    "ndtr": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "gammaln": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma,
    "i0e": scaled_bessel(0),
    "i1e": scaled_bessel(1),
    "i0e_slope": slope_of_i0e,
    "i1e_slope": slope_of_i1e,
}
# Where they leave the normal numbers: in float, in double.
ENDS = {
    "erfc": ((-4.5, 10.1), (-6.5, 27.3)),
    "erfcx": ((-9.3, 60), (-26.6, 60)),
    "erfcx_slope": ((-9.1, 60), (-26.5, 60)),
    "ndtr": ((-12.9, 6), (-37.5, 9)),
    "gammaln": ((0.1, 40), (0.1, 40)),
    "digamma": ((0.1, 40), (0.1, 40)),
}
# In units of the last place.  Slopes are derivatives, for which nothing is promised.
GREATEST_ERROR = dict.fromkeys(EXACT, 4.0) | dict.fromkeys(EXACT.keys() - SPECIAL, 6.0)
WITHOUT_FMA = GREATEST_ERROR | {"erfc": 4.5, "ndtr": 4.5}
# Where the power of e of -x² once rounded too often: of 75,000 numbers those with most.
WORST = {
    "erfc": [1.8865338563919067, 2.2008814811706543, 3.565762758255005, 9.952727612980329,
             18.106748357360413, 5.062113258241091, 15.404845971787825, 17.703972464122256],
    "ndtr": [-2.664289951324463, -10.560269355773926, -11.308565139770508, -1.1729280274718477,
             -26.511089145319737, -10.096330642700195, -22.346291934991800, -36.7628522759271],
}  # fmt: skip
CASES = pytest.mark.parametrize(
    ("name", "dtype", "target"),
    [(name, dtype, target) for name in EXACT for dtype in (F4, F8) for target in TARGETS],
    ids=lambda one: str(one),
)


def emitted(name: str, dtype: np.dtype, target: str, scalar: bool = False) -> Any:
    lanes = 0 if scalar else WIDTHS[target] // dtype.itemsize
    return function(FUNCTIONS[name], [dtype], dtype, lanes, TARGETS[target])


def sample(name: str, dtype: np.dtype, count: int) -> np.ndarray:
    """Numbers between the ends, near 0 and where formulas change."""
    random = np.random.default_rng(0)
    low, high = ENDS.get(name, ((-40, 40),) * 2)[dtype == F8]
    turns = np.repeat([0.5, 0.7, 1.545, 2.5, 8.0, -8.0, -0.5], 8)
    turns = turns + random.normal(size=turns.size) * 1e-6
    parts = (
        random.uniform(low, high, count),
        random.uniform(-3, 3, count),
        10 ** random.uniform(-30, 1, count // 4),
        -(10 ** random.uniform(-30, 0, count // 4)),
        [] if name in ("erfc", "ndtr") else 10 ** random.uniform(1, 18, count // 4),
        turns,
        [one for one in WORST.get(name, []) if low < one < high],
    )
    x = np.concatenate(parts)
    if name in OF_GAMMA:  # below 0 are zeros, beside which they are right in absolute terms
        x = np.concatenate([x[x > 0], 1 + random.normal(size=16) * 1e-5, FIRST_ZERO + turns[:8]])
        x = np.append(x, [1, 1.25, 1.75, 2, 3, 10])
    return x.astype(dtype)


@cache
def exact_values(name: str, dtype: np.dtype, count: int) -> tuple[np.ndarray, list[Any]]:
    """The sample, and the values there, which all targets share."""
    x = sample(name, dtype, count)
    with mpmath.workdps(60):
        return x, [EXACT[name](mpmath.mpf(float(one))) for one in x]


def errors(exact: list[Any], got: np.ndarray) -> np.ndarray:
    """In units of the last place."""
    with mpmath.workdps(60):
        size = np.array([float(one) for one in exact])
        unit = np.spacing(np.abs(size).astype(got.dtype))
        return np.array(
            [
                float(abs(mpmath.mpf(float(a)) - b) / float(c))
                for a, b, c in zip(got, exact, unit, strict=True)
            ]
        )


def check(name: str, dtype: np.dtype, target: str, count: int) -> float:
    x, exact = exact_values(name, dtype, count)
    found = errors(exact, emitted(name, dtype, target)(x))
    limits = WITHOUT_FMA if target == "sse2" else GREATEST_ERROR
    assert found.max() <= limits[name], (x[found.argmax()], found.max())
    return float(found.max())


@pytest.mark.sweep(5)
@CASES
def test_errors_are_at_most_4_units_of_the_last_place(
    name: str, dtype: np.dtype, target: str
) -> None:
    check(name, dtype, target, 100)


@pytest.mark.slow
@pytest.mark.sweep(11)
@CASES
def test_errors_of_many_numbers_are_small(
    name: str, dtype: np.dtype, target: str, record_property: Any
) -> None:
    worst = check(name, dtype, target, 300)
    record_property("ran", f"{name} in {dtype} for {target}: {worst:.2f} ulp")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", sorted(OF_GAMMA))
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_below_0_errors_are_8_eps_of_the_value_or_of_1(
    name: str, dtype: np.dtype, target: str
) -> None:
    random = np.random.default_rng(1)
    parts = random.uniform(-40, 0, 150), -(10 ** random.uniform(-30, 0, 30)), [-0.5, -39.5]
    x = np.concatenate(parts).astype(dtype)
    got = emitted(name, dtype, target)(x)
    eps = np.finfo(dtype).eps
    with mpmath.workdps(60):
        for at, found in zip(x, got, strict=True):
            exact = EXACT[name](mpmath.mpf(float(at)))
            assert abs(mpmath.mpf(float(found)) - exact) <= 8 * eps * max(1, abs(exact)), at


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("erfc", [NAN, INF, -INF, 0, -0.0, 1e30, -1e30], [NAN, 0, 2, 1, 1, 0, 2]),
        ("erfcx", [NAN, INF, -INF, 0, -0.0, -1e30], [NAN, 0, INF, 1, 1, INF]),
        ("erfcx_slope", [NAN, INF, -INF, -1e30], [NAN, 0, -INF, -INF]),
        ("ndtr", [NAN, INF, -INF, 0, -0.0, 1e30, -1e30], [NAN, 1, 0, 0.5, 0.5, 1, 0]),
        ("gammaln", [NAN, INF, -INF, 0, -0.0, -1, -1e30], [NAN, INF, -INF, INF, INF, INF, INF]),
        ("digamma", [NAN, INF, -INF, 0, -0.0, -1, -1e30], [NAN, INF, NAN, -INF, INF, NAN, NAN]),
        ("i0e", [NAN, INF, -INF, 0, -0.0], [NAN, 0, 0, 1, 1]),
        ("i1e", [NAN, INF, -INF, 0, -0.0], [NAN, 0, 0, 0, -0.0]),
        ("i0e_slope", [NAN, INF, -INF, 0, -0.0], [NAN, 0, 0, 0, 0]),
        ("i1e_slope", [NAN, INF, -INF, 0, -0.0], [NAN, 0, 0, 0.5, 0.5]),
    ],
)
def test_what_they_are_at_the_ends(
    name: str, given: list[float], wanted: list[float], dtype: np.dtype, target: str
) -> None:
    got = emitted(name, dtype, target)(np.array(given, dtype))
    np.testing.assert_allclose(got, wanted, rtol=2 * np.finfo(dtype).eps, atol=0)
    if name == "i1e":
        np.testing.assert_array_equal(np.signbit(got[3:]), [False, True])


@pytest.mark.sweep(5)
@CASES
def test_a_scalar_gets_the_same_bits_as_a_lane(name: str, dtype: np.dtype, target: str) -> None:
    x = np.append(sample(name, dtype, 300), np.array([NAN, INF, -INF, 0, -0.0], dtype))
    vector, scalar = emitted(name, dtype, target)(x), emitted(name, dtype, target, scalar=True)(x)
    np.testing.assert_array_equal(vector, scalar)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_tails_go_down_through_the_subnormal_numbers(dtype: np.dtype, target: str) -> None:
    least = np.finfo(dtype).smallest_subnormal
    for name, sign, ends in (("erfc", 1, (9, 10.5)), ("ndtr", -1, (12.5, 14.5))):
        low, high = ends if dtype == F4 else (26 if sign > 0 else 37, 28 if sign > 0 else 39.5)
        x = (sign * np.linspace(low, high, 400)).astype(dtype)
        got = emitted(name, dtype, target)(x)
        with mpmath.workdps(40):
            exact = [EXACT[name](mpmath.mpf(float(one))) for one in x]
        assert got[0] > 0 and got[-1] == 0
        assert np.all(np.diff(got) <= 0)
        for a, b in zip(got, exact, strict=True):
            assert abs(float(a) - b) <= 4 * max(float(least), float(b) * np.finfo(dtype).eps)
