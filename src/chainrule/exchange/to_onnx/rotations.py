"""Eigenvalues and singular values as programs, by Jacobi's rotations of pairs of columns.

Vectors have signs of their own, as those of each LAPACK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.api import scan, while_loop
from chainrule.exchange.to_onnx.expressions import Refused
from chainrule.exchange.to_onnx.of_matrices import (
    columns_of,
    diagonal_of,
    is_empty,
    reflected,
    rows_of,
    slogdet,
    unit_of,
)

SWEEPS = 40  # at most; ten are usual
EPS = float(np.finfo(np.float64).eps)


def _rounds(n: int) -> Any:
    """All pairs of n columns in rounds that have each column once: which column meets each (for
    an odd n one meets itself)."""
    m = n + n % 2
    circle, found = list(range(1, m)), []
    for _ in range(m - 1):
        order = [0, *circle]
        other = list(range(m))
        for i in range(m // 2):
            a, b = order[i], order[m - 1 - i]
            other[a], other[b] = b, a
        found.append([one if one < n else place for place, one in enumerate(other[:n])])
        circle = circle[-1:] + circle[:-1]
    return np.array(found)


def _rotation(mine: Any, between: Any, other: Any, columns: Any) -> tuple[Any, Any]:
    """Cosine and sine by which each column turns towards the one that it meets, so that the
    product `between` both vanishes: Golub & Van Loan, section 8.5.2.

    The first of a pair says it for both: rounded apart, they might not be orthogonal any more.
    """
    still = between == 0
    ratio = (np.take(mine, other, axis=-1) - mine) / np.where(still, 1.0, 2 * between)
    tangent = np.where(ratio < 0, -1.0, 1.0) / (np.abs(ratio) + np.sqrt(ratio * ratio + 1))
    tangent = np.where(still, 0.0, tangent)
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    sine = tangent * cosine
    is_first = columns < other
    cosine = np.where(is_first, cosine, np.take(cosine, other, axis=-1))
    return cosine, np.where(is_first, -sine, np.take(sine, other, axis=-1))


def _turned(x: Any, other: Any, cosine: Any, sine: Any) -> Any:
    """Each column of x, and the one that it meets, turned."""
    return x * cosine[..., None, :] + np.take(x, other, axis=-1) * sine[..., None, :]


def _swept(sweep: Any, state: Any, rest: Any) -> Any:
    """Sweeps as long as there is a `rest` of the state, in one matrix at least."""

    def goes_on(given: Any) -> Any:
        state, count = given
        return np.any(rest(state) > 0) & (count < SWEEPS)

    def once(given: Any) -> Any:
        state, count = given
        return sweep(state), count + 1

    return while_loop(goes_on, once, (state, 0), max_steps=SWEEPS)[0]


def _eigen(x: Any, uplo: str) -> tuple[Any, Any]:
    """Eigenvalues, ascending, and vectors, by Jacobi's method with pairs in parallel."""
    rows, columns = rows_of(x)[:, None], columns_of(x)
    kept = columns <= rows if uplo == "L" else columns >= rows
    x = np.where(kept, x, np.swapaxes(x, -1, -2))
    unit = np.broadcast_to(unit_of(x), x.shape)
    n = _known(x.shape[-1])
    if n == 1:
        return x[..., 0], unit
    rounds = _rounds(n)

    def turn(state: Any, other: Any) -> Any:
        x, vectors = state
        diagonal = diagonal_of(x)
        meets = (rows == other).astype(np.float64)  # the matrix of this round's pairs
        between = np.where(other == columns, 0.0, np.sum(x * meets, axis=-2))
        cosine, sine = _rotation(diagonal, between, other, columns)
        x = _turned(x, other, cosine, sine)
        x = np.swapaxes(_turned(np.swapaxes(x, -1, -2), other, cosine, sine), -1, -2)
        x = np.where((meets > 0) & (columns != other), 0.0, x)
        return (x, _turned(vectors, other, cosine, sine)), ()

    least = (n * EPS) ** 2 * np.sum(x * x, axis=(-2, -1))

    def outside(state: Any) -> Any:
        rest = np.where(rows == columns, 0.0, state[0])
        size = np.sum(rest * rest, axis=(-2, -1))
        return np.where(size > least, size, 0.0)

    x, vectors = _swept(lambda state: scan(turn, state, rounds)[0], (x, unit), outside)
    values = diagonal_of(x)
    order = np.argsort(values, axis=-1)
    return np.take_along_axis(values, order, axis=-1), _by_columns(vectors, order)


def _by_columns(x: Any, order: Any) -> Any:
    return np.take_along_axis(x, np.broadcast_to(order[..., None, :], x.shape), axis=-1)


def _known(n: Any) -> int:
    if not isinstance(n, int):
        raise Refused(f"matrices with {n} columns, which must be a number")
    return n


def eigh(x: Any, uplo: str) -> Any:
    if is_empty(x):
        return np.zeros((*x.shape[:-2], x.shape[-1] + 1, x.shape[-1]))
    values, vectors = _eigen(x, uplo)
    return np.concatenate([values[..., None, :], vectors], axis=-2)


def eigvalsh(x: Any, uplo: str) -> Any:
    return np.zeros(x.shape[:-1]) if is_empty(x) else _eigen(x, uplo)[0]


def _factors(x: Any) -> tuple[Any, Any, Any]:
    """U, the singular values, descending, and V: Hestenes's rotations of the columns of R."""
    m, n = x.shape[-2:]
    if _known(m) < _known(n):
        v, s, u = _factors(np.swapaxes(x, -1, -2))
        return u, s, v
    q, r = reflected(x)
    columns = columns_of(x)
    unit = np.broadcast_to(unit_of(x), r.shape)
    rounds = _rounds(n)

    def turn(state: Any, other: Any) -> Any:
        w, v = state
        met = np.take(w, other, axis=-1)
        mine, between = np.sum(w * w, axis=-2), np.sum(w * met, axis=-2)
        others = np.take(mine, other, axis=-1)
        between = np.where(between * between <= (EPS * mine) * (EPS * others), 0.0, between)
        between = np.where(other == columns, 0.0, between)
        cosine, sine = _rotation(mine, between, other, columns)
        return (_turned(w, other, cosine, sine), _turned(v, other, cosine, sine)), ()

    def angles(state: Any) -> Any:
        w = state[0]
        lengths = np.sqrt(np.sum(w * w, axis=-2))
        products = np.abs(np.swapaxes(w, -1, -2) @ w)
        bound = n * EPS * lengths[..., None] * lengths[..., None, :]
        is_large = (products > bound) & (columns[:, None] != columns)
        return np.sum(is_large.astype(np.float64), axis=(-2, -1))

    w, v = (r, unit) if n == 1 else _swept(lambda s: scan(turn, s, rounds)[0], (r, unit), angles)
    s = np.sqrt(np.sum(w * w, axis=-2))
    order = np.argsort(-s, axis=-1)
    s, w, v = np.take_along_axis(s, order, axis=-1), _by_columns(w, order), _by_columns(v, order)
    # Directions of values that are 0 are any that are orthogonal to the others: those of Q.
    there = s > EPS * s[..., :1] * n
    w = np.where(there[..., None, :], w / np.where(there, s, 1.0)[..., None, :], 0.0)
    basis, triangle = reflected(w)
    sign = np.where(diagonal_of(triangle) < 0, -1.0, 1.0)
    w = np.where(there[..., None, :], w, basis * sign[..., None, :])
    return q @ w, s, v


def svd(x: Any) -> Any:
    if is_empty(x):
        m, n = x.shape[-2:]
        return np.zeros((*x.shape[:-2], m + 1 + n, min(m, n)))
    u, s, v = _factors(x)
    return np.concatenate([u, s[..., None, :], v], axis=-2)


def svdvals(x: Any) -> Any:
    if is_empty(x):
        return np.zeros((*x.shape[:-2], min(x.shape[-2:])))
    return _factors(x)[1]


def pinv(x: Any, cutoff: float) -> Any:
    if is_empty(x):
        return np.swapaxes(x, -1, -2)
    u, s, v = _factors(x)
    large = s > cutoff * s[..., :1]
    over = np.where(large, 1 / np.where(large, s, 1.0), 0.0)
    return (v * over[..., None, :]) @ np.swapaxes(u, -1, -2)


def cofactor(x: Any) -> Any:
    """As `primitives/linalg/det.py` has it."""
    if is_empty(x):
        return x
    u, s, v = _factors(x)
    rest = np.prod(np.where(unit_of(x) > 0, 1.0, s[..., None, :]), axis=-1)
    sign = slogdet(u)[..., 0] * slogdet(v)[..., 0]
    return (u * (rest * sign[..., None])[..., None, :]) @ np.swapaxes(v, -1, -2)


def cofactor_change(x: Any, d: Any) -> Any:
    if is_empty(x):
        return x
    u, s, v = _factors(x)
    unit = unit_of(x) > 0
    others = np.where(unit[:, None] | unit, 1.0, s[..., None, None, :])
    products = np.where(unit, 0.0, np.prod(others, axis=-1))
    inner = np.swapaxes(u, -1, -2) @ d @ v
    diagonal = (products @ diagonal_of(inner)[..., None])[..., 0]
    inner = np.where(unit, diagonal[..., None, :], -np.swapaxes(inner, -1, -2) * products)
    sign = slogdet(u)[..., 0] * slogdet(v)[..., 0]
    return u @ (inner * sign[..., None, None]) @ np.swapaxes(v, -1, -2)


_FUNCTIONS = (eigh, eigvalsh, svd, svdvals, pinv, cofactor, cofactor_change)

OF_ROTATIONS = {one.__name__: one for one in _FUNCTIONS}
