"""The factors L and U of matrices whose rows are permuted."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives import logic
from chainrule.primitives.linalg.evaluation import (
    WIDE,
    batch_stack,
    every_stack_axis,
    matrix_type,
    scratch_of_one,
    stack_size,
)
from chainrule.primitives.linalg.factors import is_tall
from chainrule.primitives.linalg.parts import columns_of, lower, on_diagonal, rows_of, stacked
from chainrule.primitives.linalg.samples import ANY, regular
from chainrule.primitives.linalg.triangular import solve_triangular
from chainrule.primitives.movement import broadcast_to, concatenate, reshape
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Explicit, Library, Primitive, Sample
from chainrule.primitives.products import matmul, swapped
from chainrule.primitives.python import calls_function
from chainrule.primitives.routines import (
    STATUS,
    Block,
    Call,
    Copy,
    Numbers,
    Operand,
    Room,
    Routine,
    Swap,
    result_block,
)
from chainrule.primitives.sources import full_like, positions


def lu_by_lapack(x):
    """The factors of matrices with permuted rows, L below the diagonal, U above it and on it; and,
    as a last column, which row of the matrix each row is.  It computes in float64."""
    from scipy.linalg import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), dtype=np.float64)

    def factor(matrix, packed):
        factors, swaps, _ = getrf(np.array(matrix, np.float64, order="F"), overwrite_a=1)
        packed[:, :-1], order = factors, packed[:, -1]
        for row, other in enumerate(swaps):
            order[row], order[other] = order[other], order[row]

    packed = np.empty((*x.shape[:-1], x.shape[-1] + 1))
    packed[..., -1] = np.arange(x.shape[-2])
    for place in np.ndindex(*(x.shape[:-2] if x.size else (0,))):
        factor(x[place], packed[place])
    return packed.astype(x.dtype, copy=False)


def _lu(xp: Any, x: Any) -> Any:
    if xp is np:
        return lu_by_lapack(x)
    from jax.lax.linalg import lu as of_jax  # only JAX shares this evaluation

    factors, _, order = of_jax(x)
    return xp.concatenate([factors, order[..., None].astype(x.dtype)], axis=-1)


def _lu_type(x: ArrayType) -> ArrayType:
    m, n = matrix_type(x)
    if is_tall(x) is None:
        raise TypeError(f"whether {x} has more rows or more columns is not known")
    return array_type(x.dtype, (*x.shape[:-2], m, n + 1))


def permutation_of(packed: Any) -> Any:
    """The matrices P with x = P L U: ones where a row of x is a row of L U."""
    n, m = packed.type.shape[-1] - 1, packed.type.shape[-2]
    order = columns_of(packed, n, 1)  # a column for each matrix
    shape = (*packed.type.shape[:-1], m)
    numbers = logic.cast(positions(m, np.dtype(np.int64)), dtype=packed.dtype, weak=False)
    is_there = logic.equal(
        broadcast_to(swapped(order), shape=shape),
        broadcast_to(reshape(numbers, shape=(m, 1)), shape=shape),
    )
    return logic.cast(is_there, dtype=packed.dtype, weak=False)


def _strict(x: Any) -> Any:
    return lower(x, strictly=True)


def _upper(x: Any) -> Any:
    return swapped(lower(swapped(x)))


def _left(factors: Any, b: Any) -> Any:
    """L^-1 b."""
    return solve_triangular(factors, b, is_lower=True, is_unit=True)


def _left_transposed(factors: Any, b: Any) -> Any:
    """L^-T b."""
    return solve_triangular(swapped(factors), b, is_lower=False, is_unit=True)


def _right(b: Any, factors: Any) -> Any:
    """b U^-1."""
    return swapped(solve_triangular(swapped(factors), swapped(b), is_lower=True, is_unit=False))


def _right_transposed(b: Any, factors: Any) -> Any:
    """b U^-T."""
    return swapped(solve_triangular(factors, swapped(b), is_lower=False, is_unit=False))


def _with_unit(x: Any) -> Any:
    """L: what is below the diagonal, with ones on it."""
    ones = full_like(rows_of(x, 0, 1), 1)
    return on_diagonal(ones, _strict(x))


def _lu_tangent(dx: Any, out: Any, x: Any) -> Any:
    """Of P' x = L U: with F = L^-1 P' dx U^-1, dL = L lower(F) and dU = upper(F) U where it is
    square, and what follows for further rows of L or columns of U."""
    m, n = x.type.shape[-2:]
    factors, none = columns_of(out, 0, n), full_like(columns_of(out, n, 1), 0)
    moved = matmul(swapped(permutation_of(out)), dx)
    square, rest = _parts(factors, x)
    first, by_rest = _parts(moved, x)
    inner = _right(_left(square, first), square)
    found = matmul(_with_unit(square), _strict(inner)) + matmul(_upper(inner), _upper(square))
    if is_tall(x.type):
        if m != n:
            found = stacked(found, _right(by_rest, square) - matmul(rest, _upper(inner)))
    else:
        further = _left(square, by_rest) - matmul(_strict(inner), rest)
        found = concatenate(found, further, axis=x.ndim - 1)
    return concatenate(found, none, axis=x.ndim - 1)


def _lu_cotangent(g: Any, out: Any, x: Any) -> Any:
    """The transpose of the tangent."""
    m, n = x.type.shape[-2:]
    square, rest = _parts(columns_of(out, 0, n), x)
    first, by_rest = _parts(columns_of(g, 0, n), x)
    inner = _of_square(square, first)
    if m != n and is_tall(x.type):
        inner = inner - _upper(matmul(swapped(rest), by_rest))
    elif m != n:
        inner = inner - _strict(matmul(by_rest, swapped(rest)))
    by_moved = _right_transposed(_left_transposed(square, inner), square)
    if m != n and is_tall(x.type):
        by_moved = stacked(by_moved, _right_transposed(by_rest, square))
    elif m != n:
        by_moved = concatenate(by_moved, _left_transposed(square, by_rest), axis=x.ndim - 1)
    return matmul(permutation_of(out), by_moved)


def _parts(x: Any, like: Any) -> tuple[Any, Any]:
    """The square at the top or on the left, and what is below or beside it."""
    m, n = like.type.shape[-2:]
    if is_tall(like.type):
        return rows_of(x, 0, n), (rows_of(x, n, m - n) if m != n else None)
    return columns_of(x, 0, m), columns_of(x, m, n - m)


def _of_square(square: Any, g: Any) -> Any:
    by_left = _strict(matmul(swapped(_with_unit(square)), _strict(g)))
    return by_left + _upper(matmul(_upper(g), swapped(_upper(square))))


def _lu_flops(out: Node) -> int | Size:
    # m n k - (m + n) k^2 / 2 + k^3 / 3 products and sums: Golub & Van Loan, section 3.2.
    m, n = out.inputs[0].type.shape[-2:]
    k = sizes.minimum(m, n)
    return stack_size(out.type) * (2 * m * n * k - (m + n) * k * k + 2 * k * k * k // 3)


def _of_one(m: int, n: int, k: int) -> int:
    """What LAPACK factors, and its swaps; the numbers of the rows, before."""
    return max(WIDE.itemsize * m * n + 4 * min(m, n), 8 * m)


def _lu_routine(out: Node, x: Operand) -> Routine:
    m, n = (int(size) for size in out.inputs[0].shape[-2:])
    made, result = Block("factors", 1, m), result_block(out)
    k, order = min(m, n), result.at(0, n)
    return Routine(
        (
            Copy(x.block, made, m, n),
            Call("dgetrf", (m, n, made, m, Block("pivots"), Block(STATUS))),
            Copy(made, result, m, n),
            Numbers(order, m),
            Swap("pivots", order, k, 1),
        ),
        (Room("factors", m * n), Room("pivots", k, integers=True)),
    )


lu = Primitive(
    name="lu",
    doc="The factors of x = P L U, L below the diagonal; the last column has the order of rows.",
    inputs=("x",),
    result_type=_lu_type,
    evaluate=_lu,
    derivative=Explicit((_lu_tangent,), (_lu_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_lu_routine),
    independent=every_stack_axis,
    flops=_lu_flops,
    scratch=scratch_of_one(_of_one),
    latex=Latex(r"\operatorname{{lu}}({x})", ATOM, (0,)),
    samples=(
        *regular((3, 3), (2, 2, 2), (1, 1)),
        *(Sample((shape,), (ANY,)) for shape in ((3, 2), (2, 3), (0, 2))),
    ),
    python=calls_function(lu_by_lapack),
)

LINALG_LU = (lu,)
