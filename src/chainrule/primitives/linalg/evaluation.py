"""Types, evaluates (in float64), costs and writes the primitives of linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.notation import ATOM
from chainrule.primitives.primitive import Cut
from chainrule.primitives.python import Python, Writing, Written
from chainrule.primitives.routines import WIDE


def square_type(x: ArrayType, **params: Any) -> ArrayType:
    """The type of a stack of square matrices, of which the result is one more."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or not x.is_float:
        raise TypeError(f"{x} are no square matrices of floating-point numbers")
    return array_type(x.dtype, x.shape)


def matrix_type(x: ArrayType) -> tuple[int | Size, int | Size]:
    """How many rows and columns each matrix of a stack has."""
    if x.ndim < 2 or not x.is_float:
        raise TypeError(f"{x} are no matrices of floating-point numbers")
    return x.shape[-2], x.shape[-1]


def batch_stack(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    """One more leading axis is one more axis of the stack of matrices."""
    return out.primitive(inputs[0], **dict(out.params))


def in_float64(xp: Any, function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of the arrays in float64, its result in their dtype; JAX keeps its own dtype."""
    if xp is not np or arrays[0].dtype == WIDE:
        return function(*arrays)
    wide = [array.astype(WIDE) for array in arrays]
    return np.asarray(function(*wide)).astype(arrays[0].dtype)


def written(call: Callable[..., str], noun: str = "") -> Python:
    """The call as source; `call(out, writing, *operands)` gives the text for texts of operands."""

    def write(out: Node, writing: Writing, *operands: Written) -> Written:
        if out.type.dtype != np.float16:
            return Written(call(out, writing, *(operand.text for operand in operands)))
        wide = [f"{operand.within(ATOM)}.astype(np.float64)" for operand in operands]
        return Written(f"{call(out, writing, *wide)}.astype(np.float16)")  # LAPACK has none

    return Python(write, noun=noun)


def calls_linalg(function: str, noun: str) -> Python:
    """The call of a function of numpy.linalg."""
    return written(
        lambda out, writing, *operands: f"np.linalg.{function}({', '.join(operands)})", noun
    )


def calls_packing(source: str, *params: str) -> Python:
    """The call of a function that is written into the source, with these parameters."""

    def call(out: Node, writing: Writing, *operands: str) -> str:
        options = (repr(out.param(name)) for name in params)
        return f"{writing.helper(source)}({', '.join((*operands, *options))})"

    return written(call)


def of_one_triangle(xp: Any) -> dict[str, bool]:
    """The option with which JAX reads one triangle of a symmetric matrix, as NumPy does."""
    return {} if xp is np else {"symmetrize_input": False}


def scratch_of(peak_nbytes: Callable[..., int]) -> Callable[..., int]:
    """The scratch of a primitive that is evaluated by `in_float64`.

    `peak_nbytes(out, *operands)` says what the evaluation takes at its fullest, in float64, its
    result included.
    """

    def scratch(out: Node, *operands: np.ndarray) -> int:
        peak = peak_nbytes(out, *operands)
        if out.type.dtype == WIDE:
            return max(0, peak - out.type.nbytes)
        copies = WIDE.itemsize * sum(array.size for array in operands)
        whole = WIDE.itemsize * out.type.size + out.type.nbytes
        return copies + max(peak, whole) - out.type.nbytes

    return scratch


def scratch_of_one(one_nbytes: Callable[[int, int, int], int]) -> Callable[..., int]:
    """The scratch of an evaluation that makes the result in float64, one matrix at a time.

    `one_nbytes(m, n, k)` says what it takes meanwhile for one of them: m and n are the sizes of the
    first operand, k is the length of the last axis of the last one.
    """

    def scratch(out: Node, *operands: np.ndarray) -> int:
        if not out.type.size:
            return 0
        (m, n), k = operands[0].shape[-2:], operands[-1].shape[-1]
        one = one_nbytes(m, n, k)
        if out.type.dtype == WIDE:
            return one
        wide = WIDE.itemsize * out.type.size  # then once more, in the operands' dtype
        return max(wide + one - out.type.nbytes, wide)

    return scratch


def lapack_bytes(made: Callable[..., int], own: Callable[..., int]) -> Callable[..., int]:
    """The `library_bytes` of a primitive that is evaluated by `in_float64`, one matrix at a time.

    While LAPACK works, there are `made(m, n, k)` float64 elements for each matrix of the stack, of
    NumPy's, and `own(m, n, k)` of its own in all: copies of the matrix and of its results, and what
    it asks for to work in.  m and n are the sizes of the first operand, k is the length of the
    last axis of the last one.
    """

    def library_bytes(out: Node, *operands: np.ndarray) -> int:
        x = operands[0]
        m, n, k = *x.shape[-2:], operands[-1].shape[-1]
        if not x.size:
            return 0
        copies = 0 if x.dtype == WIDE else sum(array.size for array in operands)
        then = WIDE.itemsize * (copies + stack_size(x) * made(m, n, k) + own(m, n, k))
        traced = out.primitive.scratch(out, *operands) + out.type.nbytes
        return max(0, then - traced)

    return library_bytes


def gesdd_elements(m: int, n: int, k: int) -> int:
    """What NumPy takes for the thin factors of one matrix: its copy, the factors, 8 k integers and
    LAPACK's `lwork` (dgesdd, jobz='S')."""
    k = min(m, n)
    return m * n + k * (m + n + 9) + gesdd_work(m, n)


def gesdd_work(m: int, n: int) -> int:
    """The `lwork` that dgesdd asks for (jobz='S')."""
    k = min(m, n)
    if _is_long(m, n):  # a triangular factor first, and its factors
        return k * k + max(3 * k * k + 7 * k, 3 * k + 2 * k * PANEL)
    return 3 * k + max(3 * k * k + 4 * k, (m + n) * PANEL)


def gesdd_values_elements(m: int, n: int, k: int) -> int:
    """The same for the singular values alone (jobz='N')."""
    return m * n + 9 * min(m, n) + gesdd_values_work(m, n)


def gesdd_values_work(m: int, n: int) -> int:
    """The `lwork` that dgesdd asks for (jobz='N')."""
    k = min(m, n)
    return 3 * k + (2 * k if _is_long(m, n) else m + n) * PANEL


def _is_long(m: int, n: int) -> bool:
    return max(m, n) >= int(11 * min(m, n) / 6)


PANEL = 32  # columns that LAPACK works on at once (ilaenv)

only_the_result = scratch_of(lambda out, *operands: WIDE.itemsize * out.type.size)


def twice_the_result(out: Node, *operands: np.ndarray) -> int:
    """What a packed result takes at its fullest: once in parts, once packed."""
    return WIDE.itemsize * 2 * out.type.size


def every_stack_axis(out: Node) -> tuple[Cut, ...]:
    """Each matrix of a stack has results of its own."""
    count = len(out.inputs)
    return tuple([(axis, (axis,) * count) for axis in range(out.inputs[0].ndim - 2)])


def stack_size(x: Any) -> Any:
    """How many matrices a stack has."""
    count = 1
    for size in x.shape[:-2]:
        count *= size
    return count
