"""Linear systems with triangular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    WIDE,
    every_stack_axis,
    scratch_of_one,
    square_type,
    stack_size,
)
from chainrule.primitives.linalg.parts import lower
from chainrule.primitives.linalg.samples import ANY, regular
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.notation import POWER, Latex
from chainrule.primitives.primitive import Joint, Library, Primitive, Sample
from chainrule.primitives.products import matmul, swapped
from chainrule.primitives.python import calls_function
from chainrule.primitives.routines import (
    Block,
    Copy,
    Operand,
    Regular,
    Room,
    Routine,
    read_where_it_lies,
    result_block,
    triangle,
)


def solve_triangular_by_lapack(a, b, is_lower, is_unit):
    """The X with a X = b, for stacks of triangular matrices; what is not the triangle is not read.

    As numpy.linalg does, it computes in float64.
    """
    from scipy.linalg import get_lapack_funcs

    (trtrs,) = get_lapack_funcs(("trtrs",), dtype=np.float64)

    def solution(matrix, right):
        matrix = np.array(matrix, np.float64, order="F")
        found, failed = trtrs(
            matrix, np.array(right, np.float64, order="F"), is_lower, 0, is_unit, overwrite_b=1
        )
        if failed:
            raise np.linalg.LinAlgError("Singular matrix")
        return found

    found = np.empty(b.shape)
    for place in np.ndindex(*(b.shape[:-2] if b.size else (0,))):
        found[place] = solution(a[place], b[place])
    return found.astype(b.dtype, copy=False)


def _solve_triangular(xp: Any, a: Any, b: Any, *, is_lower: bool, is_unit: bool) -> Any:
    if xp is np:
        return solve_triangular_by_lapack(a, b, is_lower, is_unit)
    from jax.scipy.linalg import solve_triangular as of_jax  # only JAX shares this evaluation

    return of_jax(a, b, lower=is_lower, unit_diagonal=is_unit)


def _solve_triangular_type(
    a: ArrayType, b: ArrayType, *, is_lower: bool, is_unit: bool
) -> ArrayType:
    square_type(a)
    if a.dtype != b.dtype or b.ndim != a.ndim or a.shape[:-1] != b.shape[:-1]:
        raise TypeError(f"cannot solve {a} for {b}")
    return array_type(b.dtype, b.shape)


def _read(x: Any, out: Any) -> Any:
    """The triangle that the system `out` reads."""
    is_unit = out.param("is_unit")
    if out.param("is_lower"):
        return lower(x, strictly=is_unit)
    return swapped(lower(swapped(x), strictly=is_unit))


def _solve_triangular_tangent(dxs: Any, out: Any, a: Any, b: Any) -> Any:
    da, db = dxs
    if da is not None:
        moved = -matmul(_read(da, out), out)
        db = moved if db is None else db + moved
    return None if db is None else solve_triangular(a, db, **dict(out.params))


def _solve_triangular_cotangents(g: Any, out: Any, active: tuple[int, ...], a: Any, b: Any) -> Any:
    options = {"is_lower": not out.param("is_lower"), "is_unit": out.param("is_unit")}
    by_b = solve_triangular(swapped(a), g, **options)
    return (-_read(matmul(by_b, swapped(out)), out) if 0 in active else None), by_b


def _solve_triangular_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    pairs = zip(inputs, batched, strict=True)
    a, b = (one if has else add_batch_axis(one, size) for one, has in pairs)
    return solve_triangular(a, b, **dict(out.params))


def _solve_triangular_flops(out: Node) -> int | Size:
    # Golub & Van Loan, Matrix Computations, section 3.1.
    n, k = out.type.shape[-2:]
    return stack_size(out.type) * n * n * k


def _solve_triangular_routine(out: Node, a: Operand, b: Operand, columns: int) -> Routine:
    n, k = int(out.shape[-2]), columns
    is_lower, is_unit = out.param("is_lower"), out.param("is_unit")
    matrix, steps, rooms = read_where_it_lies(a, n, n, "matrix")
    result = result_block(out)
    made = result if out.dtype == WIDE else Block("solution", k)
    if not is_unit:
        steps = (*steps, Regular(matrix, n))
    solved = triangle(matrix, made, n, k, is_lower=is_lower, is_unit=is_unit)
    steps = (*steps, Copy(b.block, made, n, k), solved)
    if made is result:
        return Routine(steps, rooms)
    return Routine((*steps, Copy(made, result, n, k)), (*rooms, Room("solution", n * k)))


def _triangular_sample(
    shape: tuple[int, ...], columns: int, is_lower: bool, is_unit: bool
) -> Sample:
    (matrices,) = regular(shape)
    return Sample(
        (shape, (*shape[:-1], columns)),
        (*matrices.domains, ANY),
        (("is_lower", is_lower), ("is_unit", is_unit)),
    )


solve_triangular = Primitive(
    name="solve_triangular",
    doc="The X with a X = b, for stacks of triangular matrices; what is not the triangle is 0.",
    inputs=("a", "b"),
    result_type=_solve_triangular_type,
    evaluate=_solve_triangular,
    derivative=Joint(_solve_triangular_tangent, _solve_triangular_cotangents),
    batch=_solve_triangular_batch,
    kernel=Library(lapack=True, routine=_solve_triangular_routine, by_columns=True),
    independent=every_stack_axis,
    flops=_solve_triangular_flops,
    scratch=scratch_of_one(lambda m, n, k: WIDE.itemsize * n * (n + k)),
    latex=Latex(r"\operatorname{{tri}}({a})^{{-1}} {b}", POWER, (0, POWER)),
    samples=(
        _triangular_sample((3, 3), 2, True, False),
        _triangular_sample((2, 2, 2), 1, False, False),
        _triangular_sample((3, 3), 1, False, True),
        _triangular_sample((2, 2), 3, True, True),
        _triangular_sample((1, 1), 2, True, False),
        _triangular_sample((0, 0), 2, True, False),
        _triangular_sample((2, 2), 0, False, False),
    ),
    python=calls_function(solve_triangular_by_lapack, "is_lower", "is_unit"),
)

LINALG_TRIANGULAR = (solve_triangular,)
