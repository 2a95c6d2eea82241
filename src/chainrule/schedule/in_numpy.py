"""How the arrays lie in memory that NumPy makes of nodes, found without making them.

What NumPy makes of a node depends on how its operands lie in memory: a reshape is a view or a
copy, and a sum of transposed arrays is transposed, too.  So each value is followed as an *outline*:
an array that is right in dtype, shape and strides, and has no memory behind it, so that it costs
nothing at any size.  No routine of a library and no function of a user's is called for that: their
results are in C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.graph.node import Node
from chainrule.primitives.affine import row_major
from chainrule.primitives.families import batch_pointwise
from chainrule.primitives.primitive import VIEWS, Contract, Library, Map, Primitive
from chainrule.primitives.sources import is_uniform
from chainrule.schedule.virtual import shows_its_input

# The shape and the strides of a small array that lies in memory like a large one.
Lying = tuple[tuple[int, ...], tuple[int, ...]]
ELEMENT = 8  # bytes, in such strides


def followed(node: Node, operands: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """The outline of a node that is not given, and whether it has memory of its own: else it is a
    view on its one operand, or uniform, which takes none."""
    if is_uniform(node):
        return node.primitive.evaluate(np, **dict(node.params)), False
    if shows_its_input(node.primitive):
        try:
            return node.primitive.evaluate(VIEWS, *operands, **dict(node.params)), False
        except ValueError:  # a reshape that copies
            pass
    return outline_of(node, operands), True


def outline_in_c_order(node: Node) -> np.ndarray:
    """The outline of an array of the node's type in C order, whatever makes it."""
    shape, step = node.shape, node.dtype.itemsize
    return without_memory(shape, node.dtype, tuple([k * step for k in row_major(shape)]))


def outline_of(node: Node, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The outline of an array that the node's evaluation makes of operands that lie like these."""
    shape, step = node.shape, node.dtype.itemsize
    if _in_c_order(node, operands):
        return outline_in_c_order(node)
    lying = tuple([(_lying(one.shape, one.strides, one.itemsize), one.dtype) for one in operands])
    if _is_elementwise(node.primitive):
        order = _order_of_elementwise(tuple([one for one, _ in lying]))
    else:
        order = _order_by_trial(node.primitive, node.params, lying)
    strides = [0] * node.ndim
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return without_memory(shape, node.dtype, tuple(strides))


@lru_cache(maxsize=4096)
def without_memory(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> np.ndarray:
    """An array that must not be read."""
    return as_strided(_one(dtype), shape, strides)


@lru_cache
def _one(dtype: np.dtype) -> np.ndarray:
    """One element, which all outlines share."""
    return np.empty(1, dtype)


def taken_nbytes(node: Node, operands: Sequence[np.ndarray]) -> int:
    """What an evaluation takes beside its operands and its result; `operands` are outlines."""
    return node.primitive.scratch(node, *operands) + unseen_nbytes(node, operands)


def unseen_nbytes(node: Node, operands: Sequence[np.ndarray]) -> int:
    """The part of this that routines in C take, and tracemalloc does not see."""
    return node.primitive.library_bytes(node, *operands)


def _is_elementwise(primitive: Primitive) -> bool:
    """Whether NumPy's ufuncs evaluate it; some of these are a library's for native code."""
    return isinstance(primitive.kernel, Map) or primitive.batch is batch_pointwise


def _in_c_order(node: Node, operands: Sequence[np.ndarray]) -> bool:
    """Whether the result is in C order for a reason that can be seen without a trial.

    One axis has one order; what is told a shape fills it, or copies into it.
    """
    kernel = node.primitive.kernel
    if node.ndim < 2 or node.primitive.c_order or any([key == "shape" for key, _ in node.params]):
        return True
    if isinstance(kernel, Contract):
        return False
    if all([one.flags.c_contiguous for one in operands]):
        return True
    return isinstance(kernel, Library) and not _is_elementwise(node.primitive)


@lru_cache(maxsize=4096)
def _order_of_elementwise(operands: tuple[Lying, ...]) -> tuple[int, ...]:
    """The axes of what a ufunc makes, from the innermost on: those of its operands, which NumPy's
    iterator weighs."""
    numbers = np.dtype(np.float64)
    arrays = [_small(lying, numbers) for lying in operands]
    flags = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    with np.nditer([*arrays, None], ["zerosize_ok"], flags) as iterator:  # type: ignore[list-item]
        made = iterator.operands[-1]
    return _from_the_innermost(made.shape, made.strides)


@lru_cache(maxsize=4096)
def _order_by_trial(
    primitive: Primitive, params: tuple[tuple[str, Any], ...], operands: tuple[Any, ...]
) -> tuple[int, ...]:
    """The axes of the result, from the innermost on, as a trial with few zeros has them: for what
    moves, selects, adds up or multiplies elements, and so cannot fail."""
    arrays = [_small(lying, dtype) for lying, dtype in operands]
    with np.errstate(all="ignore"):
        made = np.asarray(primitive.evaluate(np, *arrays, **dict(params)))
    return _from_the_innermost(made.shape, made.strides)


@lru_cache(maxsize=4096)
def _lying(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Lying:
    """The same order in memory, with lengths of at most 2, in bytes for elements of 8."""
    short = tuple([min(length, 2) for length in shape])
    found, step = [0] * len(shape), ELEMENT
    contiguous = itemsize  # of the next axis, if there is no gap before it
    for axis in _from_the_innermost(shape, strides):
        stride = strides[axis]
        if short[axis] < 2 or not stride:
            continue
        step *= 1 if abs(stride) == contiguous else 2
        contiguous = abs(stride) * shape[axis]
        found[axis] = step if stride > 0 else -step
        step *= 2
    return short, tuple(found)


def _small(lying: Lying, dtype: np.dtype) -> np.ndarray:
    """Zeros that lie in memory like this."""
    shape, strides = lying
    own = tuple([stride // ELEMENT * dtype.itemsize for stride in strides])
    memory = np.zeros(sum(map(abs, strides)) // ELEMENT + 1, dtype)
    start = sum(-stride for stride in strides if stride < 0) // ELEMENT
    return as_strided(memory[start:], shape, own)


def _from_the_innermost(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The axes from the smallest stride to the largest; of two that are equal the last first."""
    axes = range(len(shape) - 1, -1, -1)
    return tuple(sorted(axes, key=lambda axis: abs(strides[axis]) if shape[axis] > 1 else 0))
