"""Equal and nearly equal eigenvalues and singular values: gradients of functions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import chainrule as cr

Q = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
U = np.linalg.qr(np.random.default_rng(6).normal(size=(4, 3)))[0]
GAPS = [0.0, 1e-16, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0]
SPECTRA = {
    "a pair": lambda gap: [1, 1 + gap, 3],
    "all": lambda gap: [1, 1 + gap, 1 + 2 * gap],
    "at zero": lambda gap: [0, gap, 1],
    "around zero": lambda gap: [-gap, gap, 2],
}
# Symmetric functions of the eigenvalues l, whose gradient is Q diag(f'(l)) Q'.
OF_EIGENVALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (lambda x: np.sum(np.exp(np.linalg.eigvalsh(x))), np.exp),
    "square": (lambda x: np.sum(np.linalg.eigvalsh(x) ** 2), lambda v: 2 * v),
    "exp by eigh": (lambda x: np.sum(np.exp(np.linalg.eigh(x)[0])), np.exp),
    "trace": (lambda x: np.sum(np.linalg.eigvalsh(x)), np.ones_like),
}
OF_SINGULAR_VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "square": (lambda x: np.sum(np.linalg.svdvals(x) ** 2), lambda s: 2 * s),
    "square by svd": (
        lambda x: np.sum(np.linalg.svd(x, full_matrices=False)[1] ** 2),
        lambda s: 2 * s,
    ),
    "exp of square": (
        lambda x: np.sum(np.exp(np.linalg.svdvals(x) ** 2)),
        lambda s: 2 * s * np.exp(s * s),
    ),
}


def symmetric(x: np.ndarray) -> np.ndarray:
    return (x + x.T) / 2


@pytest.mark.sweep(5)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", OF_EIGENVALUES)
def test_gradients_of_functions_of_eigenvalues_do_not_see_the_gap(
    name: str, spectrum: str, gap: float
) -> None:
    function, slope = OF_EIGENVALUES[name]
    values = np.array(SPECTRA[spectrum](gap))
    found = symmetric(cr.grad(function)(symmetric((Q * values) @ Q.T)))
    # The matrix is rounded, so its eigenvalues are by some 1e-16 others.
    np.testing.assert_allclose(found, (Q * slope(values)) @ Q.T, rtol=0, atol=1e-13)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", OF_SINGULAR_VALUES)
def test_gradients_of_functions_of_singular_values_do_not_see_the_gap(
    name: str, spectrum: str, gap: float
) -> None:
    function, slope = OF_SINGULAR_VALUES[name]
    values = np.abs(SPECTRA[spectrum](gap))
    found = cr.grad(function)((U * values) @ Q.T)
    wanted = (U * slope(values)) @ Q.T
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * max(1, np.max(abs(wanted))))


def second(function: Callable[[Any], Any], x: np.ndarray, along: np.ndarray) -> list[np.ndarray]:
    """The Hessian times a direction, by two reverse modes and by forward over reverse."""
    return [
        cr.grad(lambda x: np.sum(cr.grad(function)(x) * along))(x),
        cr.hvp(function, x, along),
    ]


TIED = [
    [1.0, 2.0, 2.0],
    [2.0, 2.0, 2.0],
    [0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0],
    [0.0, 1.0, 3.0],
    [-1.0, -1.0, 1e9],
]
TURNS = [np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0] for seed in range(8)]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("values", TIED, ids=str)
@pytest.mark.parametrize("name", [name for name in OF_EIGENVALUES if name.startswith("square")])
def test_second_derivatives_at_equal_eigenvalues_are_right_or_nan(
    name: str, values: list[float], dtype: Any
) -> None:
    function = OF_EIGENVALUES[name][0]
    along = symmetric(np.random.default_rng(8).normal(size=(3, 3)))
    for turn in (np.eye(3), *TURNS):  # rounded, they are equal or differ by some 1e-16
        x = symmetric((turn * values) @ turn.T).astype(dtype)
        right_or_nan(second(function, x, along.astype(dtype)), 2 * along, dtype)


@pytest.mark.sweep(41)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
@pytest.mark.parametrize("values", TIED, ids=str)
@pytest.mark.parametrize("name", ["square", "square by svd"])
def test_second_derivatives_at_equal_singular_values_are_right_or_nan(
    name: str, values: list[float], shape: tuple[int, int], dtype: Any
) -> None:
    function = OF_SINGULAR_VALUES[name][0]
    along = np.random.default_rng(9).normal(size=shape)
    for place, turn in enumerate((np.eye(3), *TURNS)):
        left = np.eye(*shape)[:, :3] if not place else TURNS[-place]
        if place and shape == (4, 3):
            left = np.linalg.qr(np.random.default_rng(place).normal(size=shape))[0]
        x = (left[:, :3] * np.abs(values)) @ turn.T
        if shape == (3, 4):
            x = x @ np.linalg.qr(np.random.default_rng(place).normal(size=(4, 3)))[0].T
        right_or_nan(second(function, x.astype(dtype), along.astype(dtype)), 2 * along, dtype)


def right_or_nan(found: list[np.ndarray], wanted: np.ndarray, dtype: Any) -> None:
    # Values apart by more than rounding have vectors that are right to some of their last digits.
    atol = 1e-3 if dtype == np.float32 else 1e-5
    for one in found:
        assert not np.any(np.isinf(one))
        known = ~np.isnan(one)
        np.testing.assert_allclose(one[known], wanted[known], rtol=0, atol=atol)


@pytest.mark.parametrize("rank", [1, 2])
def test_gradients_of_vectors_do_not_see_ties_among_others(rank: int) -> None:
    # Of a matrix of low rank, whose other values are 0 up to rounding, the first vector is used.
    factor = np.random.default_rng(10).normal(size=(5, rank))
    weights = np.random.default_rng(11).normal(size=(5, 5))
    step = 1e-6 * symmetric(np.random.default_rng(12).normal(size=(5, 5)))

    def by_eigh(x: Any) -> Any:
        v = np.linalg.eigh(x)[1][:, -1:]
        return np.sum((v @ v.T) * weights)

    def by_svd(x: Any) -> Any:
        u = np.linalg.svd(x, full_matrices=False)[0][:, :1]
        return np.sum((u @ u.T) * weights)

    x = factor @ factor.T
    for function in (by_eigh, by_svd):
        slope = (function(x + step) - function(x - step)) / 2
        found = np.sum(cr.grad(function)(x) * step)
        np.testing.assert_allclose(found, slope, rtol=1e-6)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_one_of_two_near_eigenvalues_moves_as_in_fifty_digits(gap: float) -> None:
    matrix = np.array([[1.0, gap, 0.2], [gap, 1 + gap, 0.1], [0.2, 0.1, 3]])
    along = symmetric(np.random.default_rng(7).normal(size=(3, 3)))
    with mpmath.workdps(50):
        step = mpmath.mpf(10) ** -25
        high, low = (
            mpmath.eigsy(mpmath.matrix(matrix) + s * mpmath.matrix(along), eigvals_only=True)[0]
            for s in (step, -step)
        )
        wanted = float((high - low) / (2 * step))
    gradient = cr.grad(lambda x: np.linalg.eigvalsh(x)[0])(matrix)
    # The vectors of values so near turn by eps / gap.
    np.testing.assert_allclose(np.sum(gradient * along), wanted, atol=1e-14 / gap, rtol=0)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_the_gradient_of_a_determinant_is_its_cofactors_at_any_rank(zeros: int) -> None:
    matrix = np.diag([0.0] * zeros + [1.0, 2.0, 3.0][zeros:])
    cofactors = [
        [
            (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1))
            for j in range(3)
        ]
        for i in range(3)
    ]
    np.testing.assert_allclose(cr.grad(np.linalg.det)(matrix), cofactors, atol=1e-15)
    assert np.isfinite(cr.hvp(np.linalg.det, matrix, np.ones((3, 3)))).all()
