"""solve_triangular, lu and expm: SciPy's numbers, stacks, named sizes, edges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError, EvaluationError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(41)


def matrices(*shape: int) -> Any:
    return RANDOM.normal(size=shape) + 2 * np.eye(shape[-1])


@pytest.mark.parametrize("trans", [0, "T"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems_are_scipys(trans: Any, lower: bool, unit: bool) -> None:
    a = matrices(4, 4)
    nan = np.where(np.tri(4, k=-1).T > 0 if lower else np.tri(4, k=-1) > 0, np.nan, a)
    for b in (RANDOM.normal(size=4), RANDOM.normal(size=(4, 2)), np.zeros((4, 0))):
        wanted = scipy.linalg.solve_triangular(a, b, trans, lower, unit) if b.size else b
        found = cr.solve_triangular(nan, b, trans, lower, unit)  # the rest is not read
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 4), (1, 1), (1, 3)])
def test_factors_are_scipys(shape: tuple[int, int]) -> None:
    a = RANDOM.normal(size=shape)
    for ours, theirs in zip(cr.lu(a), scipy.linalg.lu(a), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    both, upper = cr.lu(a, permute_l=True)
    np.testing.assert_allclose(both @ upper, a, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scale", [0, 1e-9, 0.1, 3, 40])
def test_exponentials_are_scipys(scale: float) -> None:
    a = RANDOM.normal(size=(2, 4, 4)) * scale
    wanted = scipy.linalg.expm(a)
    close = 1e-13 * max(1, scale) * np.abs(wanted).max()
    np.testing.assert_allclose(cr.expm(a), wanted, rtol=0, atol=close)


def test_an_exponential_that_is_known() -> None:
    turned = cr.expm(np.array([[0.0, -2], [2, 0]]))
    np.testing.assert_allclose(turned, [[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]], 1e-14)
    np.testing.assert_array_equal(cr.expm(np.zeros((3, 3))), np.eye(3))
    assert cr.expm(np.zeros((0, 0))).shape == (0, 0)
    nan = cr.expm(np.stack([np.eye(2) * np.nan, np.eye(2)]))
    assert np.isnan(nan[0]).all() and np.isfinite(nan[1]).all()


def program(a: float64["s n n"], b: float64["n 2"], m: float64["n n"]):
    x = cr.solve_triangular(a, b, lower=True, unit_diagonal=True)
    y = cr.solve_triangular(m, b[:, 0], "T")
    P, L, U = cr.lu(a)
    e = cr.expm(m)
    J = np.sum(np.sin(x)) + np.sum(y) + np.sum(L**2) + np.sum(np.cos(U)) + np.sum(e * P[0])
    return J


@EITHER
def test_stacks_and_named_sizes(executor: str) -> None:
    graph = cr.backward(cr.trace(program), wrt=("a", "b", "m"))
    for s, n in ((2, 3), (1, 1)):
        given = {"a": matrices(s, n, n), "b": RANDOM.normal(size=(n, 2)), "m": matrices(n, n)}
        run = graph.run(**given, executor=executor)
        assert run["J"] == pytest.approx(program(**given), rel=1e-12)
        for place in range(s):
            wanted = scipy.linalg.lu(given["a"][place])
            for name, one in zip("PLU", wanted, strict=True):
                np.testing.assert_allclose(run[name][place], one, rtol=1e-12, atol=1e-13)


@pytest.mark.slow  # the quick tier compares them with PyTorch's
def test_both_orders_agree_with_finite_differences() -> None:
    check_gradients(program, matrices(2, 3, 3), RANDOM.normal(size=(3, 2)), matrices(3, 3), order=2)
    for shape in ((4, 2), (2, 4)):
        check_gradients(
            lambda a: sum(np.sum(np.sin(one)) for one in cr.lu(a)[1:]),
            RANDOM.normal(size=shape),
            order=2,
        )


def test_integers_become_floats_and_float32_stays() -> None:
    whole, single = np.array([[2, 0], [1, 4]]), np.eye(2, dtype=np.float32)
    assert cr.solve_triangular(whole, np.array([2, 4]), lower=True).dtype == np.float64
    assert [one.dtype for one in cr.lu(single)] == [np.float32] * 3
    assert cr.expm(single).dtype == np.float32
    assert cr.trace(lambda a: cr.expm(a), single).run(a=single).outputs.dtype == np.float32


def test_a_zero_on_the_diagonal_is_an_error_of_the_run() -> None:
    def solved(a: float64["n n"], b: float64["n"]):
        x = cr.solve_triangular(a, b)
        return x

    a = np.array([[1.0, 2], [0, 0]])
    with pytest.raises(EvaluationError, match="Singular matrix"):
        cr.trace(solved).run(a=a, b=np.ones(2))
    np.testing.assert_array_equal(cr.solve_triangular(a, np.ones(2), 0, False, True), [-1, 1])


x = np.eye(3)
REFUSALS = {
    "solve_triangular needs square matrices": (
        lambda x: cr.solve_triangular(x[:2], np.ones(2)),
        "the last two axes are rows and columns, equally many",
    ),
    "and a right side float64[2]": (
        lambda x: cr.solve_triangular(x, np.ones(2)),
        "as many rows as the matrices",
    ),
    "trans=3 is not known": (lambda x: cr.solve_triangular(x, np.ones(3), 3), "transposed"),
    "solve_triangular: lower='yes' is neither True nor False": (
        lambda x: cr.solve_triangular(x, np.ones(3), lower="yes"),  # type: ignore[arg-type]
        "lower=True",
    ),
    "lu needs matrices": (lambda x: cr.lu(x[0]), "rows and columns"),
    "expm needs square matrices": (lambda x: cr.expm(x[:2]), "equally many"),
    "expm is not defined for": (lambda x: cr.expm(x.astype(np.float16)), ".astype(np.float32)"),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str, is_traced: bool) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, x) if is_traced else call(x)
    assert text in str(caught.value) and hint in str(caught.value)


def test_factors_of_matrices_of_unknown_form_are_refused() -> None:
    def factors(a: float64["m n"]):
        return cr.lu(a)[1]

    with pytest.raises(ChainruleError, match="more rows or more columns is not known"):
        cr.trace(factors)
