"""PyTorch's decompositions of matrices, and what it computes with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.api import scan
from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.values import dtype_of
from chainrule.numpy.matrix_functions import expm, lu, solve_triangular

linalg: Any = np.linalg


def info(x: Any) -> Any:
    """That each matrix could be factored: where one cannot, a run says so."""
    return np.zeros(np.shape(x)[:-2], np.int32)


def turned(x: Any) -> Any:
    """The transposed matrices."""
    return np.swapaxes(x, -1, -2)


# Symmetric matrices, eigenvalues, singular values ------------------------------------------------


def _cholesky(x: Any, *, upper: bool = False) -> Any:
    factor = linalg.cholesky(x)
    return turned(factor) if upper else factor


def _lower(factor: Any, upper: bool) -> Any:
    return np.tril(turned(factor) if upper else factor)


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = _lower(factor, upper)
    return linalg.solve(lower @ turned(lower), b)


def _cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    lower = _lower(factor, upper)
    return linalg.inv(lower @ turned(lower))


def _svd(
    x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> Any:
    if not compute_uv:
        return None, linalg.svdvals(x), None
    return tuple(linalg.svd(x, full_matrices))


def _eigh(x: Any, UPLO: str = "L", compute_v: bool = True) -> Any:
    if not compute_v:
        return linalg.eigvalsh(x, UPLO), None
    return tuple(linalg.eigh(x, UPLO))


def _qr(x: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return None, linalg.qr(x, "r")
    return tuple(linalg.qr(x, mode))


# Triangular factors ------------------------------------------------------------------------------


def _lu(x: Any, *, pivot: bool = True) -> Any:
    if not pivot:
        raise UnsupportedError("linalg.lu with pivot=False", hint="leave pivot out")
    return lu(x)


def _lu_factor(x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """L below and U above the diagonal; which row each step swapped with its own, counted from 1;
    and 0."""
    permutation, left, upper = _lu(x, pivot=pivot)
    m, n = np.shape(x)[-2:]
    no_axes = [(0, 0)] * (np.ndim(x) - 2)
    k = np.shape(left)[-1]
    left = np.pad(np.tril(left, -1), [*no_axes, (0, 0), (0, n - k)])
    upper = np.pad(np.triu(upper), [*no_axes, (0, m - k), (0, 0)])
    return left + upper, _pivots(np.argmax(permutation, axis=-2), k), info(x)


def _pivots(order: Any, count: Any) -> Any:
    """LAPACK's swaps of rows that give this order."""
    length = np.shape(order)[-1]
    own = np.arange(length)
    begin = np.zeros_like(order) + own

    def swap(rows: Any, step: Any) -> Any:
        wanted, place = step["row"][..., None], step["place"]
        other = np.argmax(rows == wanted, axis=-1)[..., None]
        here = np.sum(np.where(own == place, rows, 0), axis=-1, keepdims=True)
        after = np.where(own == place, wanted, np.where(own == other, here, rows))
        return after, other[..., 0] + 1

    steps = {"row": np.moveaxis(order, -1, 0)[:count], "place": np.arange(count)}
    return np.moveaxis(scan(swap, begin, steps)[1], 0, -1).astype(np.int32)


def _order(pivots: Any, length: Any) -> Any:
    """The order of rows that LAPACK's swaps give."""
    own = np.arange(length)
    begin = np.zeros_like(pivots, shape=(*np.shape(pivots)[:-1], length)).astype(np.int64) + own

    def swap(rows: Any, step: Any) -> Any:
        other, place = step["pivot"][..., None] - 1, step["place"]
        here = np.sum(np.where(own == place, rows, 0), axis=-1, keepdims=True)
        there = np.sum(np.where(own == other, rows, 0), axis=-1, keepdims=True)
        return np.where(own == place, there, np.where(own == other, here, rows)), 0

    places = np.arange(np.shape(pivots)[-1])
    steps = {"pivot": np.moveaxis(pivots, -1, 0).astype(np.int64), "place": places}
    return scan(swap, begin, steps)[0]


def _lu_unpack(
    packed: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    m, n = np.shape(packed)[-2:]
    k = min(m, n)
    left = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=dtype_of(packed))
    order = _order(pivots, m)
    permutation = np.arange(m)[:, None] == order[..., None, :]
    return permutation.astype(dtype_of(packed)), left, np.triu(packed[..., :k, :])


def _lu_solve(packed: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """The x with a x = b, or x a = b, or with the transposed a."""
    order = _order(pivots, np.shape(packed)[-1])[..., None]
    b = b if left else turned(b)
    rows = (*np.broadcast_shapes(np.shape(order)[:-2], np.shape(b)[:-2]), *np.shape(b)[-2:])
    b = np.broadcast_to(b, rows)
    order = np.broadcast_to(order, rows)
    if left != adjoint:
        y = np.take_along_axis(b, order, -2)
        y = solve_triangular(packed, y, lower=True, unit_diagonal=True)
        x = solve_triangular(packed, y)
    else:
        y = solve_triangular(packed, b, "T")
        y = solve_triangular(packed, y, "T", lower=True, unit_diagonal=True)
        x = np.take_along_axis(y, np.argsort(order, axis=-2), -2)
    return x if left else turned(x)


# Products of reflections -------------------------------------------------------------------------


def _reflected(a: Any, tau: Any, x: Any, *, transposed: bool = False) -> Any:
    """Q x, where Q is the product of the reflections 1 - tau v vᵀ whose v are the columns of a."""
    m, count = np.shape(a)[-2], np.shape(tau)[-1]
    steps = range(count) if transposed else reversed(range(count))
    below = np.arange(m)[:, None]
    for place in steps:
        v = np.where(below == place, 1, np.where(below > place, a[..., :, place : place + 1], 0))
        x = x - tau[..., place, None, None] * (v @ (turned(v) @ x))
    return x


def _householder_product(a: Any, tau: Any) -> Any:
    return _reflected(a, tau, np.eye(*np.shape(a)[-2:], dtype=dtype_of(a)) + np.zeros_like(a))


def _ormqr(a: Any, tau: Any, x: Any, left: bool = True, transpose: bool = False) -> Any:
    if left:
        return _reflected(a, tau, x, transposed=transpose)
    return turned(_reflected(a, tau, turned(x), transposed=not transpose))


FACTORS: dict[str, Any] = {
    "linalg_cholesky": _cholesky,
    "cholesky": lambda x, upper=False: _cholesky(x, upper=upper),
    "linalg_cholesky_ex": lambda x, upper=False, check_errors=False: (
        _cholesky(x, upper=upper),
        info(x),
    ),
    "cholesky_solve": _cholesky_solve,
    "cholesky_inverse": _cholesky_inverse,
    "linalg_svd": _svd,
    "_linalg_svd": _svd,
    "linalg_svdvals": lambda x, driver=None: linalg.svdvals(x),
    "linalg_eigh": _eigh,
    "_linalg_eigh": _eigh,
    "linalg_eigvalsh": lambda x, UPLO="L": linalg.eigvalsh(x, UPLO),
    "linalg_qr": _qr,
    "linalg_lu": _lu,
    "linalg_lu_factor": lambda x, pivot=True: _lu_factor(x, pivot=pivot)[:2],
    "linalg_lu_factor_ex": _lu_factor,
    "lu_unpack": _lu_unpack,
    "linalg_lu_solve": _lu_solve,
    "lu_solve": lambda b, packed, pivots: _lu_solve(packed, pivots, b),
    "linalg_householder_product": _householder_product,
    "ormqr": _ormqr,
    **dict.fromkeys(("linalg_matrix_exp", "matrix_exp"), lambda x: expm(x)),
}
