"""Linear systems, inverses and pseudo-inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.dtypes import finfo
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    WIDE,
    batch_stack,
    calls_linalg,
    every_stack_axis,
    gesdd_elements,
    in_float64,
    lapack_bytes,
    matrix_type,
    only_the_result,
    scratch_of,
    square_type,
    stack_size,
    written,
)
from chainrule.primitives.linalg.lu import lu
from chainrule.primitives.linalg.samples import ANY, REGULAR, regular
from chainrule.primitives.linalg.svd import svd_flops
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.notation import POWER, Latex
from chainrule.primitives.primitive import Explicit, Joint, Library, Primitive, Sample
from chainrule.primitives.products import is_swapped, matmul, swapped
from chainrule.primitives.python import Writing
from chainrule.primitives.routines import (
    STATUS,
    Block,
    Call,
    Copy,
    Operand,
    Permute,
    Regular,
    Room,
    Routine,
    Unit,
    result_block,
    triangle,
)


def _solve_type(a: ArrayType, b: ArrayType) -> ArrayType:
    square_type(a)
    if a.dtype != b.dtype or b.ndim != a.ndim or a.shape[:-1] != b.shape[:-1]:
        raise TypeError(f"cannot solve {a} for {b}")
    return array_type(b.dtype, b.shape)


def _solve_tangent(dxs: Any, out: Any, a: Any, b: Any) -> Any:
    da, db = dxs
    if da is None:
        return solve(a, db)
    moved = matmul(da, out)
    return solve(a, -moved if db is None else db - moved)


def _solve_cotangents(g: Any, out: Any, active: tuple[int, ...], a: Any, b: Any) -> Any:
    by_b = solve(swapped(a), g)
    return (-matmul(by_b, swapped(out)) if 0 in active else None), by_b


def _solve_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    a, b = (
        one if has else add_batch_axis(one, size) for one, has in zip(inputs, batched, strict=True)
    )
    return solve(a, b)


def _solve_flops(out: Node) -> int | Size:
    # LU, then two triangular systems a column: Golub & Van Loan, Matrix Computations, section 3.2.
    n, k = out.type.shape[-2:]
    return stack_size(out.type) * (2 * n * n * n // 3 + 2 * n * n * k)


def _factored_by_solve(out: Node) -> Node:
    """The matrices that are factored: one factor serves their transposes, too."""
    a = out.inputs[0]
    return a.inputs[0] if is_swapped(a) else a


def _factor_of(matrices: Node) -> Node:
    """In float64: what is solved by a rounded factor has its error times the condition."""
    wide = matrices if matrices.dtype == WIDE else cast(matrices, dtype=WIDE, weak=False)
    return lu(wide)


def _solve_routine(out: Node, packed: Operand, b: Operand, columns: int) -> Routine:
    """By the packed factors P L U of a, or of its transpose."""
    n, k = int(out.shape[-2]), columns
    factors, result = packed.block, result_block(out)
    order, regular = factors.at(0, n), Regular(factors, n)
    made = result if out.dtype == WIDE else Block("solution", k)
    rooms = () if made is result else (Room("solution", n * k),)
    if not is_swapped(out.inputs[0]):
        by_lower = triangle(factors, made, n, k, is_lower=True, is_unit=True)
        by_upper = triangle(factors, made, n, k, is_lower=False, is_unit=False)
        steps = (regular, Permute(b.block, order, made, n, k), by_lower, by_upper)
        return Routine(steps if made is result else (*steps, Copy(made, result, n, k)), rooms)
    moved, other = Block("moved", k), factors.transposed
    by_upper = triangle(other, moved, n, k, is_lower=True, is_unit=False)
    by_lower = triangle(other, moved, n, k, is_lower=False, is_unit=True)
    back = Permute(moved, order, result, n, k, back=True)
    steps = (regular, Copy(b.block, moved, n, k), by_upper, by_lower, back)
    return Routine(steps, (Room("moved", n * k),))


solve = Primitive(
    name="solve",
    doc="The X with a X = b, for stacks of square matrices a and of matrices b; a is not singular.",
    inputs=("a", "b"),
    result_type=_solve_type,
    evaluate=lambda xp, a, b: in_float64(xp, xp.linalg.solve, a, b),
    derivative=Joint(_solve_tangent, _solve_cotangents),
    batch=_solve_batch,
    kernel=Library(
        lapack=True,
        routine=_solve_routine,
        by_columns=True,
        factored=(_factored_by_solve, _factor_of),
    ),
    library_bytes=lapack_bytes(lambda m, n, k: n * k, lambda m, n, k: n * (n + k + 1)),
    independent=every_stack_axis,
    flops=_solve_flops,
    scratch=only_the_result,
    latex=Latex(r"{{{a}}}^{{-1}} {b}", POWER, (POWER + 1, POWER)),
    samples=(
        Sample(((3, 3), (3, 2)), (REGULAR[3], ANY)),
        Sample(((2, 2, 2), (2, 2, 1)), (REGULAR[2], ANY)),
        Sample(((1, 1), (1, 3)), (REGULAR[1], ANY)),
        Sample(((0, 0), (0, 2)), (ANY, ANY)),
        Sample(((2, 2), (2, 0)), (REGULAR[2], ANY)),
    ),
    python=calls_linalg("solve", "solution"),
)


def _inv_routine(out: Node, x: Operand) -> Routine:
    n = int(out.shape[-1])
    matrix, inverse = Block("matrix", 1, n), Block("inverse", 1, n)
    solved = (n, n, matrix, n, Block("pivots"), inverse, n, Block(STATUS))
    return Routine(
        (
            Copy(x.block, matrix, n, n),
            Unit(inverse, n),
            Call("dgesv", solved, "nonzero"),
            Copy(inverse, result_block(out), n, n),
        ),
        (Room("matrix", n * n), Room("inverse", n * n), Room("pivots", n, integers=True)),
    )


inv = Primitive(
    name="inv",
    doc="The inverse of each matrix of a stack; none is singular.",
    inputs=("x",),
    result_type=square_type,
    evaluate=lambda xp, x: in_float64(xp, xp.linalg.inv, x),
    derivative=Explicit(
        tangents=(lambda dx, out, x: -matmul(matmul(out, dx), out),),
        cotangents=(lambda g, out, x: -matmul(matmul(swapped(out), g), swapped(out)),),
    ),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_inv_routine),
    library_bytes=lapack_bytes(lambda m, n, k: n * n, lambda m, n, k: n * (2 * n + 1)),
    independent=every_stack_axis,
    # LU and n systems: Golub & Van Loan, Matrix Computations, section 3.
    flops=lambda out: stack_size(out.type) * 2 * out.type.shape[-1] ** 3,
    scratch=only_the_result,
    latex=Latex(r"{{{x}}}^{{-1}}", POWER, (POWER + 1,)),
    samples=regular((3, 3), (2, 2, 2), (1, 1), (0, 0)),
    python=calls_linalg("inv", "inverse"),
)


def _pinv_type(x: ArrayType, *, cutoff: float | None) -> ArrayType:
    m, n = matrix_type(x)
    return array_type(x.dtype, (*x.shape[:-2], n, m))


def _pinv(xp: Any, x: Any, *, cutoff: float | None) -> Any:
    # NumPy's cutoff of `rtol=None` is that of the dtype which the matrices have.
    limit = max(x.shape[-2:]) * float(finfo(x.dtype).eps) if cutoff is None else cutoff
    if x.dtype == np.float32:  # NumPy rounds the factors, before it multiplies them
        return xp.linalg.pinv(x, limit)
    return in_float64(xp, lambda wide: xp.linalg.pinv(wide, limit), x)


def _pinv_cotangent(g: Any, out: Any, x: Any) -> Any:
    # Golub & Pereyra, The differentiation of pseudo-inverses (1973), (4.12), transposed.
    gt, pt = swapped(g), swapped(out)
    rows = gt - matmul(x, matmul(out, gt))
    columns = gt - matmul(matmul(gt, out), x)
    return (
        matmul(matmul(rows, out), pt) + matmul(pt, matmul(out, columns)) - matmul(matmul(pt, g), pt)
    )


def _pinv_tangent(dx: Any, out: Any, x: Any) -> Any:
    dt, pt = swapped(dx), swapped(out)
    rows = dt - matmul(matmul(dt, x), out)
    columns = dt - matmul(out, matmul(x, dt))
    return (
        matmul(matmul(out, pt), rows)
        + matmul(columns, matmul(pt, out))
        - matmul(matmul(out, dx), out)
    )


def _pinv_nbytes(out: Node, x: np.ndarray) -> int:
    # Both factors, one of them scaled, the result; singular values, their limit, what exceeds it.
    n, m = out.type.shape[-2:]
    count, k = stack_size(out.type), min(out.type.shape[-2:])
    arrays = WIDE.itemsize * count * (2 * m * k + k * n + k + n * m)
    return arrays + WIDE.itemsize * (count + 1) + count * k


def _pinv_scratch(out: Node, x: np.ndarray) -> int:
    if x.dtype != np.float32:
        return scratch_of(_pinv_nbytes)(out, x)
    # In float64 x, its factors and the cutoff; then, in float32, those and what compares the
    # singular values with their limit (which is more for a single element only).
    n, m = out.type.shape[-2:]
    count, k = stack_size(x), min(n, m)
    factors = count * (m * k + k + k * n)
    factoring = WIDE.itemsize * (x.size + factors + 1)
    comparing = x.itemsize * (factors + 3) + WIDE.itemsize * (count + 1) + count * k
    return max(factoring, comparing) - out.type.nbytes


def _pinv_flops(out: Node) -> int | Size:
    # The factors, and their product over the singular values.
    return svd_flops(out.inputs[0]) + 2 * out.type.size * sizes.minimum(*out.type.shape[-2:])


def _pinv_python(out: Node, writing: Writing, x: str) -> str:
    cutoff = out.param("cutoff")
    return f"np.linalg.pinv({x}, {'rtol=None' if cutoff is None else repr(cutoff)})"


pinv = Primitive(
    name="pinv",
    doc="The Moore-Penrose inverse; singular values up to `cutoff` times the largest count as 0.",
    inputs=("x",),
    result_type=_pinv_type,
    evaluate=_pinv,
    derivative=Explicit((_pinv_tangent,), (_pinv_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True),
    library_bytes=lapack_bytes(lambda m, n, k: min(m, n) * (m + n + 1), gesdd_elements),
    independent=every_stack_axis,
    flops=_pinv_flops,
    scratch=_pinv_scratch,
    latex=Latex(r"{{{x}}}^{{+}}", POWER, (POWER + 1,)),
    samples=(
        Sample(((3, 2),), (ANY,), (("cutoff", 1e-15),)),
        Sample(((2, 2, 3),), (ANY,), (("cutoff", None),)),
        Sample(((1, 1),), (REGULAR[1],), (("cutoff", 1e-15),)),
        Sample(((0, 2),), (ANY,), (("cutoff", 1e-15),)),
    ),
    python=written(_pinv_python, "inverse"),
)

LINALG_SOLVE = (solve, inv, pinv)
