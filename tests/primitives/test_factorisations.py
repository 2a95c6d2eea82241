"""Factorisations: conventions of their derivatives, degenerate matrices, errors, costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import EvaluationError
from chainrule.primitives.linalg.eigen import eigh, eigvalsh
from chainrule.primitives.linalg.factors import cholesky
from chainrule.primitives.linalg.linalg import LINALG
from chainrule.testing import as_function, check_gradients, planted_fault
from chainrule.testing.faults import GRADIENT_FAULTS
from chainrule.transforms import deduplicate

RANDOM = np.random.default_rng(7)
EXECUTORS = ("reference", "native")


def random(*shape):
    return RANDOM.standard_normal(shape)


def positive(*shape):
    x = random(*shape)
    return x @ x.mT + np.eye(shape[-1])


def symmetric(x):
    return (x + np.swapaxes(x, -1, -2)) / 2


def of_symmetric(primitive, **params):
    """The primitive of the symmetric part: its derivative is then that of what is evaluated."""
    call = as_function(primitive, **params)

    def function(x):
        return call(symmetric(x))

    function.__name__ = primitive.name
    return function


SHAPES = [(3, 3), (2, 3, 3), (1, 1), (2, 1, 2, 2)]
OF_SYMMETRIC = [(cholesky, {}), *((p, {"uplo": uplo}) for p in (eigh, eigvalsh) for uplo in "LU")]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("primitive", "params"), OF_SYMMETRIC)
def test_derivatives_of_symmetric_matrices_are_right(primitive, params, shape):
    check_gradients(of_symmetric(primitive, **params), positive(*shape), seed=0)


@pytest.mark.parametrize("kind", [*GRADIENT_FAULTS])
@pytest.mark.parametrize(("primitive", "params"), OF_SYMMETRIC[:3:1])
def test_a_fault_in_them_is_found(primitive, params, kind):
    wrong = planted_fault(primitive, kind)
    with pytest.raises(AssertionError):
        check_gradients(of_symmetric(wrong, **params), positive(3, 3), seed=0)


@pytest.mark.parametrize(("primitive", "params"), OF_SYMMETRIC)
def test_the_gradient_is_symmetric_whichever_triangle_is_read(primitive, params):
    x = positive(4, 4)
    call, seed = as_function(primitive, **params), None
    out = np.asarray(call(x))
    seed = random(*out.shape)
    g = cr.grad(lambda x: np.sum(call(x) * seed))(x)
    np.testing.assert_allclose(g, g.T, rtol=0, atol=1e-13 * np.max(np.abs(g)))


# Equal eigenvalues and singular values -------------------------------------------------------


def rotated(values):
    q = np.linalg.qr(random(len(values), len(values)))[0]
    return (q * np.array(values)) @ q.T


REPEATED = {
    "equal": np.eye(3) * 2,
    "two equal": rotated([1.0, 2.0, 2.0]),
    "nearly equal": rotated([1.0, 2.0, 2.0 + 1e-14]),
    "zero": np.zeros((3, 3)),
}


@pytest.mark.parametrize("values", [np.linalg.eigvalsh, lambda x: np.linalg.eigh(x)[0]])
@pytest.mark.parametrize("kind", REPEATED)
def test_functions_of_eigenvalues_have_derivatives_where_values_are_equal(values, kind):
    x = REPEATED[kind]
    cube = cr.grad(lambda x: np.sum(values(x) ** 3))(x)  # the trace of x^3
    np.testing.assert_allclose(cube, 3 * x @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(values(x)))(x), np.eye(3), atol=1e-14)


@pytest.mark.parametrize("values", [np.linalg.svdvals, lambda x: np.linalg.svd(x)[1]])
@pytest.mark.parametrize("kind", REPEATED)
def test_functions_of_singular_values_have_derivatives_where_values_are_equal(values, kind):
    x = REPEATED[kind]
    g = cr.grad(lambda x: np.sum(values(x) ** 4))(x)  # the trace of (x' x)^2
    np.testing.assert_allclose(g, 4 * x @ x.T @ x, rtol=1e-12, atol=1e-12)


def test_vectors_of_equal_eigenvalues_have_no_derivative():
    weights = random(3, 3)
    g = cr.grad(lambda x: np.sum(np.linalg.eigh(x)[1] * weights))(np.eye(3))
    assert not np.any(np.isfinite(g[~np.eye(3, dtype=bool)]))


def test_second_derivatives_at_equal_eigenvalues_are_refused_with_nan_not_a_wrong_number():
    direction = symmetric(random(3, 3))

    def along(x):
        return np.sum(cr.grad(lambda x: np.sum(np.linalg.eigvalsh(x) ** 2))(x) * direction)

    assert np.any(np.isnan(cr.grad(along)(np.eye(3))))
    np.testing.assert_allclose(cr.grad(along)(rotated([1.0, 2.0, 3.0])), 2 * direction, atol=1e-12)


# Singular and ill-conditioned matrices -------------------------------------------------------

SINGULAR = {
    "rank 2": np.diag([3.0, 2.0, 0.0]),
    "rank 2, dense": random(3, 2) @ random(2, 3),
    "rank 1": np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0]),
    "rank 0": np.zeros((3, 3)),
    "nearly singular": rotated([1.0, 2.0, 1e-13]),
    "regular": random(3, 3),
    "one element": np.zeros((1, 1)),
    "two rows": np.ones((2, 2)),
    "four rows": random(4, 2) @ random(2, 4),
    "batch": np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.eye(3)]),
}


def by_minors(x):
    """The matrix of cofactors by their definition."""
    n = len(x)
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    rest = [[np.delete(np.delete(x, i, 0), j, 1) for j in range(n)] for i in range(n)]
    return signs * np.array([[np.linalg.det(one) for one in row] for row in rest])


@pytest.mark.parametrize("kind", [kind for kind in SINGULAR if kind != "batch"])
def test_the_gradient_of_a_determinant_is_the_matrix_of_cofactors(kind):
    x = SINGULAR[kind]
    np.testing.assert_allclose(cr.grad(np.linalg.det)(x), by_minors(x), rtol=1e-12, atol=1e-13)


def leibniz(x):
    """The determinant by its definition, a sum over permutations."""
    total = 0.0
    for places in itertools.permutations(range(x.shape[-1])):
        sign = np.linalg.det(np.eye(len(places))[list(places)])
        term = sign
        for row, column in enumerate(places):
            term = term * x[..., row, column]
        total = total + term
    return total


@pytest.mark.parametrize("kind", SINGULAR)
def test_determinants_have_two_derivatives_at_singular_matrices(kind):
    x = SINGULAR[kind]
    a = np.random.default_rng(0).standard_normal(x.shape)
    close = 1e-12 * max(1.0, np.max(np.abs(x))) ** x.shape[-1]
    found = [
        cr.grad(lambda x: np.sum(cr.grad(lambda x: np.sum(f(x)))(x) * a))(x)  # noqa: B023
        for f in (np.linalg.det, leibniz)
    ]
    np.testing.assert_allclose(*found, rtol=1e-11, atol=close)


def test_the_third_derivative_of_a_determinant_needs_a_regular_matrix():
    a, b = random(3, 3), random(3, 3)

    def once(x):
        return np.sum(cr.grad(np.linalg.det)(x) * a)

    def twice(x):
        return np.sum(cr.grad(once)(x) * b)

    check_gradients(twice, random(3, 3), order=1, seed=0)
    with pytest.raises(EvaluationError, match="Singular matrix"):
        cr.grad(twice)(np.zeros((3, 3)))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("function", "x", "text"),
    [
        (np.linalg.inv, np.ones((2, 2)), "inv(x) failed: Singular matrix"),
        (lambda x: np.linalg.solve(x, x), np.ones((2, 2)), "solve(x, x) failed: Singular matrix"),
        (np.linalg.cholesky, -np.eye(2), "cholesky(x) failed: Matrix is not positive definite"),
        (np.linalg.svdvals, np.full((2, 2), np.nan), "svdvals(x) failed: SVD did not converge"),
    ],
)
def test_what_lapack_refuses_is_an_error_at_the_users_line(executor, function, x, text):
    def program(x: float64["n n"]):
        out = function(x)
        return np.sum(out)

    with pytest.raises(EvaluationError) as caught:
        cr.compile(program, executor=executor)(x)
    assert text in str(caught.value)
    assert "out = function(x)" in str(caught.value) or "lambda x: np.linalg" in str(caught.value)
    assert "try: " in str(caught.value)


def test_log_determinants_at_singular_matrices():
    run = cr.trace(np.linalg.slogdet, np.ones((2, 2))).run(a=np.ones((2, 2)))
    assert (run.outputs.sign, run.outputs.logabsdet) == (0, -np.inf)
    with pytest.raises(EvaluationError, match="Singular matrix"):
        cr.grad(lambda x: np.linalg.slogdet(x)[1])(np.ones((2, 2)))


def test_ill_conditioned_systems_keep_the_accuracy_of_solving():
    x = 1 / np.add.outer(np.arange(1.0, 8), np.arange(7.0))  # Hilbert's matrix: condition 5e8
    b = x @ np.ones(7)
    value, g = cr.value_and_grad(lambda x, b: np.sum(np.linalg.solve(x, b)), wrt="b")(x, b)
    np.testing.assert_allclose(x.T @ g, np.ones(7), atol=1e-7)
    assert abs(value - 7) < 1e-6


def test_low_ranks_of_pseudo_inverses_are_kept():
    x = random(5, 2)
    check_gradients(lambda x: np.linalg.pinv(x @ np.swapaxes(x, -1, -2), 1e-8), x, seed=0)


# Empty, cost, one computation -----------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        np.linalg.inv,
        np.linalg.det,
        np.linalg.cholesky,
        np.linalg.eigvalsh,
        np.linalg.svdvals,
        np.linalg.pinv,
        lambda x: np.linalg.slogdet(x)[1],
        lambda x: np.linalg.eigh(x)[1],
        lambda x: np.linalg.svd(x)[0],
        lambda x: np.linalg.qr(x)[1],
        lambda x: np.linalg.solve(x, x),
    ],
)
@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0, 0)])
def test_of_empty_matrices_the_gradient_is_empty(function, shape):
    assert cr.grad(lambda x: np.sum(function(x)))(np.zeros(shape)).shape == shape


def test_all_results_of_a_factorisation_are_one_computation():
    def program(x: float64["n n"]):
        values, vectors = np.linalg.eigh(x)
        again = np.linalg.eigh(x)[0]
        return np.sum(values * again) + np.sum(vectors**2)

    step = deduplicate(cr.backward(cr.trace(program)))
    assert [node.primitive.name for node in step.nodes].count("eigh") == 1


COUNTS = {  # operations for matrices of 12 rows: Golub & Van Loan, Matrix Computations
    "cholesky": 12**3 // 3,
    "det": 2 * 12**3 // 3,
    "slogdet": 2 * 12**3 // 3,
    "inv": 2 * 12**3,
    "eigvalsh": 4 * 12**3 // 3,
    "eigh": 9 * 12**3,
    "svd": 22 * 12**3,
    "svdvals": 8 * 12**3 // 3,
    "qr": 8 * 12**3 // 3,
    "solve": 2 * 12**3 // 3 + 2 * 12**3,
}


@pytest.mark.parametrize("name", COUNTS)
def test_costs_are_those_of_the_textbook(name):
    primitive = next(one for one in LINALG if one.name == name)
    x = np.zeros((5, 12, 12))
    function = as_function(primitive, **dict(primitive.samples[0].params))
    arrays = [x] * len(primitive.inputs)
    [out] = [n for n in cr.trace(function, *arrays).nodes if n.primitive is primitive]
    assert primitive.flops(out) == 5 * COUNTS[name]
