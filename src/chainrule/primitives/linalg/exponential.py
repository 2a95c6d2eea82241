"""The exponential of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.linalg.evaluation import (
    WIDE,
    batch_stack,
    every_stack_axis,
    scratch_of_one,
    square_type,
    stack_size,
)
from chainrule.primitives.movement import concatenate, pad, slice_
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Explicit, Library, Primitive, Sample
from chainrule.primitives.products import swapped
from chainrule.primitives.python import calls_function

ANY = (-2.0, 2.0)


def expm_by_pade(x):
    """The exponential of each square matrix of a stack, in float64, by a Pade approximant of degree
    13 of the matrix over a power of 2, squared so often: Higham, The scaling and squaring method
    for the matrix exponential revisited (2005), algorithm 2.3."""
    from scipy.linalg import get_lapack_funcs

    (gesv,) = get_lapack_funcs(("gesv",), dtype=np.float64)
    largest = 5.371920351148152  # the norm up to which degree 13 is exact to rounding
    b = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0)
    b += (129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0)
    b += (40840800.0, 960960.0, 16380.0, 182.0, 1.0)
    b = [one / b[0] for one in b]  # so that the exponential of 0 is 1

    def odd_and_even(a):
        """The sums of the odd powers and of the even powers of the numerator."""
        a2 = a @ a
        a4 = a2 @ a2
        a6 = a4 @ a2
        parts = []
        for first in (1, 0):
            inner = b[12 + first] * a6
            inner += b[10 + first] * a4
            inner += b[8 + first] * a2
            part = a6 @ inner
            part += np.multiply(b[6 + first], a6, out=inner)
            part += np.multiply(b[4 + first], a4, out=inner)
            part += np.multiply(b[2 + first], a2, out=inner)
            np.einsum("ii->i", part)[...] += b[first]  # its diagonal
            parts.append(part)
        return a @ parts[0], parts[1]

    def of_one(a):
        norm = np.linalg.norm(a, 1)
        if not np.isfinite(norm):
            return np.nan
        squarings = max(0, int(np.ceil(np.log2(norm / largest)))) if norm else 0
        odd, even = odd_and_even(a * 0.5**squarings)
        result = even + odd
        even -= odd
        # Polynomials of one matrix commute, so the transposed system has the same solution.
        gesv(even.T, result.T, overwrite_a=1, overwrite_b=1)
        for _ in range(squarings):
            result = result @ result
        return result

    found = np.empty(x.shape)
    for place in np.ndindex(*(x.shape[:-2] if x.size else (0,))):
        found[place] = of_one(x[place].astype(np.float64))
    return found.astype(x.dtype, copy=False)


def _expm(xp: Any, x: Any) -> Any:
    if xp is np:
        return expm_by_pade(x)
    from jax.scipy.linalg import expm as of_jax  # only JAX shares this evaluation

    return of_jax(x)


def _change(x: Any, d: Any) -> Any:
    """How the exponential changes where x moves by d, linear in d: what is above the diagonal in
    the exponential of [[x, d], [0, x]] (Mathias, A chain rule for matrix functions, 1996)."""
    n, last = x.type.shape[-1], x.ndim - 1
    shape = (*x.type.shape[:-1], 2 * n)
    top = concatenate(x, d, axis=last)
    bottom = pad(x, start=(*(0,) * last, n), step=(1,) * x.ndim, shape=shape)
    whole = expm(concatenate(top, bottom, axis=last - 1))
    start = (*(0,) * last, n)
    return slice_(whole, start=start, step=(1,) * x.ndim, shape=x.type.shape)


def _expm_flops(out: Node) -> int | Size:
    # Six products, a system with n right sides; without squarings, whose number values decide.
    n = out.type.shape[-1]
    return stack_size(out.type) * (12 * n * n * n + 8 * n * n * n // 3)


expm = Primitive(
    name="expm",
    doc="The exponential of each square matrix of a stack: the sum of x^k / k!.",
    inputs=("x",),
    result_type=square_type,
    evaluate=_expm,
    derivative=Explicit(
        tangents=(lambda dx, out, x: _change(x, dx),),
        cotangents=(lambda g, out, x: _change(swapped(x), g),),
    ),
    batch=batch_stack,
    kernel=Library(lapack=True),
    independent=every_stack_axis,
    flops=_expm_flops,
    scratch=scratch_of_one(lambda m, n, k: WIDE.itemsize * 9 * n * n),
    latex=Latex(r"\operatorname{{expm}}({x})", ATOM, (0,)),
    samples=tuple(Sample((s,), (ANY,)) for s in ((3, 3), (2, 2, 2), (1, 1), (0, 0))),
    python=calls_function(expm_by_pade),
)

LINALG_EXPONENTIAL = (expm,)
