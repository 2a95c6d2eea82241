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
