"""Products and linear algebra with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

import chainrule as cr

linalg = np.linalg


def addmm(x, y, z, alpha=1, beta=1):
    return beta * x + alpha * (y @ z)


def norm(x, ord=None, dim=None, keepdim=False, dtype=None):
    if np.ndim(x) == 0:
        x, dim = np.reshape(x, (1,)), None
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    if axis is not None and isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    return linalg.norm(x, ord, axis=axis, keepdims=keepdim)


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    if np.ndim(x) == 0:
        return linalg.vector_norm(np.reshape(x, (1,)), axis=0, ord=ord)
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return linalg.vector_norm(
        x, axis=axis or None if axis == () else axis, keepdims=keepdim, ord=ord
    )


def matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    moved = np.moveaxis(x, tuple(dim), (-2, -1))
    found = linalg.matrix_norm(moved, keepdims=False, ord=ord)
    return np.expand_dims(found, tuple(d % np.ndim(x) for d in dim)) if keepdim else found


def slogdet(x):
    sign, logarithm = linalg.slogdet(x)
    return sign, logarithm


def solve(a, b, left=True):
    vector = np.ndim(b) == 1 or (np.ndim(a) - 1 == np.ndim(b) and np.shape(b) == np.shape(a)[:-1])
    if vector:
        b = b[..., None]
    if left:
        found = linalg.solve(a, b)
    else:
        found = np.swapaxes(linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return found[..., 0] if vector else found


def pinv(x, rcond=None, **options):
    if np.ndim(rcond) > 1:  # the variant that makes singular matrices from two factors
        x, rcond = x @ np.swapaxes(rcond, -1, -2), None
    given = {k: v for k, v in options.items() if v is not None and k == "rtol"}
    return linalg.pinv(x, **({"rcond": rcond} if rcond is not None else {}), **given)


def matrix_rank(x, tol=None, atol=None, rtol=None, hermitian=False):
    given = {} if rtol is None else {"rtol": rtol}
    given = given or {"tol": tol if tol is not None else atol}
    return linalg.matrix_rank(x, **given)


def qr(x, mode="reduced"):
    return tuple(linalg.qr(x, mode))


def svd(x, full_matrices=True):
    return tuple(linalg.svd(x, full_matrices))


def tensordot(x, y, dims=2):
    return np.tensordot(x, y, dims)


def einsum(operands, equation):
    return np.einsum(equation, *operands)


def cross(x, y, dim=-1):
    return np.cross(x, y, axis=dim)


def addmv(x, matrix, vector, alpha=1, beta=1):
    return beta * x + alpha * (matrix @ vector)


def addr(x, y, z, alpha=1, beta=1):
    return beta * x + alpha * np.outer(y, z)


def addbmm(x, y, z, alpha=1, beta=1):
    return beta * x + alpha * np.sum(y @ z, axis=0)


def solve_triangular(a, b, upper, left=True, unitriangular=False):
    if left:
        return cr.solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)
    a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    found = cr.solve_triangular(a, b, lower=upper, unit_diagonal=unitriangular)
    return np.swapaxes(found, -1, -2)


def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    return cr.solve_triangular(a, b, int(transpose), not upper, unitriangular), np.copy(a)


def lu_factor(x, *args, **options):
    _, lower, upper = cr.lu(x)
    m, n, k = *np.shape(x)[-2:], np.shape(upper)[-2]
    before = [(0, 0)] * (np.ndim(x) - 2)
    below = np.pad(np.tril(lower, -1), [*before, (0, 0), (0, n - k)])
    return below + np.pad(upper, [*before, (0, m - k), (0, 0)])


def permutation(pivots, factors):
    """The matrices P of the swaps of rows that LAPACK's pivots are, from 1 on."""
    size = np.shape(factors)[-2]
    found = np.empty((*pivots.shape[:-1], size, size), factors.dtype)
    for place in np.ndindex(*pivots.shape[:-1]):
        rows = np.arange(size)
        for row, other in enumerate(pivots[place] - 1):
            rows[[row, other]] = rows[[other, row]]
        found[place] = np.arange(size)[:, None] == rows
    return found


def lu_solve(factors, pivots, b, left=True, adjoint=False):
    if not left:
        b = np.swapaxes(b, -1, -2)
        return np.swapaxes(lu_solve(factors, pivots, b, True, not adjoint), -1, -2)
    p = permutation(pivots, factors)
    if adjoint:
        found = cr.solve_triangular(factors, b, "T")
        return p @ cr.solve_triangular(factors, found, "T", True, True)
    found = cr.solve_triangular(factors, np.swapaxes(p, -1, -2) @ b, 0, True, True)
    return cr.solve_triangular(factors, found)


def lu_unpack(factors, pivots, unpack_data=True, unpack_pivots=True):
    m, n = np.shape(factors)[-2:]
    k = min(m, n)
    lower = np.tril(factors[..., :k], -1) + np.eye(m, k, dtype=factors.dtype)
    return permutation(pivots, factors), lower, np.triu(factors[..., :k, :])


def squared(factor, upper):
    other = np.swapaxes(factor, -1, -2)
    return other @ factor if upper else factor @ other


def vander(x, N=None):
    count = np.shape(x)[-1] if N is None else N
    x = np.reshape(x, (1,)) if np.ndim(x) == 0 else x
    return x[..., None] ** np.arange(count)


def old_svd(x, some=True, compute_uv=True):
    left, values, right = linalg.svd(x, full_matrices=False)
    right = np.swapaxes(right, -1, -2)
    if compute_uv:
        return left, values, right
    return np.zeros_like(left), values, np.zeros_like(right)


def old_norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    if p == "nuc":
        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    return vector_norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


TABLE = {
    "matmul": np.matmul,
    "__rmatmul__": lambda x, y: np.matmul(y, x),
    "mm": np.matmul,
    "bmm": np.matmul,
    "mv": np.matmul,
    "dot": np.dot,
    "vdot": np.vdot,
    "inner": np.inner,
    "outer": np.outer,
    "kron": np.kron,
    "addmm": addmm,
    "baddbmm": addmm,
    "addmv": addmv,
    "addr": addr,
    "addbmm": addbmm,
    "linalg.solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve,
    "matrix_exp": lambda x: cr.expm(x),
    "linalg.lu": lambda x, pivot=True: cr.lu(x),
    "linalg.lu_factor": lu_factor,
    "linalg.lu_factor_ex": lu_factor,
    "lu": lu_factor,
    "linalg.lu_solve": lu_solve,
    "lu_solve": lambda b, factors, pivots: lu_solve(factors, pivots, b),
    "lu_unpack": lu_unpack,
    "cholesky_inverse": lambda x, upper=False: linalg.inv(squared(x, upper)),
    "cholesky_solve": lambda b, x, upper=False: linalg.solve(squared(x, upper), b),
    "linalg.cholesky_ex": lambda x, upper=False, **options: linalg.cholesky(x, upper=upper),
    "linalg.inv_ex": lambda x, **options: linalg.inv(x),
    "linalg.solve_ex": lambda a, b, left=True, **options: solve(a, b, left),
    "linalg.lstsq": lambda a, b, driver=None: linalg.lstsq(a, b)[0],
    "linalg.vander": vander,
    "pinverse": lambda x, rcond=None: linalg.pinv(x),
    "qr": lambda x, some=True: qr(x, "reduced" if some else "complete"),
    "svd": old_svd,
    "norm": old_norm,
    "tensordot": tensordot,
    "einsum": einsum,
    "cross": cross,
    "linalg.cross": cross,
    "linalg.vecdot": lambda x, y, dim=-1: linalg.vecdot(x, y, axis=dim),
    "linalg.multi_dot": lambda arrays: linalg.multi_dot(arrays),
    "linalg.matrix_power": lambda x, n: linalg.matrix_power(x, n),
    "linalg.norm": norm,
    "linalg.vector_norm": vector_norm,
    "linalg.matrix_norm": matrix_norm,
    "linalg.solve": solve,
    "linalg.inv": linalg.inv,
    "linalg.det": linalg.det,
    "linalg.slogdet": slogdet,
    "logdet": lambda x: np.where(linalg.slogdet(x)[0] > 0, linalg.slogdet(x)[1], np.nan),
    "cholesky": lambda x, upper=False: linalg.cholesky(x, upper=upper),
    "linalg.cholesky": lambda x, upper=False: linalg.cholesky(x, upper=upper),
    "linalg.eigvalsh": lambda x, UPLO="L": linalg.eigvalsh(x, UPLO),
    "linalg.eigh": lambda x, UPLO="L": tuple(linalg.eigh(x, UPLO)),
    "linalg.qr": qr,
    "linalg.svd": svd,
    "linalg.svdvals": lambda x: linalg.svdvals(x),
    "linalg.pinv": pinv,
    "linalg.cond": lambda x, p=None: linalg.cond(x, p),
    "linalg.matrix_rank": matrix_rank,
    "linalg.tensorinv": lambda x, ind=2: linalg.tensorinv(x, ind),
    "linalg.tensorsolve": lambda x, y, dims=None: linalg.tensorsolve(x, y, dims),
}
