"""Values: NumPy's own on every exceptional number, and the accuracy of what NumPy lacks."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest

from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.primitives.arithmetic import erf, integer_power, logistic
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.logic import where
from chainrule.primitives.primitive import Map
from chainrule.primitives.reduce import max_, min_, sum_
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.kernels import SCALAR_FUNCTIONS, evaluate_expression

EXCEPTIONAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-320, -1e-320, 1e308, -1e308]
DTYPES = ["float32", "float64"]


def grid(count, dtype):
    """Arrays that together hold every combination of exceptional numbers."""
    with np.errstate(over="ignore"):
        rows = np.array(list(itertools.product(EXCEPTIONAL, repeat=count))).astype(dtype)
    return [np.ascontiguousarray(column) for column in rows.T]


def same(got, expected):
    """Equal bit for bit, zeros with their signs; every NaN is equal."""
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_a_ufunc_gives_numpys_value_on_every_exceptional_number(ufunc, dtype):
    primitive = UFUNCS[ufunc]
    arrays = grid(len(primitive.inputs), dtype)
    if ufunc in (np.logical_and, np.logical_or, np.logical_not):
        arrays = [array.astype(bool) for array in arrays]
    if ufunc in (np.left_shift, np.right_shift):
        arrays = [np.nan_to_num(array).clip(-70, 70).astype(np.int64) for array in arrays]
    with np.errstate(all="ignore"):
        expected = (integer_power_of if primitive is integer_power else ufunc)(*arrays)
        same(np.asarray(primitive.evaluate(np, *arrays)), expected)


def integer_power_of(x):
    return x**3


MAPS = [p for p in PRIMITIVES if isinstance(p.kernel, Map)]


@pytest.mark.parametrize("primitive", MAPS, ids=lambda p: p.name)
def test_a_kernels_expression_has_the_same_exceptional_values(primitive):
    sample = primitive.samples[0]
    arrays = grid(len(primitive.inputs), "float64")
    for place, domain in enumerate(sample.domains):
        if domain == "bool":
            arrays[place] = arrays[place] > 0
        elif domain == "uint32":
            arrays[place] = np.nan_to_num(arrays[place][::11]).clip(-8, 7).astype(np.int64)
            arrays[place] = arrays[place].astype(np.uint32)
        elif isinstance(domain, str):
            arrays[place] = np.nan_to_num(arrays[place]).clip(-8, 7).astype(np.int64)
    params = dict(sample.params)
    names = {**params, **dict(zip(primitive.inputs, arrays, strict=True))}
    with np.errstate(all="ignore"):
        got = np.asarray(evaluate_expression(primitive.kernel.expression, names))
        expected = np.asarray(primitive.evaluate(np, *arrays, **params))
    assert got.dtype == expected.dtype
    # logistic is evaluated by another formula here: equal to a few roundings of numbers near 1
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-15 * (primitive is logistic))


@pytest.mark.parametrize(
    "expression",
    [
        "eval(x)",
        "x.real",
        "x[0]",
        "z",
        "lambda: x",
        "x if x else x",
        "x +",
        "'x'",
        "x < x < x",
        "x ** 2",
    ],
)
def test_a_kernels_expression_has_nothing_but_known_names_and_operations(expression):
    with pytest.raises(ValueError, match=r"not an expression|no known name or operation"):
        evaluate_expression(expression, {"x": np.ones(2)})


def test_every_scalar_function_is_used():
    texts = " ".join(str(primitive.kernel) for primitive in PRIMITIVES)
    assert [name for name in SCALAR_FUNCTIONS if name + "(" not in texts] == []


def test_where_keeps_what_the_other_branch_has():
    x, y = grid(2, "float64")
    same(where.evaluate(np, x > 0, x, y), np.where(x > 0, x, y))


@pytest.mark.parametrize("primitive", [max_, min_], ids=["max", "min"])
def test_nan_spreads_through_an_extreme_and_empty_axes_change_nothing(primitive):
    x = np.array([[1.0, np.nan], [np.inf, -np.inf]])
    got = primitive.evaluate(np, x, axes=(1,))
    assert np.isnan(got[0])
    assert np.isinf(got[1])
    np.testing.assert_array_equal(primitive.evaluate(np, x, axes=()), x)


def test_sums_keep_the_dtype_and_empty_ones_are_zero():
    for dtype in ("float16", "float32", "float64", "int32", "uint8"):
        total = sum_.evaluate(np, np.ones((2, 0), dtype), axes=(1,))
        assert total.dtype == dtype
        assert total.tolist() == [0, 0]


def test_negative_and_repeated_indices():
    x = np.array([10.0, 20.0, 30.0])
    index = np.array([-1, 0, -3, 2])
    assert gather.evaluate(np, x, index, wrap=True).tolist() == [30, 10, 10, 30]
    added = scatter_add.evaluate(np, np.ones(4), index, shape=(3,), wrap=True)
    assert added.tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("index", "wrap", "text"),
    [
        ([0, 3], True, "index 3 (at position 1 of the indices) is out of range"),
        ([-4, 0], True, "it must be from -3 to 2"),
        ([0, -1], False, "it must be from 0 to 2"),
    ],
)
def test_an_index_out_of_range_is_named(index, wrap, text):
    x = np.array([10.0, 20.0, 30.0])
    for call in (
        lambda: gather.evaluate(np, x, np.array(index), wrap=wrap),
        lambda: scatter_add.evaluate(np, np.ones(2), np.array(index), shape=(3,), wrap=wrap),
    ):
        with pytest.raises(IndexError) as caught:
            call()
        assert text in str(caught.value)


# Accuracy ----------------------------------------------------------------------------------


def ulps(got, exact):
    """The distance from the exact values in units of the last place of the float64 next to them."""
    nearest = np.array([float(value) for value in exact])
    error = [abs(float(mpmath.mpf(float(g)) - e)) for g, e in zip(got, exact, strict=True)]
    return np.array(error) / np.spacing(np.abs(nearest))


def dense(low, high, count=1500):
    return np.random.default_rng(0).uniform(low, high, count)


@pytest.mark.parametrize(
    "points",
    [dense(-6, 6), dense(-1e-3, 1e-3), 10.0 ** -dense(1, 300, 200), dense(5, 30, 200)],
    ids=["middle", "near 0", "tiny", "tail"],
)
def test_erf_is_within_four_ulp(points):
    with mpmath.workdps(40):
        exact = [mpmath.erf(mpmath.mpf(float(x))) for x in points]
        assert np.max(ulps(erf.evaluate(np, points), exact)) <= 4


@pytest.mark.parametrize(
    "points",
    [dense(-6, 6), dense(-1e-3, 1e-3), dense(-708, -6), dense(6, 708, 300), dense(-745, -708, 200)],
    ids=["middle", "near 0", "left tail", "right tail", "subnormal"],
)
def test_logistic_is_within_four_ulp(points):
    with mpmath.workdps(40):
        exact = [1 / (1 + mpmath.exp(-mpmath.mpf(float(x)))) for x in points]
        assert np.max(ulps(logistic.evaluate(np, points), exact)) <= 4


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("primitive", [erf, logistic], ids=lambda p: p.name)
def test_narrow_dtypes_are_within_four_ulp_of_float64(primitive, dtype):
    x = np.concatenate([dense(-9, 9), [0.0, -0.0]]).astype(dtype)
    got = primitive.evaluate(np, x)
    exact = primitive.evaluate(np, x.astype(np.float64))
    assert got.dtype == dtype
    assert np.all(np.abs(got - exact) <= 4 * np.spacing(np.abs(exact).astype(dtype)))


def test_erf_and_logistic_on_exceptional_numbers():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308])
    same(erf.evaluate(np, x), np.array([1, -1, np.nan, 0.0, -0.0, 1, -1]))
    same(logistic.evaluate(np, x), np.array([1, 0, np.nan, 0.5, 0.5, 1, 0]))
