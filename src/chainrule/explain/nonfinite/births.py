"""Which elements of a value are not finite by themselves, and which an operand handed on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.graph.node import Node
from chainrule.primitives.logic import where
from chainrule.primitives.primitive import Map


def is_finite(value: np.ndarray) -> bool:
    """Whether no element is NaN or infinite; takes no memory (NaN spreads through min and max)."""
    if value.dtype.kind != "f" or not value.size:
        return True
    return bool(np.isfinite(value.min()) and np.isfinite(value.max()))


def is_mask(value: np.ndarray) -> bool:
    """Whether an array is one that is added to scores: nothing but 0 and -inf."""
    return bool(value.ndim and ((value == 0) | (value == -np.inf)).all())


def hands_on(node: Node, value: np.ndarray, operands: Sequence[np.ndarray], place: int) -> bool:
    """Whether something not finite in `value`, of `node`, can be that of `operands[place]`, which
    is not finite either.

    Elementwise operations are compared element by element; `where` hands on what it chooses.
    """
    if not isinstance(node.primitive.kernel, Map):
        return True
    return bool((_bad(node, operands, place) & ~np.isfinite(value)).any())


def born(node: Node, value: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """A boolean for each element of `value`: NaN, or infinite and computed from finite operands.

    No operand has handed on a NaN; what they did hand on was infinite.  Elementwise operations are
    compared element by element, others as a whole.
    """
    floats = [place for place, one in enumerate(operands) if one.dtype.kind == "f"]
    if isinstance(node.primitive.kernel, Map):
        from_bad = np.zeros(value.shape, bool)
        for place in floats:
            from_bad |= _bad(node, operands, place)
    else:
        from_bad = np.asarray(not all(is_finite(operands[place]) for place in floats))
    return np.isnan(value) | np.isinf(value) & ~from_bad


def _bad(node: Node, operands: Sequence[np.ndarray], place: int) -> np.ndarray:
    """Where an operand of an elementwise operation is not finite, and is read."""
    bad = ~np.isfinite(operands[place])
    if node.primitive is where:
        condition = operands[0]
        bad &= condition if place == 1 else ~condition
    return bad
