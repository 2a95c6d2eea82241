"""Products and numpy.linalg: derivatives of order 1 and 2, conventions, refusals, named sizes."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import (
    ChainruleError,
    DataDependentError,
    DTypeError,
    InputError,
    ShapeError,
    UnsupportedError,
)
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(11)


def random(*shape):
    return RANDOM.standard_normal(shape)


def regular(*shape):
    return random(*shape) + 4 * np.eye(shape[-1])


def along_symmetric(function):
    return lambda x: function(x @ x.mT + np.eye(x.shape[-1]))


A, B, C, V, W = random(3, 4), random(3, 4), random(2, 3, 4), random(4), random(3)
SQUARE, STACK = regular(3, 3), regular(2, 3, 3)
ORDERS = (None, 1, 2, 3, -1, 0.5, 2.5, np.inf, -np.inf)
OF_MATRICES = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)

SMOOTH = {
    "dot": (np.dot, A, random(2, 4, 3)),
    "dot of vectors": (np.dot, V, V * 2),
    "inner": (np.inner, A, C),
    "outer": (np.outer, V, A),
    "vdot": (np.vdot, A, B),
    "vecdot": (np.vecdot, C, A),
    "vecdot along an axis": (lambda x, y: np.vecdot(x, y, axis=0), A, B),
    "tensordot": (lambda x, y: np.tensordot(x, y, ((1, 2), (0, 1))), C, A),
    "tensordot over none": (lambda x, y: np.tensordot(x, y, 0), V, A),
    "kron": (np.kron, A, V),
    "kron of three axes": (np.kron, C, A),
    "cross": (lambda x, y: np.cross(x, y, axis=0), A, B),
    "cross by broadcasting": (np.cross, A.T, W),
    "polyval": (np.polyval, V, W),
    "einsum of three": (lambda x, y, z: np.einsum("ij,kj,lk->il", x, y, z), A, B, SQUARE),
    "einsum in another order": (
        lambda x, y, z: np.einsum("ij,kj,lk->il", x, y, z, optimize="optimal"),
        A,
        B,
        SQUARE,
    ),
    "einsum of a diagonal": (lambda x: np.einsum("...ii->...i", x), STACK),
    "einsum of a trace": (lambda x, y: np.einsum("ii,j", x, y), SQUARE, V),
    "einsum by broadcasting": (lambda x, y: np.einsum("...i,...i->...", x, y), C[:, :1], A),
    "einsum with lists": (lambda x, y: np.einsum(x, [0, 1], y, [2, 1], [2, 0]), A, B),
    "einsum of a number": (lambda x, y: np.einsum(",ij->j", x, y), 2.0, A),
    **{f"norm {ord}": (lambda x, ord=ord: np.linalg.norm(x, ord), V) for ord in ORDERS},
    **{f"rows {ord}": (lambda x, ord=ord: np.linalg.norm(x, ord, axis=1), C) for ord in ORDERS},
    **{
        f"norm of matrices {ord}": (lambda x, ord=ord: np.linalg.norm(x, ord, (0, 2)), C)
        for ord in OF_MATRICES
    },
    "vector_norm": (lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=3), C),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x, ord="nuc", keepdims=True), C),
    **{f"cond {p}": (lambda x, p=p: np.linalg.cond(x, p), STACK) for p in (None, -2, 1, "fro")},
    "solve": (np.linalg.solve, STACK, W),
    "solve for matrices": (np.linalg.solve, SQUARE, C),
    "solve for stacks": (np.linalg.solve, STACK, random(4, 1, 3, 2)),
    "inv": (np.linalg.inv, STACK),
    "det": (np.linalg.det, STACK),
    "slogdet": (lambda x: np.linalg.slogdet(x)[1], -STACK),
    "cholesky": (along_symmetric(np.linalg.cholesky), STACK),
    "upper cholesky": (along_symmetric(lambda x: np.linalg.cholesky(x, upper=True)), SQUARE),
    "eigh": (along_symmetric(lambda x: list(np.linalg.eigh(x))), STACK),
    "eigh of the upper triangle": (along_symmetric(lambda x: list(np.linalg.eigh(x, "U"))), SQUARE),
    "eigvalsh": (along_symmetric(np.linalg.eigvalsh), STACK),
    "svd": (lambda x: list(np.linalg.svd(x)), STACK),
    "svd of wide matrices": (lambda x: list(np.linalg.svd(x, full_matrices=False)), C),
    "svd of tall matrices": (lambda x: list(np.linalg.svd(x, full_matrices=False)), C.mT),
    "svdvals": (np.linalg.svdvals, C),
    "qr of tall matrices": (lambda x: list(np.linalg.qr(x)), C.mT),
    "qr of wide matrices": (lambda x: list(np.linalg.qr(x, "complete")), C),
    "R alone": (lambda x: np.linalg.qr(x, "r"), SQUARE),
    "pinv of wide matrices": (np.linalg.pinv, C),
    "pinv of tall matrices": (np.linalg.pinv, C.mT),
    "lstsq": (lambda a, b: list(np.linalg.lstsq(a, b)[:2]), A.T, V),
    "lstsq of many": (lambda a, b: list(np.linalg.lstsq(a, b)[:2]), A.T, random(4, 2)),
    "lstsq of wide matrices": (lambda a, b: np.linalg.lstsq(a, b)[0], A, W),
    "multi_dot": (lambda *x: np.linalg.multi_dot(x), W, A, B.T, SQUARE),
    "matrix_power": (lambda x: np.linalg.matrix_power(x, 5), SQUARE),
    "negative matrix_power": (lambda x: np.linalg.matrix_power(x, -2), STACK),
    "tensorinv": (np.linalg.tensorinv, regular(4, 4).reshape(2, 2, 2, 2)),
    "tensorsolve": (np.linalg.tensorsolve, regular(4, 4).reshape(2, 2, 4), random(2, 2)),
    "trace": (lambda x: np.linalg.trace(x, offset=1), STACK),
    "diagonal": (lambda x: np.linalg.diagonal(x, offset=-1), STACK),
}
if hasattr(np, "matvec"):
    SMOOTH["matvec"] = (np.matvec, C, random(2, 4))
    SMOOTH["vecmat"] = (np.vecmat, random(5, 3), A)


@pytest.mark.sweep(23)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_order_1_and_2_are_those_of_finite_differences(name):
    function, *arguments = SMOOTH[name]
    check_gradients(function, *arguments, seed=0)


# Where there is no derivative ----------------------------------------------------------------


@pytest.mark.parametrize("ord", [*ORDERS, 0])
def test_norms_of_zero_vectors_have_the_gradient_zero(ord):
    def norm(x):
        return np.linalg.norm(x, ord)

    def twice(x):
        return np.sum(cr.grad(norm)(x))

    with np.errstate(all="ignore"):
        for x in (np.zeros(3), np.zeros(1)):
            assert np.array_equal(cr.grad(norm)(x), np.zeros(x.shape))
            assert np.array_equal(cr.grad(twice)(x), np.zeros(x.shape))


@pytest.mark.parametrize("p", [None, 1, -1, "fro", np.inf, -np.inf])
def test_the_condition_of_a_singular_matrix_is_numpys(p):
    x = np.array([[[1.0, 2], [2, 4]], [[0, 0], [0, 0]], [[1e-200, 0], [0, 2e-200]], SQUARE[:2, :2]])
    got = cr.trace(lambda x: np.linalg.cond(x, p), x).run(x=x).outputs
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.linalg.cond(x, p), rtol=1e-12)
        x[1, 0, 1] = np.nan
        if p is not None:  # else the singular values do not converge
            got = cr.trace(lambda x: np.linalg.cond(x, p), x).run(x=x).outputs
            np.testing.assert_allclose(got, np.linalg.cond(x, p), rtol=1e-12)


@pytest.mark.parametrize("ord", [None, *OF_MATRICES])
def test_norms_of_zero_matrices_have_the_gradient_zero(ord):
    x = np.zeros((2, 3))
    assert np.array_equal(cr.grad(lambda x: np.linalg.norm(x, ord))(x), x)


@pytest.mark.parametrize("ord", [0.5, 1, 1.5, 2, 3, 4])
def test_a_zero_among_the_elements_of_a_norm_is_no_nan(ord):
    x = np.array([3.0, 0.0, -4.0])
    g = cr.grad(lambda x: np.linalg.norm(x, ord))(x)
    assert g[1] == 0
    rest = cr.grad(lambda x: np.linalg.norm(x, ord))(x[[0, 2]])
    np.testing.assert_allclose(g[[0, 2]], rest, rtol=1e-14)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("ord", [0.5, 2.5, 3, 7, -1, -3])
def test_a_norm_of_huge_and_of_tiny_numbers_has_its_derivatives(ord, scale, executor):
    def norm(x: float64["n k"]):
        N = np.sum(np.linalg.norm(x, ord, axis=1))
        return N

    x = np.array([[3.0, 1.0, -4.0], [0.5, 2.0, 0.25]])
    step = cr.backward(cr.trace(norm), wrt="x")
    run, usual = (step.run(x=one, executor=executor) for one in (x * scale, x))
    np.testing.assert_allclose(run["N"], usual["N"] * scale, rtol=1e-13)
    np.testing.assert_allclose(run["dN/dx"], usual["dN/dx"], rtol=1e-13)
    bends = [cr.hvp(norm, one, np.ones_like(x)) for one in (x * scale, x)]
    np.testing.assert_allclose(bends[0] * scale, bends[1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("ord", [3, -3])
def test_a_norm_with_zeros_among_tiny_numbers_has_no_nan(ord):
    x = np.array([0.0, 1e-200, 0.0, 2e-200])
    value, gradient = cr.value_and_grad(lambda x: np.linalg.norm(x, ord))(x)
    assert value == pytest.approx(9 ** (1 / 3) * 1e-200 if ord == 3 else 0, rel=1e-14)
    assert np.isfinite(gradient).all() and gradient[0] == gradient[2] == 0


# PyTorch has the same conventions ------------------------------------------------------------

PEERS = {
    "norm 3": (lambda m, x: m.linalg.norm(x, 3), V),
    "nuc": (lambda m, x: m.linalg.norm(x, "nuc"), A),
    "norm 2": (lambda m, x: m.linalg.norm(x, 2), A),
    "norm -2": (lambda m, x: m.linalg.norm(x, -2), SQUARE),
    "norm of ties": (lambda m, x: m.linalg.norm(x, 2), np.eye(3)),
    "norm inf of ties": (lambda m, x: m.linalg.norm(x, np.inf), np.array([2.0, -2.0, 1.0])),
    "norm at 0": (lambda m, x: m.linalg.norm(x, 1), np.zeros(3)),
    "cholesky": (lambda m, x: m.linalg.cholesky(x), SQUARE @ SQUARE.T),
    "eigvalsh": (lambda m, x: m.linalg.eigvalsh(x) ** 3, SQUARE + SQUARE.T),
    "eigvalsh of equals": (lambda m, x: m.linalg.eigvalsh(x), np.eye(3) * 2),
    "eigenvectors": (lambda m, x: m.linalg.eigh(x)[1] ** 2, SQUARE + SQUARE.T),
    "U and V": (lambda m, x: m.linalg.svd(x, full_matrices=False)[0] ** 2, C.mT),
    "qr": (lambda m, x: m.linalg.qr(x)[1] ** 2, C),
    "slogdet": (lambda m, x: m.linalg.slogdet(x)[1], STACK),
    "pinv": (lambda m, x: m.linalg.pinv(x), C),
    "det": (lambda m, x: m.linalg.det(x), STACK),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_pytorch_has_the_same_gradient(name):
    torch = pytest.importorskip("torch")
    function, x = PEERS[name]
    weights = np.random.default_rng(0).standard_normal(np.shape(function(np, x)))
    ours = cr.grad(lambda x: np.sum(function(np, x) * weights))(x)
    tensor = torch.tensor(x, requires_grad=True)
    total = torch.sum(function(torch, tensor) * torch.tensor(weights))
    [theirs] = torch.autograd.grad(total, tensor)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)


# Named sizes ---------------------------------------------------------------------------------


def test_named_sizes_stay_symbolic():
    def program(a: float64["n n"], x: float64["n d"], b: float64["n"]):
        gram = np.einsum("ni,nj->ij", x, x) + np.linalg.matrix_power(a, 0)[0, 0]
        U, s, Vh = np.linalg.svd(x, full_matrices=False)
        total = np.sum(np.linalg.solve(a, b)) + np.linalg.slogdet(a)[1] + np.linalg.cond(a)
        total = total + np.linalg.norm(x, "nuc") + np.sum(np.linalg.pinv(x) @ b)
        total = total + np.sum(s) + np.linalg.trace(np.kron(a, a)) + np.sum(gram)
        total = total + np.sum(np.linalg.multi_dot([b, a, x])) + np.sum((U * s) @ Vh)
        J = total + np.linalg.matrix_rank(x)
        return J

    step = cr.backward(cr.trace(program), wrt=("a", "x", "b"))
    for n, d in ((4, 2), (2, 4), (3, 3)):
        a, x, b = regular(n, n), random(n, d), random(n)
        run = step.run(a=a, x=x, b=b)
        np.testing.assert_allclose(run["J"], program(a, x, b), rtol=1e-12)
        wanted = cr.grad(program, wrt=("a", "x", "b"))(a, x, b)
        for name, g in zip(("a", "x", "b"), wanted, strict=True):
            np.testing.assert_allclose(run[f"dJ/d{name}"], g, rtol=1e-9)


# Refusals ------------------------------------------------------------------------------------

F16 = np.ones((2, 2), np.float16)
REFUSED = [
    (np.linalg.inv, (V,), ShapeError, "np.linalg.inv needs matrices, arrays of at least two axes"),
    (np.linalg.inv, (A,), ShapeError, "np.linalg.inv needs square matrices"),
    (np.linalg.det, (F16,), DTypeError, "LAPACK has no float16"),
    (np.linalg.solve, (SQUARE, V), ShapeError, "have 3 rows, the right side"),
    (lambda x: np.linalg.solve(STACK, x), (random(2, 3),), ShapeError, "b[..., None]"),
    (lambda x: np.linalg.eigh(x, "X"), (SQUARE,), InputError, "UPLO='X' is no triangle"),
    (np.linalg.eig, (SQUARE,), UnsupportedError, "np.linalg.eig is not traced"),
    (np.linalg.eigvals, (SQUARE,), UnsupportedError, "np.linalg.eigvals is not traced"),
    (np.linalg.svd, (A,), UnsupportedError, "full_matrices=False"),
    (lambda x: np.linalg.svd(x, hermitian=True), (SQUARE,), UnsupportedError, "np.linalg.eigh"),
    (lambda x: np.linalg.qr(x, "complete"), (A.T,), UnsupportedError, "mode='complete'"),
    (lambda x: np.linalg.pinv(x, hermitian=True), (SQUARE,), UnsupportedError, "hermitian=True"),
    (lambda x: np.linalg.pinv(x, W), (STACK,), UnsupportedError, "one number"),
    (lambda x: np.linalg.pinv(x, 0.1, rtol=0.2), (A,), InputError, "give one of them"),
    (lambda x, p: np.linalg.norm(x, p), (V, 3.0), DataDependentError, "ord is a traced array"),
    (lambda x: np.linalg.norm(x, 3), (A,), InputError, "norm(ord=3) of matrices does not exist"),
    (lambda x: np.linalg.norm(x, "fro"), (V,), InputError, "norm(ord='fro') is of matrices"),
    (lambda x: np.linalg.norm(x, 1), (C,), ShapeError, "takes one axis or two"),
    (lambda x: np.linalg.norm(x, axis=3), (C,), ShapeError, "axis=3 is no axis"),
    (lambda x: np.cross(x, x), (random(2),), ShapeError, "vectors with three elements"),
    (lambda x: np.tensordot(x, x, 3), (A,), ShapeError, "needs as many axes of each array"),
    (lambda x: np.tensordot(x, x, ((0, 1), (0,))), (A,), ShapeError, "name the axes in pairs"),
    (lambda x: np.tensordot(x, x, (2, 0)), (A,), ShapeError, "are no axes of an array of 2"),
    (lambda x: np.linalg.multi_dot([x]), (A,), InputError, "give at least two arrays"),
    (lambda x: np.linalg.multi_dot([x, x, x]), (C,), ShapeError, "takes matrices, and vectors"),
    (lambda x: np.linalg.matrix_power(x, 2), (A,), ShapeError, "needs square matrices"),
    (lambda x: np.linalg.lstsq(x, V), (A,), ShapeError, "a right side with as many rows"),
    (lambda x: np.linalg.tensorinv(x, 1), (C,), ShapeError, "have 2 elements, the others 12"),
    (lambda x: np.einsum(x, [0, "a"]), (A,), InputError, "is no list of axes"),
    (lambda x: np.einsum("ij,jk", x, x), (A,), ShapeError, "axis j is 4 and 3 long"),
    (lambda x: np.einsum("i->ii", x), (V,), ShapeError, "repeats a letter"),
]


@pytest.mark.parametrize(("function", "arguments", "kind", "text"), REFUSED)
def test_what_is_not_traced_is_refused_with_a_reason(function, arguments, kind, text):
    with pytest.raises(ChainruleError) as caught:
        cr.grad(lambda *x: function(*x), wrt=0)(*arguments)
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert caught.value.hint
    assert "test_linalg_calls.py" in caught.value.where


def test_which_factor_of_unknown_sizes_is_the_longer_is_asked():
    def program(x: float64["n d"]):
        return np.linalg.qr(x)[1]

    with pytest.raises(ShapeError, match="more rows or more columns is not known"):
        cr.trace(program)


# Orders of contraction -----------------------------------------------------------------------


def multiplications(function, *arrays):
    graph = cr.trace(function, *arrays)
    products = [n for n in graph.nodes if n.primitive.name in ("matmul", "contract")]
    return sum(node.primitive.flops(node) for node in products) // 2


def test_products_are_taken_in_the_cheapest_order():
    a, b, c, d = random(2, 50), random(50, 40), random(40, 3), random(3, 5)
    left = 2 * 50 * 40 + 2 * 40 * 3 + 2 * 3 * 5
    right = 50 * 40 * 3 + 2 * 50 * 3 + 2 * 3 * 5
    assert multiplications(lambda *x: np.linalg.multi_dot(x), a, b, c, d) == min(left, right)
    assert multiplications(lambda *x: np.linalg.multi_dot(x), d.T, c.T, b.T, a.T) == left
    chain = "ij,jk,kl,lm->im"
    assert multiplications(lambda *x: np.einsum(chain, *x), d.T, c.T, b.T, a.T) > left
    best = multiplications(lambda *x: np.einsum(chain, *x, optimize="optimal"), d.T, c.T, b.T, a.T)
    assert best == left


@pytest.mark.parametrize(
    ("function", "one", "other"),
    [
        (np.dot, (2, 1, 3), (2, 1, 3)),
        (np.inner, (2, 1), (2, 3)),
        (np.tensordot, (1, 1), (2, 3)),
        (np.vecdot, (2, 1), (2, 3)),
        (np.matvec, (2, 3, 3), (2, 1)),
        (np.vecmat, (2, 1), (2, 3, 3)),
    ],
)
def test_an_axis_of_size_1_is_not_summed_with_a_longer_one(function, one, other):
    x, y = np.ones(one), np.ones(other)
    with pytest.raises(ValueError):
        function(x, y)
    with pytest.raises(ShapeError, match="sums axes of different sizes") as caught:
        cr.trace(lambda x, y: function(x, y), x, y)
    assert "must be equal" in str(caught.value)
