"""Finds which elements of a value first became NaN or infinite, and which were so in an operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.explain.nonfinite.flow import forward, is_pointwise
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import maximum, minimum
from chainrule.primitives.logic import where
from chainrule.primitives.reduce import max_, min_
from chainrule.primitives.rounding import copysign


def is_finite(value: np.ndarray) -> bool:
    """Whether no element is NaN or infinite; takes no memory (NaN spreads through min and max)."""
    if dtype_kind(value.dtype) != "f" or not value.size:
        return True
    return bool(np.isfinite(value.min()) and np.isfinite(value.max()))


def is_mask(value: np.ndarray) -> bool:
    """Whether an array is one that is added to scores: nothing but 0 and -inf."""
    return bool(value.ndim and ((value == 0) | (value == -np.inf)).all())


def handed_on(
    node: Node, value: np.ndarray, operands: Sequence[np.ndarray], place: int
) -> np.ndarray:
    """The elements of `operands[place]` that are not finite and can be why `value`, of `node`, is
    not: those that the operation reads, and, where it is elementwise, whose result is bad.

    `where` reads what it chooses, a maximum or minimum what it equals.
    """
    bad = _read(node, value, operands, place, ~np.isfinite(operands[place]))
    return bad & ~np.isfinite(value) if is_pointwise(node) else bad


def born(node: Node, value: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """A boolean for each element of `value`: NaN that comes from no NaN, or infinite and computed
    from finite numbers."""
    from_nan, from_bad = np.zeros((2, *value.shape), bool)
    for place, one in enumerate(operands):
        if dtype_kind(one.dtype) == "f" and not is_finite(one):
            nan, bad = (
                _read(node, value, operands, place, mask)
                for mask in (np.isnan(one), ~np.isfinite(one))
            )
            from_nan |= forward(node, place, nan, operands)
            from_bad |= forward(node, place, bad, operands)
    return np.isnan(value) & ~from_nan | np.isinf(value) & ~from_bad


def _read(
    node: Node,
    value: np.ndarray,
    operands: Sequence[np.ndarray],
    place: int,
    mask: np.ndarray,
) -> np.ndarray:
    """The elements of an operand in the mask that the result depends on."""
    one = operands[place]
    if node.primitive is where:
        return mask & (operands[0] if place == 1 else ~operands[0])
    if node.primitive in (maximum, minimum):
        return mask & (np.isnan(one) | (one == value))
    if node.primitive in (max_, min_):
        chosen = np.expand_dims(value, node.param("axes")) if one.ndim > value.ndim else value
        return mask & (np.isnan(one) | (one == chosen))
    if node.primitive is copysign and place == 1:
        return np.zeros_like(mask)
    return mask
