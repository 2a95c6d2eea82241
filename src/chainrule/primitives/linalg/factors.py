"""The Cholesky and QR factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size, is_nonnegative
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    PANEL,
    WIDE,
    batch_stack,
    calls_linalg,
    calls_packing,
    every_stack_axis,
    in_float64,
    lapack_bytes,
    matrix_type,
    of_one_triangle,
    only_the_result,
    scratch_of,
    square_type,
    stack_size,
)
from chainrule.primitives.linalg.parts import (
    antisymmetric,
    columns_of,
    diagonal_of,
    lower,
    on_diagonal,
    rows_of,
    stacked,
    symmetric,
)
from chainrule.primitives.linalg.triangular import solve_triangular
from chainrule.primitives.movement import concatenate
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Explicit, Library, Primitive, Sample
from chainrule.primitives.products import matmul, swapped
from chainrule.primitives.routines import (
    STATUS,
    Block,
    Call,
    Copy,
    Operand,
    Room,
    Routine,
    Step,
    Together,
    result_block,
)

ANY = (-2.0, 2.0)
BLOCK = 128  # columns of a large Cholesky factor that are done at once


def _half_lower(x: Any) -> Any:
    """The elements below the diagonal, and half of those on it."""
    return on_diagonal(0.5 * diagonal_of(x), lower(x, strictly=True))


def _solved(triangle: Any, b: Any, *, is_lower: bool) -> Any:
    """triangle^-1 b."""
    return solve_triangular(triangle, b, is_lower=is_lower, is_unit=False)


def _cholesky_tangent(dx: Any, out: Any, x: Any) -> Any:
    once = _solved(out, symmetric(dx), is_lower=True)
    return matmul(out, _half_lower(_solved(out, swapped(once), is_lower=True)))


def _cholesky_cotangent(g: Any, out: Any, x: Any) -> Any:
    # Murray, Differentiation of the Cholesky decomposition (2016), section 4.
    other = swapped(out)
    once = _solved(other, _half_lower(matmul(other, g)), is_lower=False)
    return symmetric(_solved(other, swapped(once), is_lower=False))


def _cholesky_routine(out: Node, x: Operand) -> Routine:
    return _by_potrf(out, x, int(out.shape[-1]))


def _large_cholesky_routine(out: Node, x: Operand) -> Routine:
    return _by_potrf(out, x, BLOCK)


def _by_potrf(out: Node, x: Operand, width: int) -> Routine:
    """The factor, in blocks of this width: Golub & Van Loan, Matrix Computations, section 4.2.9.

    What lies in rows, LAPACK sees transposed: x = U' U there, and U' is L here.
    """
    n, result = int(out.shape[-1]), result_block(out)
    made = result if out.dtype == WIDE else Block("factor", n)
    steps = list[Step | Together]([Copy(x.block, made, n, n, "lower")])
    for first in range(0, n, width):
        size = min(width, n - first)
        corner, after = made.at(first, first), first + size
        steps.append(Call("dpotrf", ("U", size, corner, n, Block(STATUS)), "nonzero"))
        strips = [(made.at(j, 0), j, min(width, n - j)) for j in range(after, n, width)]
        solved, updated = list[Call](), list[Call]()
        for strip, j, rows in strips:
            right, rest = strip.at(0, first), strip.at(0, after)
            wanted = ("L", "U", "T", "N", size, rows, 1.0, corner, n, right, n)
            solved.append(Call("dtrsm", wanted))
            sizes = (j + rows - after, rows, size)
            product = (made.at(after, first), n, right, n, 1.0, rest, n)
            updated.append(Call("dgemm", ("T", "N", *sizes, -1.0, *product)))
        steps += [Together(tuple(solved)), Together(tuple(updated))] if strips else []
        if made is result and width < n:  # the products write above the diagonal, too
            steps.append(Copy(corner, corner, size, size, "lower"))
    if made is result:
        return Routine(tuple(steps))
    return Routine((*steps, Copy(made, result, n, n, "lower")), (Room("factor", n * n),))


def _positive_definite(n: int) -> tuple[Any, Any]:
    return (
        tuple(tuple(2.0 * n if i == j else -0.9 for j in range(n)) for i in range(n)),
        tuple(tuple(3.0 * n if i == j else 0.9 for j in range(n)) for i in range(n)),
    )


cholesky = Primitive(
    name="cholesky",
    doc="The lower triangular L with L L' = x, of symmetric positive definite matrices.",
    inputs=("x",),
    result_type=square_type,
    evaluate=lambda xp, x: in_float64(
        xp, lambda x: xp.linalg.cholesky(x, **of_one_triangle(xp)), x
    ),
    derivative=Explicit((_cholesky_tangent,), (_cholesky_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_cholesky_routine, large_routine=_large_cholesky_routine),
    library_bytes=lapack_bytes(lambda m, n, k: n * n, lambda m, n, k: n * n),
    independent=every_stack_axis,
    # n^3 / 3: Golub & Van Loan, Matrix Computations, section 4.2.
    flops=lambda out: stack_size(out.type) * (out.type.shape[-1] ** 3 // 3),
    scratch=only_the_result,
    latex=Latex(r"\operatorname{{chol}}({x})", ATOM, (0,)),
    # Not smooth: NumPy reads one triangle, while the derivative is that of symmetric matrices.
    samples=tuple(
        Sample((shape,), (_positive_definite(shape[-1]) if shape[-1] else ANY,), smooth=False)
        for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0))
    ),
    python=calls_linalg("cholesky", "factor"),
)


def is_tall(x: ArrayType) -> bool | None:
    """Whether there are at least as many rows as columns; None where sizes do not say."""
    m, n = matrix_type(x)
    return True if is_nonnegative(m - n) else False if is_nonnegative(n - m) else None


def _qr_type(x: ArrayType) -> ArrayType:
    m, n = matrix_type(x)
    return array_type(x.dtype, (*x.shape[:-2], m + n, sizes.minimum(m, n)))


def _qr(xp: Any, x: Any) -> Any:
    def packed(x: Any) -> Any:
        q, r = xp.linalg.qr(x)
        return xp.concatenate([q, xp.swapaxes(r, -1, -2)], axis=-2)

    return in_float64(xp, packed, x)


def qr_parts(packed: Any, x: Any) -> tuple[Any, Any]:
    """Q and R of the packed factors of x."""
    m, n = x.type.shape[-2:]
    return rows_of(packed, 0, m), swapped(rows_of(packed, m, n))


def _over(x: Any, r: Any, *, is_lower: bool = False) -> Any:
    """x R^-1 of an upper triangle R; `is_lower`: of a lower one."""
    return swapped(_solved(swapped(r), swapped(x), is_lower=not is_lower))


def _tall_tangent(dx: Any, q: Any, r: Any) -> tuple[Any, Any]:
    # Walter & Lehmann, Algorithmic differentiation of linear algebra functions (2018), section 3.
    moved = _over(dx, r)
    inner = matmul(swapped(q), moved)
    turned = antisymmetric(lower(inner, strictly=True))
    dq = matmul(q, turned - inner) + moved
    return dq, matmul(inner - turned, r)


def _tall_cotangent(by_q: Any, by_r: Any, q: Any, r: Any) -> Any:
    inner = matmul(r, swapped(by_r)) - matmul(swapped(by_q), q)
    below = lower(inner, strictly=True)
    mirrored = on_diagonal(diagonal_of(inner), below + swapped(below))
    return _over(by_q + matmul(q, mirrored), swapped(r), is_lower=True)


def _split(x: Any, k: int | Size) -> tuple[Any, Any]:
    return columns_of(x, 0, k), columns_of(x, k, x.type.shape[-1] - k)


def _qr_tangent(dx: Any, out: Any, x: Any) -> Any:
    q, r = qr_parts(out, x)
    m, n = x.type.shape[-2:]
    if is_tall(x.type):
        dq, dr = _tall_tangent(dx, q, r)
        return stacked(dq, swapped(dr))
    (first, _), (d_first, d_rest) = _split(r, m), _split(dx, m)
    dq, dr = _tall_tangent(d_first, q, first)
    moved = matmul(swapped(q), d_rest) + matmul(swapped(dq), columns_of(x, m, n - m))
    return stacked(dq, swapped(concatenate(dr, moved, axis=x.ndim - 1)))


def _qr_cotangent(g: Any, out: Any, x: Any) -> Any:
    q, r = qr_parts(out, x)
    by_q, by_r = qr_parts(g, x)
    m, n = x.type.shape[-2:]
    if is_tall(x.type):
        return _tall_cotangent(by_q, by_r, q, r)
    first, (by_first, by_rest) = columns_of(r, 0, m), _split(by_r, m)
    by_q = by_q + matmul(columns_of(x, m, n - m), swapped(by_rest))
    left = _tall_cotangent(by_q, by_first, q, first)
    return concatenate(left, matmul(q, by_rest), axis=x.ndim - 1)


def _qr_nbytes(out: Node, x: np.ndarray) -> int:
    # Before there is a result: x with the factors in it, their scales, Q, R, what R is zero by.
    m, n = x.shape[-2:]
    k = min(m, n)
    factors = stack_size(x) * (m * k + k * n)
    made = x.size + stack_size(x) * k + factors
    return max(WIDE.itemsize * (made + 1) + k * n, WIDE.itemsize * (factors + out.type.size))


# When the matrices are factored, and when Q is made: the factored matrices, their scales (and Q);
# copies, and room to work.
_factoring = lapack_bytes(
    lambda m, n, k: m * n + min(m, n),
    lambda m, n, k: m * n + min(m, n) + n * PANEL,
)
_making_q = lapack_bytes(
    lambda m, n, k: m * n + min(m, n) * (m + 1),
    lambda m, n, k: m * n + min(m, n) * (m + 1 + PANEL),
)


def _qr_library_bytes(out: Node, x: np.ndarray) -> int:
    return max(_factoring(out, x), _making_q(out, x))


def _qr_flops(out: Node) -> int | Size:
    # 2 (2 m n k - ...) for R and the same for Q: Golub & Van Loan, section 5.2.
    m, n = out.inputs[0].type.shape[-2:]
    k = out.type.shape[-1]
    return stack_size(out.type) * (4 * m * n * k - 4 * k * k * k // 3)


def _qr_routine(out: Node, x: Operand) -> Routine:
    m, n = (int(size) for size in out.inputs[0].shape[-2:])
    k, result = min(m, n), result_block(out)
    made, status, work, most = Block("factors", 1, m), Block(STATUS), Block("work"), n * PANEL
    shared = (made, m, Block("scales"), work, most, status)
    return Routine(
        (
            Copy(x.block, made, m, n),
            Call("dgeqrf", (m, n, *shared)),
            Copy(made.transposed, result.at(m, 0), n, k, "lower"),
            Call("dorgqr", (m, k, k, *shared)),
            Copy(made, result, m, k),
        ),
        (Room("factors", m * n), Room("scales", k), Room("work", most)),
    )


QR = '''
def qr(x):
    """The factors Q and R of matrices, the transposed R under Q."""
    q, r = np.linalg.qr(x)
    return np.concatenate([q, np.swapaxes(r, -1, -2)], axis=-2)
'''

qr = Primitive(
    name="qr",
    doc="The thin factors Q and R of matrices, R transposed under Q; Q' Q = 1, R upper triangular.",
    inputs=("x",),
    result_type=_qr_type,
    evaluate=_qr,
    derivative=Explicit((_qr_tangent,), (_qr_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_qr_routine),
    library_bytes=_qr_library_bytes,
    independent=every_stack_axis,
    flops=_qr_flops,
    scratch=scratch_of(_qr_nbytes),
    latex=Latex(r"\operatorname{{qr}}({x})", ATOM, (0,)),
    samples=tuple(
        Sample((shape,), (ANY,)) for shape in ((3, 3), (3, 2), (2, 2, 3), (1, 1), (2, 0))
    ),
    python=calls_packing(QR),
)

LINALG_FACTORS = (cholesky, qr)
