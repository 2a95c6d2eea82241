"""Slices a product by slicing its operands, so that the rest of it is never computed."""

from __future__ import annotations

from typing import Any

from chainrule.graph.types import Shape
from chainrule.primitives.movement import reshape, slice_, transpose
from chainrule.primitives.primitive import Contract, Move

Counts = tuple[int, ...]


def part_of_product(x: Any, start: Counts, step: Counts, shape: Shape) -> Any:
    """A slice of a contraction, transposed or regrouped, as the contraction of slices, so that no
    more is computed; None of anything else."""
    if x.primitive is transpose:
        order = x.param("permutation")
        places = sorted(range(x.ndim), key=order.__getitem__)  # of the axes before
        begin, by = (tuple(of[k] for k in places) for of in (start, step))
        product = part_of_product(x.inputs[0], begin, by, tuple(shape[k] for k in places))
        return None if product is None else transpose(product, permutation=order)
    if x.primitive is reshape:
        return _part_of_regrouped(x, start, step, shape)
    params = dict(x.params)
    if not isinstance(x.primitive.kernel, Contract) or "out_axes" not in params:
        return None
    wanted = dict(zip(params["out_axes"], zip(start, step, shape, strict=True), strict=True))
    parts = []
    for operand, key in zip(x.inputs, ("x_axes", "y_axes"), strict=True):
        axes = zip(params[key], operand.type.shape, strict=True)
        asked = [wanted.get(label, (0, 1, size)) for label, size in axes]
        parts.append(_part(operand, *zip(*asked, strict=True)) if asked else operand)
    return x.primitive(*parts, **params)


def _part_of_regrouped(x: Any, start: Counts, step: Counts, shape: Shape) -> Any:
    """Of a reshape, where only last axes are cut, which are the same before."""
    before, after = x.inputs[0].type.shape, x.type.shape
    cut = (axis for axis in range(x.ndim) if (step[axis], shape[axis]) != (1, after[axis]))
    first = min(cut, default=x.ndim)
    kept = len(before) - (x.ndim - first)
    if kept < 0 or before[kept:] != after[first:]:
        return None
    starts, steps = (*(0,) * kept, *start[first:]), (*(1,) * kept, *step[first:])
    product = part_of_product(x.inputs[0], starts, steps, (*before[:kept], *shape[first:]))
    return None if product is None else reshape(product, shape=shape)


def _part(x: Any, start: Counts, step: Counts, shape: Shape) -> Any:
    """A slice of an operand: of one that moves elements, the move of fewer, where it can."""
    kernel, is_run = x.primitive.kernel, set(step) <= {1} and 0 not in shape
    if is_run and shape == x.type.shape:
        return x
    less = kernel.part(x, start, shape) if is_run and isinstance(kernel, Move) else None
    return slice_(x, start=start, step=step, shape=shape) if less is None else less
