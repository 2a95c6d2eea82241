"""Functions of numpy.linalg that are one primitive; several results are slices of one node.

Why they are packed: docs/decisions/0017-several-results.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chainrule.errors import (
    DataDependentError,
    DTypeError,
    InputError,
    ShapeError,
    UnsupportedError,
)
from chainrule.frontend.functions.elementwise import as_node, common_shape, to_dtype, to_shape
from chainrule.frontend.functions.shapes import traced_swapaxes
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import dtype_kind, is_narrow, promoted
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size, is_nonnegative
from chainrule.primitives.linalg.det import det, slogdet
from chainrule.primitives.linalg.eigen import eigh, eigvalsh
from chainrule.primitives.linalg.factors import cholesky, is_tall, qr
from chainrule.primitives.linalg.solve import inv, pinv, solve
from chainrule.primitives.linalg.svd import svd, svdvals
from chainrule.primitives.linalg.triangular import solve_triangular
from chainrule.primitives.movement import reshape, slice_
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products import is_swapped
from chainrule.primitives.sources import constant, uniform


class EighResult(NamedTuple):
    """What np.linalg.eigh returns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """What np.linalg.svd returns."""

    U: Any
    S: Any
    Vh: Any


class QRResult(NamedTuple):
    """What np.linalg.qr returns."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What np.linalg.slogdet returns."""

    sign: Any
    logabsdet: Any


def matrices(trace: Trace, a: Any, function: str, *, square: bool = False) -> Node:
    """The argument of a function of linear algebra, in the dtype that NumPy computes in."""
    x = as_node(trace, a)
    if x.ndim < 2:
        raise ShapeError(
            f"np.linalg.{function} needs matrices, arrays of at least two axes: {trace.show(x)}",
            where=trace.where(),
            hint="np.reshape(x, (n, 1)) makes a matrix of a vector",
        )
    if square and x.type.shape[-1] != x.type.shape[-2]:
        raise ShapeError(
            f"np.linalg.{function} needs square matrices, the last two axes equal: {trace.show(x)}",
            where=trace.where(),
            hint="np.linalg.pinv and np.linalg.lstsq take matrices that are not square",
        ).resting_on(x.type.shape[-2:])
    return in_linalg_dtype(trace, x, function)


def in_linalg_dtype(trace: Trace, x: Node, function: str) -> Node:
    """x in float32 or float64; integers and booleans become float64."""
    dtype = x.type.dtype
    if is_narrow(dtype):
        raise DTypeError(
            f"np.linalg.{function} is not defined for {trace.show(x)}: LAPACK has no {dtype}",
            where=trace.where(),
            hint="convert with .astype(np.float32) first",
        )
    return to_dtype(trace, x, dtype if dtype_kind(dtype) == "f" else np.dtype(np.float64))


def _one(primitive: Primitive, *, square: bool) -> Callable[..., Node]:
    def traced(trace: Trace, a: Any) -> Node:
        return trace.build(primitive, matrices(trace, a, primitive.name, square=square))

    return traced


def as_number(value: Any, what: str) -> Any:
    """The Python number of an option; np.inf and others that have names are constants by now."""
    node = getattr(value, "node", value)
    if not isinstance(node, Node):
        return value.item() if isinstance(value, np.generic) else value
    if node.primitive is constant and not node.ndim:
        return node.param("value").array.item()
    raise DataDependentError(
        f"{what} is a traced array, whose number does not exist while the program is traced",
        hint="pass a Python number; one that is an argument of the program is traced",
    )


def part(
    trace: Trace, packed: Node, axis: int, start: int | Size, count: int | Size | None
) -> Node:
    """`count` places of an axis of a packed value, from `start` on; None: one, without its axis."""
    shape, place = packed.type.shape, axis % packed.ndim
    starts = tuple(start if i == place else 0 for i in range(packed.ndim))
    kept = (*shape[:place], 1 if count is None else count, *shape[place + 1 :])
    out = trace.build(slice_, packed, start=starts, step=(1,) * packed.ndim, shape=kept)
    if count is not None:
        return out
    return trace.build(reshape, out, shape=(*shape[:place], *shape[place + 1 :]))


def traced_solve(trace: Trace, a: Any, b: Any) -> Node:
    """np.linalg.solve: a b of one axis is one vector, else b is a stack of matrices."""
    left = matrices(trace, a, "solve", square=True)
    right = in_linalg_dtype(trace, as_node(trace, b), "solve")
    if right.ndim == 0:
        raise ShapeError(
            f"np.linalg.solve needs a right side of at least one axis: {trace.show(right)}",
            where=trace.where(),
            hint="np.reshape(b, (n, 1)) for one column",
        )
    dtype = promoted(left.type.dtype, right.type.dtype)
    left, right = to_dtype(trace, left, dtype), to_dtype(trace, right, dtype)
    is_vector = right.ndim == 1
    if is_vector:
        right = trace.build(reshape, right, shape=(*right.type.shape, 1))
    if left.type.shape[-1] != right.type.shape[-2]:
        raise ShapeError(
            f"np.linalg.solve: the matrices of {trace.show(left)} have {left.type.shape[-1]} rows, "
            f"the right side {trace.show(right)} has {right.type.shape[-2]}",
            where=trace.where(),
            hint="a stack of vectors is a stack of matrices of one column: b[..., None]",
        ).resting_on((left.type.shape[-1], right.type.shape[-2]))
    leading = [uniform(0.0, dtype, node.type.shape[:-2]) for node in (left, right)]
    batch = common_shape(trace, leading, "np.linalg.solve")
    left = to_shape(trace, left, (*batch, *left.type.shape[-2:]))
    right = to_shape(trace, right, (*batch, *right.type.shape[-2:]))
    triangle = _triangle_of_factor(left)
    if triangle is None:
        out = trace.build(solve, left, right)
    else:
        out = trace.build(solve_triangular, left, right, is_lower=triangle == "L", is_unit=False)
    return trace.build(reshape, out, shape=out.type.shape[:-1]) if is_vector else out


def _triangle_of_factor(matrices: Node) -> str | None:
    """L or U of a Cholesky factor and its transpose, whose systems need no other factor."""
    if matrices.primitive is cholesky:
        return "L"
    return "U" if is_swapped(matrices) and matrices.inputs[0].primitive is cholesky else None


def traced_slogdet(trace: Trace, a: Any) -> SlogdetResult:
    """np.linalg.slogdet."""
    packed = trace.build(slogdet, matrices(trace, a, "slogdet", square=True))
    return SlogdetResult(part(trace, packed, -1, 0, None), part(trace, packed, -1, 1, None))


def traced_cholesky(trace: Trace, a: Any, /, *, upper: bool = False) -> Node:
    """np.linalg.cholesky; of `upper`, the upper triangle is read and the factor is transposed."""
    x = matrices(trace, a, "cholesky", square=True)
    if not upper:
        return trace.build(cholesky, x)
    out = trace.build(cholesky, traced_swapaxes(trace, x, -1, -2))
    return traced_swapaxes(trace, out, -1, -2)


def _triangle(trace: Trace, UPLO: Any) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise InputError(
            f"UPLO={UPLO!r} is no triangle", where=trace.where(), hint='use UPLO="L" or UPLO="U"'
        )
    return UPLO.upper()


def traced_eigh(trace: Trace, a: Any, UPLO: str = "L") -> EighResult:
    """np.linalg.eigh."""
    x = matrices(trace, a, "eigh", square=True)
    packed = trace.build(eigh, x, uplo=_triangle(trace, UPLO))
    n = x.type.shape[-1]
    return EighResult(part(trace, packed, -2, 0, None), part(trace, packed, -2, 1, n))


def traced_eigvalsh(trace: Trace, a: Any, UPLO: str = "L") -> Node:
    """np.linalg.eigvalsh."""
    x = matrices(trace, a, "eigvalsh", square=True)
    return trace.build(eigvalsh, x, uplo=_triangle(trace, UPLO))


def traced_svd(
    trace: Trace,
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Any:
    """np.linalg.svd; full factors only of square matrices, where they are the reduced ones."""
    x = matrices(trace, a, "svd")
    if hermitian:
        raise UnsupportedError(
            "np.linalg.svd(hermitian=True) is not traced",
            where=trace.where(),
            hint="use np.linalg.eigh of the symmetric matrix",
        )
    if not compute_uv:
        return trace.build(svdvals, x)
    m, n = x.type.shape[-2:]
    if full_matrices and m != n:
        raise UnsupportedError(
            f"np.linalg.svd(full_matrices=True) of {trace.show(x)} is not traced: "
            "the further columns of the factors have no derivative",
            where=trace.where(),
            hint="np.linalg.svd(x, full_matrices=False)",
        )
    packed = trace.build(svd, x)
    v = part(trace, packed, -2, m + 1, n)
    return SVDResult(
        part(trace, packed, -2, 0, m),
        part(trace, packed, -2, m, None),
        traced_swapaxes(trace, v, -1, -2),
    )


def traced_qr(trace: Trace, a: Any, mode: str = "reduced") -> Any:
    """np.linalg.qr; the complete Q only of matrices that have no more rows than columns."""
    x = matrices(trace, a, "qr")
    m, n = x.type.shape[-2:]
    wide = is_nonnegative(n - m)
    if mode not in ("reduced", "r") and not (mode == "complete" and wide):
        raise UnsupportedError(
            f"np.linalg.qr(mode={mode!r}) of {trace.show(x)} is not traced",
            where=trace.where(),
            hint='use mode="reduced" or mode="r"',
        )
    if is_tall(x.type) is None:
        raise ShapeError(
            f"np.linalg.qr: whether {trace.show(x)} has more rows or more columns is not known",
            where=trace.where(),
            hint="declare one of the two sizes by the other (n + 3), or as integers",
        )
    packed = trace.build(qr, x)
    r = traced_swapaxes(trace, part(trace, packed, -2, m, n), -1, -2)
    return r if mode == "r" else QRResult(part(trace, packed, -2, 0, m), r)


def traced_pinv(
    trace: Trace, a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue
) -> Node:
    """np.linalg.pinv with one relative cutoff for all matrices."""
    x = matrices(trace, a, "pinv")
    if hermitian:
        raise UnsupportedError(
            "np.linalg.pinv(hermitian=True) is not traced",
            where=trace.where(),
            hint="leave hermitian= out",
        )
    if rcond is not None and rtol is not np._NoValue:
        raise InputError(
            f"np.linalg.pinv(rcond={rcond!r}, rtol={rtol!r})",
            where=trace.where(),
            hint="give one of them",
        )
    cutoff = rtol if rcond is None else rcond
    cutoff = 1e-15 if cutoff is np._NoValue else as_number(cutoff, "the cutoff of np.linalg.pinv")
    if cutoff is not None and not isinstance(cutoff, (int, float)):
        raise UnsupportedError(
            "np.linalg.pinv takes one number as its relative cutoff, for all matrices",
            where=trace.where(),
            hint="pass a Python number",
        )
    return trace.build(pinv, x, cutoff=cutoff if cutoff is None else float(cutoff))


LINALG: dict[Any, Callable[..., Any]] = {
    np.linalg.solve: traced_solve,
    np.linalg.inv: _one(inv, square=True),
    np.linalg.det: _one(det, square=True),
    np.linalg.slogdet: traced_slogdet,
    np.linalg.cholesky: traced_cholesky,
    np.linalg.eigh: traced_eigh,
    np.linalg.eigvalsh: traced_eigvalsh,
    np.linalg.svd: traced_svd,
    np.linalg.svdvals: _one(svdvals, square=False),
    np.linalg.qr: traced_qr,
    np.linalg.pinv: traced_pinv,
}
