"""Functions of scipy.linalg: triangular systems, the factors L and U, the matrix exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import refuse, require_flag, shown
from chainrule.frontend.functions.elementwise import common_shape
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind, is_narrow, promoted
from chainrule.graph.sizes.sizes import minimum
from chainrule.numpy.of_arrays import applied, positions_of
from chainrule.primitives.linalg import exponential, triangular
from chainrule.primitives.linalg import lu as factors
from chainrule.primitives.linalg.factors import is_tall
from chainrule.primitives.sources import uniform

TRANSPOSED = {0: False, 1: True, 2: True, "N": False, "T": True, "C": True}


@composite()
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The x with a x = b, as scipy.linalg.solve_triangular: of a (..., n, n) only one triangle is
    read, the upper one unless `lower`.

    b is a vector (n) or matrices (..., n, k); leading axes broadcast.  `trans` 1 or "T" solves with
    the transposed a, and `unit_diagonal` takes the diagonal as ones.  Where it has a zero, a run
    raises EvaluationError.
    """
    asked = "solve_triangular"
    for name, flag in (("lower", lower), ("unit_diagonal", unit_diagonal)):
        require_flag((a, b), flag, f"{asked}: {name}")
    if not isinstance(trans, (int, str)) or trans not in TRANSPOSED:
        raise InputError(
            f"{asked}: trans={trans!r} is not known",
            hint='0 or "N" is a as it is, 1 or "T" transposed',
        )
    a, b = _floats(a, asked), _floats(b, asked)
    _require_matrices(a, asked, square=True)
    is_vector = np.ndim(b) == 1
    if np.ndim(b) == 0 or np.shape(a)[-1] != np.shape(b)[0 if is_vector else -2]:
        refuse(
            ShapeError,
            (a, b),
            f"{asked}: matrices {shown(a)} and a right side {shown(b)}",
            "the right side has as many rows as the matrices: (n) or (..., n, k)",
        )
    dtype = promoted(a.dtype, b.dtype)
    a, b = a.astype(dtype), (b[:, None] if is_vector else b).astype(dtype)
    stack = _common(a, b, asked)
    a = np.broadcast_to(a, (*stack, *np.shape(a)[-2:]))
    b = np.broadcast_to(b, (*stack, *np.shape(b)[-2:]))
    if TRANSPOSED[trans]:
        a, lower = np.swapaxes(a, -1, -2), not lower
    options = {"is_lower": bool(lower), "is_unit": bool(unit_diagonal)}
    result = applied(triangular.solve_triangular, (a, b), **options)
    return result[..., 0] if is_vector else result


@composite()
def lu(a: Any, permute_l: bool = False) -> Any:
    """(P, L, U) with a = P L U, or (P L, U) with `permute_l`, as scipy.linalg.lu.

    a is (..., m, n); P (..., m, m) permutes rows, L (..., m, k) has ones on its diagonal and U
    (..., k, n) nothing below its own, k the smaller of m and n.  The derivative is that of fixed P.
    """
    require_flag((a,), permute_l, "lu: permute_l")
    a = _floats(a, "lu")
    _require_matrices(a, "lu")
    m, n = np.shape(a)[-2:]
    k = minimum(m, n)
    if trace_of((a,)) is not None and is_tall(a.node.type) is None:
        refuse(
            ShapeError,
            (a,),
            f"lu: whether {shown(a)} has more rows or more columns is not known",
            "declare one of the two sizes by the other (n + 3), or as integers",
        )
    packed = applied(factors.lu, (a,))
    order = packed[..., n].astype(np.int64)
    numbers = np.arange(m) if isinstance(m, int) else positions_of(a.program, m)
    permutation = (order[..., None, :] == numbers[:, None]).astype(a.dtype)
    below = np.tril(packed[..., :k], -1)
    left = below + (numbers[:, None] == numbers[:k]).astype(a.dtype)
    upper = np.triu(packed[..., :k, :n])
    return (permutation @ left, upper) if permute_l else (permutation, left, upper)


@composite()
def expm(a: Any) -> Any:
    """The exponential of each square matrix of a (..., n, n): 1 + a + a a / 2 + ..., as
    scipy.linalg.expm."""
    a = _floats(a, "expm")
    _require_matrices(a, "expm", square=True)
    return applied(exponential.expm, (a,))


def _floats(x: Any, asked: str) -> Any:
    """x as an array of float32 or float64; integers and booleans become float64."""
    x = x if isinstance(x, Traced) else np.asarray(x)
    if is_narrow(x.dtype) or dtype_kind(x.dtype) not in "fiub":
        refuse(
            DTypeError,
            (x,),
            f"{asked} is not defined for {shown(x)}",
            "LAPACK computes in float32 and float64: convert with .astype(np.float32) first",
        )
    return x if dtype_kind(x.dtype) == "f" else x.astype(np.float64)


def _require_matrices(a: Any, asked: str, square: bool = False) -> None:
    if np.ndim(a) < 2 or (square and np.shape(a)[-1] != np.shape(a)[-2]):
        kind = "square matrices" if square else "matrices"
        refuse(
            ShapeError,
            (a,),
            f"{asked} needs {kind}: {shown(a)}",
            "the last two axes are rows and columns" + ", equally many" * square,
        )


def _common(a: Any, b: Any, asked: str) -> tuple[Any, ...]:
    """The stack to which both broadcast."""
    trace = trace_of((a, b))
    stacks = (np.shape(a)[:-2], np.shape(b)[:-2])
    if trace is None:
        return np.broadcast_shapes(*stacks)
    nodes = [uniform(0.0, a.dtype, stack) for stack in stacks]
    return common_shape(trace, nodes, asked)
