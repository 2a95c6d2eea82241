"""Promotes the operands of a composite to the dtype in which NumPy's ufunc computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import DTypeError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.functions.elementwise import kind_of, lift, literal, resolve, to_dtype
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node


def promoted(ufunc: np.ufunc, *values: Any, shown: str = "") -> list[Any]:
    """The values as traced arrays of one dtype, in their own shapes: that of `ufunc` of them.

    One of them is traced.  DTypeError where NumPy has no such operation, which `shown` names.
    """
    trace = trace_of(values)
    assert trace is not None
    operands = [lift(trace, value) for value in values]
    found = resolve(ufunc, tuple([kind_of(operand) for operand in operands]))
    if found is None:
        parts = " and ".join(trace.show(o) if isinstance(o, Node) else repr(o) for o in operands)
        raise DTypeError(
            f"np.{shown or ufunc.__name__} is not defined for {parts}",
            where=trace.where(),
            hint="convert with .astype(...) first",
        )
    dtype, weak = found
    return [
        Traced(
            to_dtype(trace, operand, dtype, weak)
            if isinstance(operand, Node)
            else literal(trace, operand, dtype, (), weak),
            trace,
        )
        for operand in operands
    ]
