"""Parts of matrices that the derivative rules of linear algebra use.

In derivative rules, a *packed* value holds the results of one factorisation one under another, as
rows with the same number of columns; its parts are slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.dtypes import finfo
from chainrule.graph.sizes.sizes import Size, is_nonnegative
from chainrule.primitives import logic
from chainrule.primitives.arithmetic import absolute, add
from chainrule.primitives.movement import broadcast_to, concatenate, pad, reshape, slice_
from chainrule.primitives.products import matmul, swapped
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full_like, positions

INDEX = np.dtype(np.int64)
ROUNDINGS = 16  # of the sum of all values: as far apart two of them may lie that are equal


def rows_of(packed: Any, first: int | Size, count: int | Size) -> Any:
    """`count` rows of each matrix, from `first` on."""
    shape = packed.type.shape
    start = (*(0,) * (len(shape) - 2), first, 0)
    wanted = (*shape[:-2], count, shape[-1])
    return slice_(packed, start=start, step=(1,) * len(shape), shape=wanted)


def columns_of(x: Any, first: int | Size, count: int | Size) -> Any:
    """`count` columns of each matrix, from `first` on."""
    shape = x.type.shape
    start = (*(0,) * (len(shape) - 1), first)
    return slice_(x, start=start, step=(1,) * len(shape), shape=(*shape[:-1], count))


def stacked(*parts: Any) -> Any:
    """Matrices one under another."""
    return concatenate(*parts, axis=parts[0].ndim - 2)


def as_row(x: Any) -> Any:
    """Vectors as matrices of one row."""
    return reshape(x, shape=(*x.type.shape[:-1], 1, x.type.shape[-1]))


def by_columns(x: Any, scale: Any) -> Any:
    """The j-th column of each matrix times the j-th element of its row `scale`."""
    return x * broadcast_to(scale, shape=x.type.shape)


def by_rows(x: Any, scale: Any) -> Any:
    """The i-th row of each matrix times the i-th element of its row `scale`."""
    return x * broadcast_to(swapped(scale), shape=x.type.shape)


def _places(x: Any) -> tuple[Any, Any]:
    """The number of the row and of the column of each element."""
    shape = x.type.shape
    rows = reshape(positions(shape[-2], INDEX), shape=(shape[-2], 1))
    return broadcast_to(rows, shape=shape), broadcast_to(positions(shape[-1], INDEX), shape=shape)


def on_diagonal(diagonal: Any, rest: Any) -> Any:
    """`rest` with the elements of the row `diagonal` on the diagonal of each matrix."""
    rows, columns = _places(rest)
    return logic.where(
        logic.equal(rows, columns), broadcast_to(diagonal, shape=rest.type.shape), rest
    )


def diagonal_of(x: Any) -> Any:
    """The diagonal of each matrix, as a row."""
    rows, columns = _places(x)
    kept = logic.where(logic.equal(rows, columns), x, full_like(x, 0))
    return as_row(sum_(kept, axes=(x.ndim - 2,)))


def lower(x: Any, *, strictly: bool = False) -> Any:
    """The elements below the diagonal and on it; `strictly` only below."""
    rows, columns = _places(x)
    compare = logic.greater if strictly else logic.greater_equal
    return logic.where(compare(rows, columns), x, full_like(x, 0))


def trace_of_product(x: Any, y: Any) -> Any:
    """The sum of the products of all elements of each pair of matrices."""
    return sum_(x * y, axes=(x.ndim - 2, x.ndim - 1))


def over_matrices(scalar: Any, like: Any) -> Any:
    """One number for each matrix, repeated over its elements."""
    one = reshape(scalar, shape=(*scalar.type.shape, 1, 1))
    return broadcast_to(one, shape=like.type.shape)


def symmetric(x: Any) -> Any:
    """The symmetric part of each matrix."""
    return 0.5 * (x + swapped(x))


def antisymmetric(x: Any) -> Any:
    """The difference of each matrix and its transpose."""
    return x - swapped(x)


def reaches(g: Any, first: int | Size, count: int | Size) -> bool:
    """Whether a cotangent of a packed value has to do with these rows.

    Not if it is a sum of paddings of other rows, which is what slices of other parts leave.
    """
    waiting, seen = [g], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.primitive is add:
            waiting.extend(node.inputs)
        elif node.primitive is not pad or not _lies_elsewhere(node, first, count):
            return True
    return False


def _lies_elsewhere(padded: Any, first: int | Size, count: int | Size) -> bool:
    start, rows = padded.param("start")[-2], padded.inputs[0].type.shape[-2]
    if padded.param("step")[-2] != 1:
        return False
    before, after = first - (start + rows), start - (first + count)
    return bool(is_nonnegative(before) or is_nonnegative(after))


def _tied(values: Any, like: Any) -> Any:
    """Which two of the values, a row, differ by no more than the rounding of their computation."""
    across = broadcast_to(values, shape=like.type.shape)
    total = sum_(absolute(values), axes=(values.ndim - 2, values.ndim - 1))
    bound = total * full_like(total, ROUNDINGS * float(finfo(total.dtype).eps))
    return logic.less_equal(absolute(across - swapped(across)), over_matrices(bound, like))


def over_gaps(x: Any, gaps: Any, values: Any) -> Any:
    """The elements of x over the gaps of a row of values; over 1 on the diagonal.

    NaN where two values are equal, and where what is left of their gap is rounding, too, unless x
    is 0 here and at the transposed place: then nothing depends on these two.
    """
    return x / _gaps_without_ties(x, gaps, values)


def difference_over_gaps(x: Any, gaps: Any, values: Any) -> Any:
    """`over_gaps` of x less its transpose, which can be 0 also where x is not."""
    return antisymmetric(x) / _gaps_without_ties(x, gaps, values)


def _gaps_without_ties(x: Any, gaps: Any, values: Any) -> Any:
    matters = logic.not_equal(absolute(x) + absolute(swapped(x)), full_like(x, 0))
    lost = logic.logical_and(_tied(values, x), matters)
    return on_diagonal(full_like(values, 1), logic.where(lost, full_like(gaps, np.nan), gaps))


def product_of(*factors: Any) -> Any:
    """The matrix product, from the left."""
    result = factors[0]
    for factor in factors[1:]:
        result = matmul(result, factor)
    return result
