"""Determinants, their logarithms, and the cofactor matrices that are their derivatives.

The derivative of det(x) is its matrix of cofactors, det(x) x^-T, which a singular x has too.  From
x = U diag(s) V' it is det(U V) U diag(p) V' with p the products of all singular values but one, and
its own derivative has the products of all but two: nothing is divided.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.linalg.evaluation import (
    WIDE,
    batch_stack,
    calls_linalg,
    calls_packing,
    every_stack_axis,
    gesdd_elements,
    in_float64,
    lapack_bytes,
    scratch_of,
    square_type,
    stack_size,
    twice_the_result,
)
from chainrule.primitives.linalg.parts import (
    diagonal_of,
    over_matrices,
    product_of,
    trace_of_product,
)
from chainrule.primitives.linalg.samples import regular
from chainrule.primitives.linalg.solve import inv, solve
from chainrule.primitives.linalg.svd import svd_flops
from chainrule.primitives.movement import add_batch_axis, concatenate, reshape, slice_
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Explicit, Library, Primitive, Sample
from chainrule.primitives.products import swapped
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import full_like

ANY = (-2.0, 2.0)
SHAPES = ((3, 3), (2, 2, 2), (1, 1), (4, 4), (0, 0))


def _lu_flops(out: Node) -> int | Size:
    # 2 n^3 / 3: Golub & Van Loan, Matrix Computations, section 3.2.
    x = out.inputs[0].type
    return stack_size(x) * (2 * x.shape[-1] ** 3 // 3)


def _det_scratch(out: Node, x: np.ndarray) -> int:
    return 0 if x.dtype == WIDE else WIDE.itemsize * (x.size + out.type.size)


det = Primitive(
    name="det",
    doc="The determinant of each matrix of a stack.",
    inputs=("x",),
    result_type=lambda x: array_type(x.dtype, square_type(x).shape[:-2]),
    evaluate=lambda xp, x: in_float64(xp, xp.linalg.det, x),
    derivative=Explicit(
        tangents=(lambda dx, out, x: trace_of_product(cofactor(x), dx),),
        cotangents=(lambda g, out, x: over_matrices(g, x) * cofactor(x),),
    ),
    batch=batch_stack,
    kernel=Library(lapack=True),
    library_bytes=lapack_bytes(lambda m, n, k: 1, lambda m, n, k: n * (n + 1)),
    independent=every_stack_axis,
    flops=_lu_flops,
    scratch=_det_scratch,
    latex=Latex(r"\det({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), (ANY,)) for shape in SHAPES),
    python=calls_linalg("det", "determinant"),
)

COFACTOR = '''
def cofactor(x):
    """The matrix of cofactors, det(x) x^-T, also of singular matrices."""
    wide = x.astype(np.float64)
    u, s, vh = np.linalg.svd(wide)
    ones = np.ones_like(s[..., :1])
    others = np.concatenate([ones, np.cumprod(s, axis=-1)], axis=-1)[..., :-1]
    after = np.concatenate([ones, np.cumprod(s[..., ::-1], axis=-1)], axis=-1)[..., -2::-1]
    sign = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    scaled = u * (others * after * sign[..., None])[..., None, :]
    return (scaled @ vh).astype(x.dtype)
'''


def _signed_products(xp: Any, u: Any, s: Any, vh: Any) -> Any:
    """For each singular value the product of all others, times the determinant of u vh."""
    ones = xp.ones_like(s[..., :1])
    others = xp.concatenate([ones, xp.cumprod(s, axis=-1)], axis=-1)[..., :-1]
    after = xp.concatenate([ones, xp.cumprod(s[..., ::-1], axis=-1)], axis=-1)[..., -2::-1]
    return others * after * _sign(xp, u, vh)[..., None]


def _sign(xp: Any, u: Any, vh: Any) -> Any:
    return xp.sign(xp.linalg.det(u) * xp.linalg.det(vh))


def _cofactor(xp: Any, x: Any) -> Any:
    def cofactors(x: Any) -> Any:
        u, s, vh = xp.linalg.svd(x)
        scaled = u * _signed_products(xp, u, s, vh)[..., None, :]
        return scaled @ vh

    return in_float64(xp, cofactors, x)


def _cofactor_nbytes(out: Node, x: np.ndarray) -> int:
    # Both factors and the singular values; then one factor scaled and the product, or, where the
    # matrices are small, the products of singular values.
    n = x.shape[-1]
    sign = 3 if x.ndim > 2 else 2
    more = max(2 * n * n, 4 * n + 4, 3 * n + 3 + sign)
    return WIDE.itemsize * stack_size(x) * (2 * n * n + n + more)


cofactor = Primitive(
    name="cofactor",
    doc="The matrix of cofactors of each matrix of a stack, det(x) times the inverse's transpose.",
    inputs=("x",),
    result_type=square_type,
    evaluate=_cofactor,
    derivative=Explicit(
        tangents=(lambda dx, out, x: cofactor_change(x, dx),),
        cotangents=(lambda g, out, x: cofactor_change(x, g),),
    ),
    batch=batch_stack,
    kernel=Library(lapack=True),
    library_bytes=lapack_bytes(lambda m, n, k: n * (2 * n + 1), gesdd_elements),
    independent=every_stack_axis,
    flops=lambda out: svd_flops(out.inputs[0]) + 2 * out.type.size * out.type.shape[-1],
    scratch=scratch_of(_cofactor_nbytes),
    latex=Latex(r"\operatorname{{cof}}({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), (ANY,)) for shape in SHAPES),
    python=calls_packing(COFACTOR),
)

CHANGE = '''
def cofactor_change(x, d):
    """The change of the matrix of cofactors where x moves along d, also at singular x."""
    x, d, dtype = x.astype(np.float64), d.astype(np.float64), x.dtype
    u, s, vh = np.linalg.svd(x)
    eye = np.eye(s.shape[-1], dtype=bool)
    rows = np.where(eye, 1.0, s[..., None, :])
    ones = np.ones_like(rows[..., :1])
    before = np.cumprod(np.concatenate([ones, rows[..., :-1]], axis=-1), axis=-1)
    rows = np.cumprod(np.concatenate([ones, rows[..., :0:-1]], axis=-1), axis=-1)
    rows = np.where(eye, 0.0, before * rows[..., ::-1])
    inner = u.mT @ d @ vh.mT
    along = np.diagonal(inner, axis1=-2, axis2=-1)
    diagonal = (rows @ along[..., None])[..., 0]
    inner = np.where(eye, diagonal[..., None, :], -inner.mT * rows)
    sign = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    return (u @ (inner * sign[..., None, None]) @ vh).astype(dtype)
'''


def _products_of_all_but_two(xp: Any, s: Any, eye: Any) -> Any:
    """At [i, j] the product of all elements of s but the i-th and the j-th; 0 on the diagonal."""
    rows = xp.where(eye, 1.0, s[..., None, :])
    ones = xp.ones_like(rows[..., :1])
    before = xp.cumprod(xp.concatenate([ones, rows[..., :-1]], axis=-1), axis=-1)
    after = xp.cumprod(xp.concatenate([ones, rows[..., :0:-1]], axis=-1), axis=-1)
    return xp.where(eye, 0.0, before * after[..., ::-1])


def _cofactor_change(xp: Any, x: Any, d: Any) -> Any:
    def change(x: Any, d: Any) -> Any:
        u, s, vh = xp.linalg.svd(x)
        eye = xp.eye(s.shape[-1], dtype=bool)
        products = _products_of_all_but_two(xp, s, eye)
        inner = u.mT @ d @ vh.mT
        along = xp.diagonal(inner, axis1=-2, axis2=-1)
        diagonal = (products @ along[..., None])[..., 0]
        inner = xp.where(eye, diagonal[..., None, :], -inner.mT * products)
        return u @ (inner * _sign(xp, u, vh)[..., None, None]) @ vh

    return in_float64(xp, change, x, d)


def _change_of_change(x: Any, a: Any, b: Any) -> Any:
    """The third derivative of det along a and b, as a matrix; x is not singular."""
    if x.type.shape[-1] in (0, 1, 2):  # det is no polynomial of degree 3
        return full_like(x, 0)
    i = inv(x)
    ia, ib = product_of(i, a), product_of(i, b)
    trace_a, trace_b = _trace(ia), _trace(ib)
    both = trace_a * trace_b - sum_(ia * swapped(ib), axes=(x.ndim - 2, x.ndim - 1))
    a_b, b_a = product_of(ia, ib, i), product_of(ib, ia, i)
    inside = (
        over_matrices(both, x) * i
        - over_matrices(trace_b, x) * product_of(ia, i)
        - over_matrices(trace_a, x) * product_of(ib, i)
        + a_b
        + b_a
    )
    return over_matrices(det(x), x) * swapped(inside)


def _trace(x: Any) -> Any:
    return sum_(diagonal_of(x), axes=(x.ndim - 2, x.ndim - 1))


def _change_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    x, d = (
        one if has else add_batch_axis(one, size) for one, has in zip(inputs, batched, strict=True)
    )
    return cofactor_change(x, d)


def _change_type(x: ArrayType, d: ArrayType) -> ArrayType:
    if (d.dtype, d.shape) != (x.dtype, x.shape):
        raise TypeError(f"{x} cannot move along {d}")
    return square_type(x)


def _change_nbytes(out: Node, x: np.ndarray, d: np.ndarray) -> int:
    # Both factors, and five matrices of products; the diagonal's mask, and a 0.  Where they have
    # one element each, three signs of determinants are more than two of the matrices.
    n, count = x.shape[-1], stack_size(x)
    products = count * (7 * n * n + 2 * n) + 1
    signs = count * (5 * n * n + 2 * n + 3) if x.ndim > 2 else 0
    return WIDE.itemsize * max(products, signs) + n * n


cofactor_change = Primitive(
    name="cofactor_change",
    doc="The derivative of the matrix of cofactors of x along d; its own needs a regular x.",
    inputs=("x", "d"),
    result_type=_change_type,
    evaluate=_cofactor_change,
    derivative=Explicit(
        tangents=(
            lambda dx, out, x, d: _change_of_change(x, d, dx),
            lambda dd, out, x, d: cofactor_change(x, dd),
        ),
        cotangents=(
            lambda g, out, x, d: _change_of_change(x, d, g),
            lambda g, out, x, d: cofactor_change(x, g),
        ),
    ),
    batch=_change_batch,
    kernel=Library(lapack=True),
    library_bytes=lapack_bytes(lambda m, n, k: n * (2 * n + 1), gesdd_elements),
    independent=every_stack_axis,
    flops=lambda out: svd_flops(out.inputs[0]) + 8 * out.type.size * out.type.shape[-1],
    scratch=scratch_of(_change_nbytes),
    latex=Latex(r"D \operatorname{{cof}}({x})[{d}]", ATOM, (0, 0)),
    samples=tuple(
        Sample((*one.shapes, *one.shapes), (*one.domains, ANY))
        for one in regular((3, 3), (2, 2, 2), (1, 1), (0, 0))
    ),
    python=calls_packing(CHANGE),
)


def _slogdet(xp: Any, x: Any) -> Any:
    def packed(x: Any) -> Any:
        sign, logarithm = xp.linalg.slogdet(x)
        return xp.stack([sign, logarithm], axis=-1)

    return in_float64(xp, packed, x)


def _slogdet_tangent(dx: Any, out: Any, x: Any) -> Any:
    trace = _trace(solve(x, dx))
    trace = reshape(trace, shape=(*trace.type.shape, 1))
    return concatenate(full_like(trace, 0), trace, axis=out.ndim - 1)


def _slogdet_cotangent(g: Any, out: Any, x: Any) -> Any:
    shape = g.type.shape
    last = slice_(g, start=(*(0,) * (g.ndim - 1), 1), step=(1,) * g.ndim, shape=(*shape[:-1], 1))
    return over_matrices(reshape(last, shape=shape[:-1]), x) * swapped(inv(x))


SLOGDET = '''
def slogdet(x):
    """The signs and the logarithms of the absolute values of determinants, along a last axis."""
    return np.stack(np.linalg.slogdet(x), axis=-1)
'''

slogdet = Primitive(
    name="slogdet",
    doc="Sign and log |det| along a last axis; log |det| is -inf, without derivative, if singular.",
    inputs=("x",),
    result_type=lambda x: array_type(x.dtype, (*square_type(x).shape[:-2], 2)),
    evaluate=_slogdet,
    derivative=Explicit((_slogdet_tangent,), (_slogdet_cotangent,)),
    batch=batch_stack,
    kernel=Library(lapack=True),
    library_bytes=lapack_bytes(lambda m, n, k: 2, lambda m, n, k: n * (n + 1)),
    independent=every_stack_axis,
    flops=_lu_flops,
    scratch=scratch_of(twice_the_result),
    latex=Latex(r"\log |\det({x})|", ATOM, (0,)),
    samples=regular((3, 3), (2, 2, 2), (1, 1), (0, 0)),
    python=calls_packing(SLOGDET),
)

LINALG_DET = (det, cofactor, cofactor_change, slogdet)
