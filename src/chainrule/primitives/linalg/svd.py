"""Singular values, with and without their vectors.

Vectors of equal values have no derivative, nor have those of values of 0 that only one side has:
rules divide by gaps, as those of `eigen.py`, and by values.  Formulas:
Townsend, Differentiating the singular value decomposition (2016).
"""

from __future__ import annotations

from typing import Any

from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    batch_stack,
    calls_packing,
    every_stack_axis,
    gesdd_elements,
    gesdd_values_elements,
    gesdd_values_work,
    gesdd_work,
    in_float64,
    lapack_bytes,
    matrix_type,
    only_the_result,
    scratch_of,
    stack_size,
    twice_the_result,
    written,
)
from chainrule.primitives.linalg.parts import (
    as_row,
    by_columns,
    by_rows,
    diagonal_of,
    difference_over_gaps,
    on_diagonal,
    over_gaps,
    reaches,
    rows_of,
    stacked,
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


def _svd_type(x: ArrayType) -> ArrayType:
    m, n = matrix_type(x)
    return array_type(x.dtype, (*x.shape[:-2], m + 1 + n, sizes.minimum(m, n)))


def _svd(xp: Any, x: Any) -> Any:
    def packed(x: Any) -> Any:
        u, s, vh = xp.linalg.svd(x, full_matrices=False)
        return xp.concatenate([u, s[..., None, :], xp.swapaxes(vh, -1, -2)], axis=-2)

    return in_float64(xp, packed, x)


def svd_parts(packed: Any, x: Any) -> tuple[Any, Any, Any]:
    """U, the singular values as a row, and V (not transposed) of the packed factors of x."""
    m, n = x.type.shape[-2:]
    return rows_of(packed, 0, m), rows_of(packed, m, 1), rows_of(packed, m + 1, n)


def _gaps_of_squares(s: Any, like: Any) -> Any:
    across = broadcast_to(s, shape=like.type.shape)
    down = swapped(across)
    return (across - down) * (across + down)


def _outside(part: Any, inner: Any, factor: Any, s: Any) -> Any:
    """What `part` has outside of the space of `factor`, over the singular values."""
    rest = part - matmul(factor, inner)
    return rest / broadcast_to(s, shape=rest.type.shape)


def _svd_tangent(dx: Any, out: Any, x: Any) -> Any:
    u, s, v = svd_parts(out, x)
    m, n = x.type.shape[-2:]
    k = out.type.shape[-1]
    right, left = matmul(dx, v), matmul(swapped(dx), u)
    inner = matmul(swapped(u), right)
    other = swapped(inner)
    gaps, none = _gaps_of_squares(s, inner), full_like(s, 0)
    turned_u = over_gaps(by_columns(inner, s) + by_rows(other, s), gaps, s)
    turned_v = over_gaps(by_rows(inner, s) + by_columns(other, s), gaps, s)
    du, dv = matmul(u, on_diagonal(none, turned_u)), matmul(v, on_diagonal(none, turned_v))
    if m != k:
        du = du + _outside(right, inner, u, s)
    if n != k:
        dv = dv + _outside(left, other, v, s)
    return stacked(du, diagonal_of(inner), dv)


def _svd_cotangent(g: Any, out: Any, x: Any) -> Any:
    u, s, v = svd_parts(out, x)
    by_u, by_s, by_v = svd_parts(g, x)
    m, n = x.type.shape[-2:]
    k = out.type.shape[-1]
    has_u, has_v = reaches(g, 0, m), reaches(g, m + 1, n)
    if not (has_u or has_v):
        return matmul(by_columns(u, by_s), swapped(v))
    of_u, of_v = matmul(swapped(u), by_u), matmul(swapped(v), by_v)
    gaps = _gaps_of_squares(s, of_u)
    parts = [by_columns(difference_over_gaps(of_u, gaps, s), s)] if has_u else []
    parts += [by_rows(difference_over_gaps(of_v, gaps, s), s)] if has_v else []
    left = matmul(u, on_diagonal(by_s, parts[0] if len(parts) == 1 else parts[0] + parts[1]))
    if has_u and m != k:
        left = left + _outside(by_u, of_u, u, s)
    result = matmul(left, swapped(v))
    if has_v and n != k:
        result = result + matmul(u, swapped(_outside(by_v, of_v, v, s)))
    return result


def svd_flops(x: Node) -> int | Size:
    """14 m n k + 8 k^3 of thin factors: Golub & Van Loan, Matrix Computations, section 8.6."""
    m, n = x.type.shape[-2:]
    k = sizes.minimum(m, n)
    return stack_size(x.type) * (14 * m * n * k + 8 * k * k * k)


def _by_gesdd(out: Node, x: Operand, job: str, work: int) -> Routine:
    """The singular values in the room `values`; where `job` is S, `left` has U and `right` V'."""
    m, n = (int(size) for size in out.inputs[0].shape[-2:])
    k = min(m, n)
    vectors = job == "S"
    matrix, left, right = Block("matrix", 1, m), Block("left", 1, m), Block("right", 1, k)
    arrays = (job, m, n, matrix, m, Block("values"), left, m, right, k)
    room = (Block("work"), work, Block("integers"), Block(STATUS))
    rooms = (
        Room("matrix", m * n),
        Room("values", k),
        Room("left", m * k if vectors else 1),
        Room("right", k * n if vectors else 1),
        Room("work", work),
        Room("integers", 8 * k, integers=True),
    )
    call = Call("dgesdd", (*arrays, *room), "nonzero")
    return Routine((Copy(x.block, matrix, m, n), call), rooms)


def _svd_routine(out: Node, x: Operand) -> Routine:
    m, n = (int(size) for size in out.inputs[0].shape[-2:])
    k, result = min(m, n), result_block(out)
    made = _by_gesdd(out, x, "S", gesdd_work(m, n))
    parts = (
        Copy(Block("left", 1, m), result, m, k),
        Copy(Block("values", k), result.at(m, 0), 1, k),
        Copy(Block("right", k), result.at(m + 1, 0), n, k),
    )
    return Routine((*made.steps, *parts), made.rooms)


def _svdvals_routine(out: Node, x: Operand) -> Routine:
    m, n = (int(size) for size in out.inputs[0].shape[-2:])
    made = _by_gesdd(out, x, "N", gesdd_values_work(m, n))
    values = Copy(Block("values", min(m, n)), result_block(out), 1, min(m, n))
    return Routine((*made.steps, values), made.rooms)


SVD = '''
def svd(x):
    """The factors U, s and V of matrices, one under another."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], axis=-2)
'''

WIDE_AND_TALL = ((3, 3), (3, 2), (2, 2, 3), (1, 1), (0, 2))

svd = Primitive(
    name="svd",
    doc="The thin factors U, s and V of matrices, one under another, with x = U diag(s) V'.",
    inputs=("x",),
    result_type=_svd_type,
    evaluate=_svd,
    derivative=Explicit((_svd_tangent,), (_svd_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_svd_routine),
    library_bytes=lapack_bytes(lambda m, n, k: min(m, n) * (m + n + 1), gesdd_elements),
    independent=every_stack_axis,
    flops=lambda out: svd_flops(out.inputs[0]),
    scratch=scratch_of(twice_the_result),
    latex=Latex(r"\operatorname{{svd}}({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), (ANY,)) for shape in WIDE_AND_TALL),
    python=calls_packing(SVD),
)


def _svdvals_type(x: ArrayType) -> ArrayType:
    return array_type(x.dtype, (*x.shape[:-2], sizes.minimum(*matrix_type(x))))


def _svdvals_tangent(dx: Any, out: Any, x: Any) -> Any:
    u, _, v = svd_parts(svd(x), x)
    return sum_(u * matmul(dx, v), axes=(x.ndim - 2,))


def _svdvals_cotangent(g: Any, out: Any, x: Any) -> Any:
    u, _, v = svd_parts(svd(x), x)
    return matmul(by_columns(u, as_row(g)), swapped(v))


def _svdvals_flops(out: Node) -> int | Size:
    # 4 m n k - 4 k^3 / 3: Golub & Van Loan, Matrix Computations, section 8.6.
    x = out.inputs[0].type
    m, n = x.shape[-2:]
    k = out.type.shape[-1]
    return stack_size(x) * (4 * m * n * k - 4 * k * k * k // 3)


svdvals = Primitive(
    name="svdvals",
    doc="The singular values of matrices, descending; no derivative divides by their gaps.",
    inputs=("x",),
    result_type=_svdvals_type,
    evaluate=lambda xp, x: in_float64(xp, lambda x: xp.linalg.svd(x, compute_uv=False), x),
    derivative=Explicit((_svdvals_tangent,), (_svdvals_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True, routine=_svdvals_routine),
    library_bytes=lapack_bytes(lambda m, n, k: min(m, n), gesdd_values_elements),
    independent=every_stack_axis,
    flops=_svdvals_flops,
    scratch=only_the_result,
    latex=Latex(r"\sigma({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), (ANY,)) for shape in WIDE_AND_TALL),
    python=written(
        lambda out, writing, x: f"np.linalg.svd({x}, compute_uv=False)", "singular_values"
    ),
)

LINALG_SVD = (svd, svdvals)
