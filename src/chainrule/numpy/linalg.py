"""Functions of numpy.linalg made of others: powers, least squares, ranks, tensor equations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.frontend.functions.linalg import as_number
from chainrule.graph.dtypes import finfo, promoted
from chainrule.graph.sizes.sizes import Size, is_nonnegative, maximum, product
from chainrule.numpy import products
from chainrule.numpy.ordering import positions_of
from chainrule.numpy.products import shape_error
from chainrule.numpy.statistics import count_along, size_value


def multi_dot(arrays: Sequence[Any]) -> Any:
    """np.linalg.multi_dot: the product in the order that takes the fewest multiplications.

    Where sizes have names, the order is from left to right.
    """
    if len(arrays) < 2:
        raise InputError(
            f"np.linalg.multi_dot of {len(arrays)} arrays", hint="give at least two arrays"
        )
    inner = [np.ndim(array) == 2 for array in arrays[1:-1]]
    if not all(inner) or not {np.ndim(arrays[0]), np.ndim(arrays[-1])} <= {1, 2}:
        raise shape_error(
            "np.linalg.multi_dot takes matrices, and vectors as the first and the last",
            *arrays,
            hint="np.matmul takes stacks of matrices",
        )
    lengths = [1] if np.ndim(arrays[0]) == 1 else [np.shape(arrays[0])[0]]
    lengths += [np.shape(array)[0] for array in arrays[1:]]
    lengths += [1] if np.ndim(arrays[-1]) == 1 else [np.shape(arrays[-1])[1]]
    if any(isinstance(length, Size) for length in lengths):
        result = arrays[0]
        for array in arrays[1:]:
            result = result @ array
        return result
    return _multiplied(arrays, _splits(lengths), 0, len(arrays) - 1)


def _splits(lengths: list[int]) -> dict[tuple[int, int], int]:
    """Where the product of matrices i to j is best split (Cormen et al., section 15.2)."""
    count = len(lengths) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for distance in range(1, count):
        for i in range(count - distance):
            j = i + distance
            tried = {
                k: cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1]
                for k in range(i, j)
            }
            split[i, j] = min(tried, key=lambda k: tried[k])
            cost[i, j] = tried[split[i, j]]
    return split


def _multiplied(arrays: Sequence[Any], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return arrays[i]
    k = split[i, j]
    return _multiplied(arrays, split, i, k) @ _multiplied(arrays, split, k + 1, j)


def matrix_power(a: Any, n: int) -> Any:
    """np.linalg.matrix_power, by repeated squaring; of negative powers, the inverse's."""
    exponent = operator.index(n)
    if np.ndim(a) < 2 or np.shape(a)[-1] != np.shape(a)[-2]:
        raise shape_error(
            "np.linalg.matrix_power needs square matrices", a, hint="the last two axes are equal"
        )
    if exponent == 0:
        places = positions_of(a.program, a.shape[-1])
        return np.broadcast_to((places[:, None] == places).astype(a.dtype), a.shape)
    if exponent < 0:
        a, exponent = np.linalg.inv(a), -exponent
    result = None
    while exponent:
        if exponent % 2:
            result = a if result is None else result @ a
        exponent //= 2
        a = a @ a if exponent else a
    return result


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """np.linalg.matrix_rank: how many singular values exceed the tolerance."""
    if hermitian:
        raise UnsupportedError(
            "np.linalg.matrix_rank(hermitian=True) is not traced", hint="leave hermitian= out"
        )
    if tol is not None and rtol is not None:
        raise InputError(f"np.linalg.matrix_rank(tol={tol!r}, rtol={rtol!r})", hint="give one")
    if np.ndim(A) < 2:
        return (np.sum(A != 0) > 0).astype(np.int64)
    values = np.linalg.svdvals(A)
    if tol is None:
        relative = _relative_cutoff(A, values.dtype) if rtol is None else _as_column(rtol)
        if count_along(values, -1) == 0:
            return np.sum(values, axis=-1).astype(np.int64)
        tol = np.max(values, axis=-1, keepdims=True) * relative
    else:
        tol = _as_column(tol)
    return np.sum(values > tol, axis=-1)


def _as_column(value: Any) -> Any:
    return value if np.ndim(value) == 0 else np.expand_dims(value, -1)


def _relative_cutoff(a: Any, dtype: np.dtype) -> Any:
    return size_value(maximum(*np.shape(a)[-2:]), like=a) * float(finfo(dtype).eps)


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """np.linalg.lstsq by the pseudo-inverse; `a` has full rank where residuals are used."""
    rows_fit = np.ndim(a) == 2 and np.ndim(b) in (1, 2) and np.shape(a)[0] == np.shape(b)[0]
    if not rows_fit:
        raise shape_error(
            "np.linalg.lstsq needs a matrix, and a right side with as many rows",
            a,
            b,
            hint="np.linalg.pinv(a) @ b takes stacks of matrices",
        )
    m, n = np.shape(a)
    a, b, rcond = a + 0.0, b + 0.0, as_number(rcond, "rcond")
    cutoff = float(finfo(promoted(a.dtype, b.dtype)).eps) if rcond == -1 else rcond
    x = np.linalg.pinv(a, rtol=cutoff) @ b
    is_wide = is_nonnegative(n - m)
    if is_wide is None or (not is_wide and not is_nonnegative(m - n)):
        raise shape_error(
            "np.linalg.lstsq: whether there are residuals depends on sizes without numbers",
            a,
            hint="np.linalg.pinv(a) @ b is the solution",
        )
    if is_wide:
        residuals = np.zeros(0, x.dtype)
    else:
        error = b - a @ x
        residuals = np.sum(error * error, axis=0, keepdims=np.ndim(b) == 1)
    rank = np.linalg.matrix_rank(a, rtol=cutoff)
    return x, residuals, rank.astype(np.int32), np.linalg.svdvals(a)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """np.linalg.tensorinv: the inverse of the linear map that the first `ind` axes index."""
    shape = tuple(np.shape(a))
    if ind <= 0:
        raise InputError(f"np.linalg.tensorinv(ind={ind})", hint="ind is at least 1")
    rows, columns = product(shape[:ind]), product(shape[ind:])
    _require_square(a, rows, columns, "np.linalg.tensorinv")
    inverse = np.linalg.inv(np.reshape(a, (rows, columns)))
    return np.reshape(inverse, (*shape[ind:], *shape[:ind]))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """np.linalg.tensorsolve: the x with tensordot(a, x, x.ndim) = b."""
    if axes is not None:
        rest = [axis for axis in range(np.ndim(a)) if axis not in axes]
        a = np.transpose(a, [*rest, *axes])
    shape = tuple(np.shape(a))[np.ndim(b) :]
    rows, columns = product(tuple(np.shape(b))), product(shape)
    _require_square(a, product(tuple(np.shape(a))[: np.ndim(b)]), columns, "np.linalg.tensorsolve")
    matrix = np.reshape(a, (rows, columns))
    return np.reshape(np.linalg.solve(matrix, np.reshape(b, -1)), shape)


def _require_square(a: Any, rows: Any, columns: Any, what: str) -> None:
    if rows != columns:
        raise shape_error(
            f"{what}: the first axes have {rows} elements, the others {columns}",
            a,
            hint="both must be equal",
        )


def outer(x1: Any, x2: Any, /) -> Any:
    """np.linalg.outer: all products of two vectors."""
    _require_axes("outer", 1, x1, x2)
    return products.outer(x1, x2)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """np.linalg.cross of vectors with three elements."""
    return products.cross(x1, x2, axis=axis)


def _require_axes(name: str, count: int, *arrays: Any) -> None:
    if any(np.ndim(array) != count for array in arrays):
        raise shape_error(
            f"np.linalg.{name} takes arrays of {count} axes", *arrays, hint=f"np.{name} takes more"
        )


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """np.linalg.diagonal: of the last two axes."""
    return np.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """np.linalg.trace: of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


LINALG: dict[Any, Callable[..., Any]] = {
    np.linalg.multi_dot: multi_dot,
    np.linalg.matrix_power: matrix_power,
    np.linalg.matrix_rank: matrix_rank,
    np.linalg.lstsq: lstsq,
    np.linalg.tensorinv: tensorinv,
    np.linalg.tensorsolve: tensorsolve,
    np.linalg.outer: outer,
    np.linalg.cross: cross,
    np.linalg.diagonal: diagonal,
    np.linalg.trace: trace,
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: np.tensordot(x1, x2, axes),
    np.linalg.matmul: lambda x1, x2, /: x1 @ x2,
    np.linalg.matrix_transpose: lambda x, /: np.swapaxes(x, -1, -2),
    np.linalg.vecdot: lambda x1, x2, /, *, axis=-1: products.vecdot(x1, x2, axis),
}
