"""PyTorch's products and linear algebra, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.factors import info
from chainrule.nn.layers import linear
from chainrule.numpy.matrix_functions import solve_triangular

linalg: Any = np.linalg


def _vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    return linalg.vecdot(x, y, axis=dim)


def _weighted(beta: Any, x: Any, alpha: Any, product: Any) -> Any:
    product = product if isinstance(alpha, (int, float)) and alpha == 1 else alpha * product
    if isinstance(beta, (int, float)) and beta == 0:  # where x may be NaN
        return product
    return (x if isinstance(beta, (int, float)) and beta == 1 else beta * x) + product


def _added(multiply: Any) -> Any:
    def call(x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        product = multiply(y, z)
        found = _weighted(beta, x, alpha, product)
        return (
            found
            if np.shape(found) == np.shape(product)
            else np.broadcast_to(found, np.shape(product))
        )

    return call


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if np.ndim(weight) == 1:
        found = x @ weight
        return found if bias is None else found + bias
    return linear(x, np.transpose(weight), bias)


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    found = np.einsum("...i,oij,...j->...o", x, weight, y)
    return found if bias is None else found + bias


def _einsum(equation: str, tensors: Any, *, path: Any = None) -> Any:
    return np.einsum(equation, *tensors)


def _matrix_norm(
    x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    moved = np.moveaxis(x, tuple(dim), (-2, -1))
    found = linalg.matrix_norm(moved, keepdims=False, ord=ord)
    return np.expand_dims(found, tuple(d % np.ndim(x) for d in dim)) if keepdim else found


def _is_vector(a: Any, b: Any) -> bool:
    return np.ndim(b) == 1 or (np.ndim(a) - 1 == np.ndim(b) and np.shape(b) == np.shape(a)[:-1])


def _solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = _is_vector(a, b)
    b = b[..., None] if vector else b
    if left:
        found = linalg.solve(a, b)
    else:
        found = np.swapaxes(linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return found[..., 0] if vector else found


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if left:
        return solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)
    turned = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    found = solve_triangular(*turned, lower=upper, unit_diagonal=unitriangular)
    return np.swapaxes(found, -1, -2)


def _triangular_solve(
    b: Any, given: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    found = solve_triangular(given, b, int(transpose), lower=not upper, unit_diagonal=unitriangular)
    return found, given


def _slogdet(x: Any) -> Any:
    return tuple(linalg.slogdet(x))


def _pinv(
    x: Any, rcond: Any = None, hermitian: Any = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """Singular values count that are above rtol times the largest one."""
    if atol is not None and np.any(atol):
        raise UnsupportedError("linalg.pinv with atol", hint="pass rtol")
    given = rcond if rcond is not None else rtol
    return linalg.pinv(x) if given is None else linalg.pinv(x, rcond=given)


def _cdist(x: Any, y: Any, p: float, mode: Any = None) -> Any:
    """The p-norm of all differences of rows."""
    return linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], ord=p, axis=-1)


def _pdist(x: Any, p: float = 2) -> Any:
    rows, others = np.triu_indices(np.shape(x)[0], 1)
    return linalg.vector_norm(x[rows] - x[others], ord=p, axis=-1)


def _kron(x: Any, y: Any) -> Any:
    return np.kron(x, y)


def _tensordot(x: Any, y: Any, dims_self: Any, dims_other: Any) -> Any:
    return np.tensordot(x, y, (list(dims_self), list(dims_other)))


PRODUCTS: dict[str, Any] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv"), np.matmul),
    **dict.fromkeys(("dot", "vdot", "linalg_vecdot"), _vecdot),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added(np.matmul)),
    "addbmm": _added(lambda y, z: np.sum(y @ z, axis=0)),
    **dict.fromkeys(("outer", "ger"), np.outer),
    "addr": _added(np.outer),
    "linear": _linear,
    "bilinear": _bilinear,
    "einsum": _einsum,
    "kron": _kron,
    "_cdist_forward": _cdist,
    "_pdist_forward": _pdist,
    "linalg_pinv": _pinv,
    "linalg_matrix_norm": _matrix_norm,
    "linalg_solve": _solve,
    "linalg_solve_ex": lambda *given, **options: (_solve(*given, **options), info(given[0])),
    "_linalg_solve_ex": lambda *given, **options: (
        _solve(*given, **options),
        None,
        None,
        info(given[0]),
    ),
    "linalg_solve_triangular": _solve_triangular,
    "triangular_solve": _triangular_solve,
    "linalg_inv": linalg.inv,
    "inverse": linalg.inv,
    "linalg_inv_ex": lambda x, check_errors=False: (linalg.inv(x), info(x)),
    "linalg_det": linalg.det,
    "det": linalg.det,
    "_linalg_det": lambda x: (linalg.det(x), None, None),
    "linalg_slogdet": _slogdet,
    "slogdet": _slogdet,
    "_linalg_slogdet": lambda x: (*linalg.slogdet(x), None, None),
    "linalg_matrix_power": lambda x, n: linalg.matrix_power(x, n),
    "matrix_power": lambda x, n: linalg.matrix_power(x, n),
}
