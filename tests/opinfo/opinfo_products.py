"""Products and linear algebra with PyTorch's signatures."""

from __future__ import annotations

import numpy as np

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
