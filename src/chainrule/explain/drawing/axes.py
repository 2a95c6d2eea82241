"""The axes of an operation as a small index: Σ₁ adds along axis 1, Σ along all axes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from chainrule.explain.reading.symbols import SUBSCRIPTS
from chainrule.graph.node import Node
from chainrule.graph.origin import Scope

LAST = ("softmax", "log_softmax", "logsumexp", "layer_norm", "sort")  # usually along the last axis


def index_of(node: Node) -> str:
    """`₁` for an operation along axis 1, `₀,₂` for two axes, '' for one along all or without.

    Of a transpose of more than two axes, the permutation.
    """
    for name, value in node.params:
        if name == "permutation" and node.ndim > 2:
            return _digits(value)
        if name in ("axes", "axis"):
            axes = value if isinstance(value, tuple) else (value,)
            return _index(axes, node.inputs[0].ndim)
    return ""


def index_of_call(scope: Scope) -> str:
    """As `index_of`, for the call of a composite: by its argument `axis`."""
    given: dict[str, Any] = dict(scope.arguments)
    arrays = [value for value in given.values() if isinstance(value, Node)]
    if "axis" not in given or not arrays:
        return ""
    axis, ndim = given["axis"], arrays[0].ndim
    if axis is None:
        return _digits(range(ndim)) if scope.name in LAST else ""
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(operator.index(one) % max(ndim, 1) for one in several)
    return "" if scope.name in LAST and axes == [ndim - 1] else _index(axes, ndim)


def _index(axes: Sequence[int], ndim: int) -> str:
    return "" if len(axes) >= ndim else _digits(axes)


def _digits(axes: Iterable[int]) -> str:
    return ",".join(map(str, axes)).translate(SUBSCRIPTS)
