"""Writes `1 - erf(x)` as erfc(x), and its like: nothing is left of the digits of the difference.

Only where the operand has no name, so that every value that you named stays one that is used.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic

REWRITTEN = frozenset({np.subtract, np.log})


def accurate(trace: Trace, ufunc: np.ufunc, operands: list[Any]) -> Node | None:
    """The node of one function for `1 - f(x)` or `log(f(x))`; None where there is none."""
    inner = operands[-1]
    if not isinstance(inner, Node) or len(inner.inputs) != 1 or inner in trace.name_of:
        return None
    if ufunc is np.log:
        return _logarithm(trace, inner)
    one = operands[0]
    if isinstance(one, Node) or isinstance(one, bool) or one != 1:
        return None
    return _complement(trace, inner)


def _complement(trace: Trace, inner: Node) -> Node | None:
    (x,) = inner.inputs
    if inner.primitive is arithmetic.erf:
        from chainrule.primitives.special import erfc

        return trace.build(erfc, x)
    if inner.primitive is arithmetic.logistic or _is_ndtr(inner):
        return trace.build(inner.primitive, trace.build(arithmetic.negative, x))
    return None


def _logarithm(trace: Trace, inner: Node) -> Node | None:
    if not _is_ndtr(inner):
        return None
    from chainrule.primitives.special import log_ndtr

    return trace.build(log_ndtr, *inner.inputs)


def _is_ndtr(node: Node) -> bool:
    special = sys.modules.get("chainrule.primitives.special")  # loaded if there is such a node
    return special is not None and node.primitive is special.ndtr
