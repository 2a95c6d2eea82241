"""Linear algebra as programs: LAPACK's methods in loops over columns.

All take stacks of matrices of float64.  What has no solution gives inf or NaN, where LAPACK raises
an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.api import scan, while_loop
from chainrule.graph.sizes import sizes


def rows_of(x: Any) -> Any:
    """The numbers of the rows of each matrix."""
    return np.arange(x.shape[-2])


def columns_of(x: Any) -> Any:
    return np.arange(x.shape[-1])


def _column(x: Any, i: Any) -> Any:
    return np.take(x, i, axis=-1)


def _row(x: Any, i: Any) -> Any:
    return np.take(x, i, axis=-2)


def _with_column(x: Any, i: Any, column: Any) -> Any:
    return np.where(columns_of(x) == i, column[..., None], x)


def _with_row(x: Any, i: Any, row: Any) -> Any:
    return np.where(rows_of(x)[:, None] == i, row[..., None, :], x)


def diagonal_of(x: Any) -> Any:
    return np.diagonal(x, axis1=-2, axis2=-1)


def is_empty(x: Any) -> bool:
    return any(isinstance(one, int) and one == 0 for one in x.shape)


def _eliminated(x: Any) -> tuple[Any, Any, Any]:
    """The factors of x with permuted rows, which row each was, and the sign of the permutation:
    Golub & Van Loan, Matrix Computations, algorithm 3.4.1."""
    rows, columns = rows_of(x), columns_of(x)
    count: Any = sizes.minimum(x.shape[-2], x.shape[-1])
    order = np.broadcast_to(rows, x.shape[:-1])
    sign = np.ones(x.shape[:-2])

    def step(carry: Any, i: Any) -> Any:
        x, order, sign = carry
        size = np.where(rows >= i, np.abs(_column(x, i)), -1.0)
        pivot = np.argmax(size, axis=-1)[..., None]
        swapped = np.where(rows == i, pivot, np.where(rows == pivot, i, rows))
        x = np.take_along_axis(x, np.broadcast_to(swapped[..., None], x.shape), axis=-2)
        order = np.take_along_axis(order, swapped, axis=-1)
        row, column = _row(x, i), _column(x, i)
        value = _column(row, i)[..., None]
        below = rows > i
        scaled = np.where(below, column / np.where(value == 0, 1.0, value), 0.0)
        x = x - scaled[..., None] * np.where(columns > i, row, 0.0)[..., None, :]
        x = _with_column(x, i, np.where(below, scaled, column))
        return (x, order, np.where(pivot[..., 0] == i, sign, -sign)), ()

    return scan(step, (x, order, sign), np.arange(count))[0]


def lu(x: Any) -> Any:
    if is_empty(x):
        order = np.broadcast_to(rows_of(x).astype(x.dtype), x.shape[:-1])
        return np.concatenate([x, order[..., None]], axis=-1)
    x, order, _ = _eliminated(x)
    return np.concatenate([x, order.astype(x.dtype)[..., None]], axis=-1)


def slogdet(x: Any) -> Any:
    if is_empty(x):
        ones = np.ones(x.shape[:-2])
        return np.stack([ones, 0 * ones], axis=-1)
    x, _, sign = _eliminated(x)
    pivots = diagonal_of(x)
    sign = sign * np.prod(np.sign(pivots), axis=-1)
    return np.stack([sign, np.sum(np.log(np.abs(pivots)), axis=-1)], axis=-1)


def solve_triangular(a: Any, b: Any, is_lower: bool, is_unit: bool) -> Any:
    """Row by row, from the one that has a single unknown."""
    if is_empty(b):
        return b
    columns = columns_of(a)

    def step(x: Any, i: Any) -> Any:
        row = _row(a, i)
        known = np.where(columns < i if is_lower else columns > i, row, 0.0)
        found = _row(b, i) - (known[..., None, :] @ x)[..., 0, :]
        if not is_unit:
            found = found / _column(row, i)[..., None]
        return _with_row(x, i, found), ()

    return scan(step, np.zeros_like(b), np.arange(a.shape[-1]), reverse=not is_lower)[0]


def solve(a: Any, b: Any) -> Any:
    if is_empty(b):
        return b
    n = a.shape[-1]
    both, _, _ = _eliminated(np.concatenate([a, b], axis=-1))
    return solve_triangular(both[..., :n], both[..., n:], False, False)


def inv(x: Any) -> Any:
    return solve(x, np.broadcast_to(unit_of(x), x.shape))


def unit_of(x: Any) -> Any:
    """The unit matrix with as many columns as x has."""
    places = columns_of(x)
    return (places[:, None] == places).astype(np.float64)


def cholesky(x: Any) -> Any:
    """Column by column: Golub & Van Loan, section 4.2.5."""
    if is_empty(x):
        return x
    rows = rows_of(x)

    def step(factor: Any, i: Any) -> Any:
        rest = _column(x, i) - (factor @ _row(factor, i)[..., None])[..., 0]
        found = rest / np.sqrt(np.take(rest, i, axis=-1))[..., None]
        return _with_column(factor, i, np.where(rows >= i, found, 0.0)), ()

    return scan(step, np.zeros_like(x), np.arange(x.shape[-1]))[0]


def reflected(x: Any) -> tuple[Any, Any]:
    """Q and R by Householder's reflections, with the signs that LAPACK chooses (dgeqr2)."""
    rows = rows_of(x)
    count: Any = sizes.minimum(x.shape[-2], x.shape[-1])

    def forth(r: Any, i: Any) -> Any:
        column = np.where(rows >= i, _column(r, i), 0.0)
        first = np.take(column, i, axis=-1)[..., None]
        rest = np.where(rows > i, column, 0.0)
        size = np.max(np.abs(column), axis=-1, keepdims=True)
        safe = np.where(size == 0, 1.0, size)
        length = safe * np.sqrt(np.sum((column / safe) ** 2, axis=-1, keepdims=True))
        other = np.where(first < 0, length, -length)
        flat = np.all(rest == 0, axis=-1, keepdims=True)
        scale = np.where(flat, 0.0, (other - first) / np.where(flat, 1.0, other))
        vector = np.where(rows == i, 1.0, rest / np.where(flat, 1.0, first - other))
        along = (vector[..., None, :] @ r)[..., 0, :]
        r = r - (scale * vector)[..., None] * along[..., None, :]
        r = np.where((rows > i)[:, None] & (columns_of(r) == i), 0.0, r)
        return r, (vector, scale)

    r, (vectors, scales) = scan(forth, x, np.arange(count))

    def back(q: Any, given: Any) -> Any:
        vector, scale = given
        along = (vector[..., None, :] @ q)[..., 0, :]
        return q - (scale * vector)[..., None] * along[..., None, :], ()

    unit = (rows[:, None] == np.arange(count)).astype(np.float64)
    begin = np.broadcast_to(unit, (*x.shape[:-2], *unit.shape))
    q, _ = scan(back, begin, (vectors, scales), reverse=True)
    return q, r[..., :count, :]


def qr(x: Any) -> Any:
    if is_empty(x):
        return np.zeros((*x.shape[:-2], sum(x.shape[-2:]), min(x.shape[-2:])))
    q, r = reflected(x)
    return np.concatenate([q, np.swapaxes(r, -1, -2)], axis=-2)


# The Pade approximant of degree 13: Higham, The scaling and squaring method for the matrix
# exponential revisited (2005), algorithm 2.3.
PADE = [64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000]
PADE += [10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1]
PADE = [one / PADE[0] for one in PADE]
LARGEST = 5.371920351148152  # the norm up to which degree 13 is exact to rounding


def expm(x: Any) -> Any:
    if is_empty(x):
        return x
    norm = np.max(np.sum(np.abs(x), axis=-2), axis=-1)
    known = np.where(np.isfinite(norm), norm, 0.0)
    squarings = np.ceil(np.log2(np.maximum(known / LARGEST, 1.0)))
    scaled = x * np.exp2(-squarings)[..., None, None]
    unit = unit_of(x)
    two = scaled @ scaled
    four = two @ two
    six = four @ two
    odd, even = (
        six @ (PADE[12 + k] * six + PADE[10 + k] * four + PADE[8 + k] * two)
        + (PADE[6 + k] * six + PADE[4 + k] * four + PADE[2 + k] * two + PADE[k] * unit)
        for k in (1, 0)
    )
    odd = scaled @ odd
    found = solve(even - odd, even + odd)

    def step(given: Any) -> Any:
        x, done = given
        more = (done < squarings)[..., None, None]
        return np.where(more, x @ x, x), done + 1

    limit = np.max(squarings) if squarings.shape else squarings
    found, _ = while_loop(lambda given: given[1] < limit, step, (found, 0.0), max_steps=1100)
    return np.where(np.isfinite(norm)[..., None, None], found, np.nan)


def det(x: Any) -> Any:
    """Of float64, for which onnxruntime has no kernel."""
    if is_empty(x):
        return np.ones(x.shape[:-2])
    x, _, sign = _eliminated(x)
    return sign * np.prod(diagonal_of(x), axis=-1)


_FUNCTIONS = (lu, slogdet, solve_triangular, solve, inv, cholesky, qr, expm)

OF_MATRICES = {one.__name__: one for one in _FUNCTIONS}
