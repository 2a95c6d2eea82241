"""Eigenvalues of symmetric matrices, with and without their vectors.

Where two values are equal, up to rounding, their vectors have no derivative: rules divide by the
gap, and give NaN (see `over_gaps`).  The gradient of what depends on the values alone is not
divided (see `reaches`); its second derivative is, and is NaN where such values are equal.
Formulas: Giles, An extended collection of matrix derivative results (2008), 3.1.
"""

from __future__ import annotations

from typing import Any

from chainrule.graph.node import Node
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    PANEL,
    batch_stack,
    calls_packing,
    every_stack_axis,
    in_float64,
    lapack_bytes,
    of_one_triangle,
    only_the_result,
    scratch_of,
    square_type,
    stack_size,
    twice_the_result,
    written,
)
from chainrule.primitives.linalg.parts import (
    as_row,
    by_columns,
    diagonal_of,
    difference_over_gaps,
    on_diagonal,
    over_gaps,
    product_of,
    reaches,
    rows_of,
    stacked,
    symmetric,
)
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Explicit, Library, Primitive, Sample
from chainrule.primitives.products import matmul, swapped
from chainrule.primitives.reduce import sum_
from chainrule.primitives.routines import (
    STATUS,
    Block,
    Call,
    Copy,
    Operand,
    Room,
    Routine,
    result_block,
)
from chainrule.primitives.sources import full_like

ANY = (-2.0, 2.0)


def _eigh_type(x: ArrayType, *, uplo: str) -> ArrayType:
    n = square_type(x).shape[-1]
    return array_type(x.dtype, (*x.shape[:-2], n + 1, n))


def _eigh(xp: Any, x: Any, *, uplo: str) -> Any:
    def packed(x: Any) -> Any:
        values, vectors = xp.linalg.eigh(x, uplo, **of_one_triangle(xp))
        return xp.concatenate([values[..., None, :], vectors], axis=-2)

    return in_float64(xp, packed, x)


def eigen_parts(packed: Any) -> tuple[Any, Any]:
    """The eigenvalues, as a row, and the matrix whose columns are the vectors."""
    return rows_of(packed, 0, 1), rows_of(packed, 1, packed.type.shape[-1])


def _gaps(values: Any, like: Any) -> Any:
    """The j-th value less the i-th."""
    across = broadcast_to(values, shape=like.type.shape)
    return across - swapped(across)


def _eigh_tangent(dx: Any, out: Any, x: Any) -> Any:
    values, vectors = eigen_parts(out)
    moved = product_of(swapped(vectors), symmetric(dx), vectors)
    turned = over_gaps(moved, _gaps(values, moved), values)
    turned = on_diagonal(full_like(values, 0), turned)
    return stacked(diagonal_of(moved), matmul(vectors, turned))


def _eigh_cotangent(g: Any, out: Any, x: Any) -> Any:
    values, vectors = eigen_parts(out)
    by_values, by_vectors = eigen_parts(g)
    if not reaches(g, 1, x.type.shape[-1]):
        return matmul(by_columns(vectors, by_values), swapped(vectors))
    turned = 0.5 * matmul(swapped(vectors), by_vectors)
    turned = difference_over_gaps(turned, _gaps(values, turned), values)
    inner = on_diagonal(by_values, turned)
    return product_of(vectors, inner, swapped(vectors))


def _symmetric_samples(*shapes: tuple[int, ...]) -> tuple[Sample, ...]:
    # Not smooth: NumPy reads one triangle, while the derivative is that of symmetric matrices.
    params = [(("uplo", uplo),) for uplo in "LU"]
    return tuple(
        Sample((shape,), (ANY,), params[i % 2], smooth=False) for i, shape in enumerate(shapes)
    )


EIGH = '''
def eigh(x, uplo):
    """The eigenvalues of symmetric matrices, and under them the vectors."""
    values, vectors = np.linalg.eigh(x, uplo)
    return np.concatenate([values[..., None, :], vectors], axis=-2)
'''

SHAPES = ((3, 3), (2, 2, 2), (1, 1), (4, 4), (0, 0))


def _by_syevd(out: Node, x: Operand, job: str, work: int, integers: int) -> Routine:
    """The values in a room of that name, and in `matrix` the vectors, where `job` is V."""
    n = _size(out)
    matrix, values = Block("matrix", 1, n), Block("values", n)
    rooms = (
        Room("matrix", n * n),
        Room("values", n),
        Room("work", work),
        Room("integers", integers, integers=True),
    )
    room = (Block("work"), work, Block("integers"), integers, Block(STATUS))
    call = Call("dsyevd", (job, out.param("uplo"), n, matrix, n, values, *room), "nonzero")
    return Routine((Copy(x.block, matrix, n, n), call), rooms)


def _size(out: Node) -> int:
    """How many rows each matrix of the operand has."""
    return int(out.inputs[0].shape[-1])


def _eigh_routine(out: Node, x: Operand) -> Routine:
    n, result = _size(out), result_block(out)
    made = _by_syevd(out, x, "V", max(1 + 6 * n + 2 * n * n, n * (2 + PANEL)), 3 + 5 * n)
    values = Copy(Block("values", n), result, 1, n)
    vectors = Copy(Block("matrix", 1, n), result.at(1, 0), n, n)
    return Routine((*made.steps, values, vectors), made.rooms)


def _eigvalsh_routine(out: Node, x: Operand) -> Routine:
    n = _size(out)
    made = _by_syevd(out, x, "N", n * (2 + PANEL) + 1, 1)
    return Routine((*made.steps, Copy(Block("values", n), result_block(out), 1, n)), made.rooms)


eigh = Primitive(
    name="eigh",
    doc="The eigenvalues of symmetric matrices, ascending, in a first row; under them the vectors.",
    inputs=("x",),
    result_type=_eigh_type,
    evaluate=_eigh,
    derivative=Explicit((_eigh_tangent,), (_eigh_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_eigh_routine),
    library_bytes=lapack_bytes(lambda m, n, k: n * (n + 1), lambda m, n, k: n * (3 * n + 12) + 4),
    independent=every_stack_axis,
    # 9 n^3: Golub & Van Loan, Matrix Computations, section 8.3.
    flops=lambda out: stack_size(out.type) * 9 * out.type.shape[-1] ** 3,
    scratch=scratch_of(twice_the_result),
    latex=Latex(r"\operatorname{{eigh}}({x})", ATOM, (0,)),
    samples=_symmetric_samples(*SHAPES),
    python=calls_packing(EIGH, "uplo"),
)


def _vectors(x: Any, out: Any) -> Any:
    return eigen_parts(eigh(x, uplo=out.param("uplo")))[1]


def _eigvalsh_tangent(dx: Any, out: Any, x: Any) -> Any:
    vectors = _vectors(x, out)
    return sum_(vectors * matmul(symmetric(dx), vectors), axes=(x.ndim - 2,))


def _eigvalsh_cotangent(g: Any, out: Any, x: Any) -> Any:
    vectors = _vectors(x, out)
    return matmul(by_columns(vectors, as_row(g)), swapped(vectors))


eigvalsh = Primitive(
    name="eigvalsh",
    doc="The eigenvalues of symmetric matrices, ascending; no derivative divides by their gaps.",
    inputs=("x",),
    result_type=lambda x, *, uplo: array_type(x.dtype, square_type(x).shape[:-1]),
    evaluate=lambda xp, x, *, uplo: in_float64(
        xp, lambda x: xp.linalg.eigvalsh(x, uplo, **of_one_triangle(xp)), x
    ),
    derivative=Explicit((_eigvalsh_tangent,), (_eigvalsh_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_eigvalsh_routine),
    library_bytes=lapack_bytes(lambda m, n, k: n, lambda m, n, k: n * (n + 3 + PANEL) + 2),
    independent=every_stack_axis,
    # 4 n^3 / 3: Golub & Van Loan, Matrix Computations, section 8.3.
    flops=lambda out: stack_size(out.inputs[0].type) * (4 * out.type.shape[-1] ** 3 // 3),
    scratch=only_the_result,
    latex=Latex(r"\lambda({x})", ATOM, (0,)),
    samples=_symmetric_samples(*SHAPES),
    python=written(
        lambda out, writing, x: f"np.linalg.eigvalsh({x}, {out.param('uplo')!r})", "eigenvalues"
    ),
)

LINALG_EIGEN = (eigh, eigvalsh)
