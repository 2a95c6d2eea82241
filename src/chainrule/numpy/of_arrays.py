"""Helpers for functions of traced arrays: find their trace, wrap nodes as arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors.types_shown import show_shape
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import array_type
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.sources import iota

INDEX = np.dtype(np.int64)


def trace_among(*values: Any) -> Trace:
    """The trace to which a traced array among the values belongs."""
    found = trace_of(values)
    assert found is not None
    return found


def array_of(node: Node, trace: Trace) -> Any:
    """The node as an array, on which NumPy's functions work."""
    return Traced(node, trace)


def applied(primitive: Primitive, arrays: tuple[Any, ...], **params: Any) -> Any:
    """A primitive of arrays whose types fit: at once, or traced where one of them is."""
    trace = trace_of(arrays)
    if trace is None:
        return primitive.evaluate(np, *map(np.asarray, arrays), **params)
    nodes = [as_node(trace, one) for one in arrays]
    return array_of(trace.build(primitive, *nodes, **params), trace)


def positions_of(trace: Trace, length: Any) -> Any:
    """0, 1, ..., length - 1 as a traced array; the length may be a named size."""
    return array_of(trace.build(iota, type=array_type(INDEX, (length,))), trace)


def count_of(value: Any) -> Any:
    """A size as it is, anything else as an integer: an int argument then is known while tracing."""
    return value if isinstance(value, Size) else operator.index(value)


def shape_of(given: Any) -> tuple[Any, ...]:
    """A shape from a size or several."""
    several = isinstance(given, (tuple, list, np.ndarray))
    shape = tuple(count_of(size) for size in (given if several else (given,)))
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise ValueError(f"the shape {show_shape(shape)} has a negative size")
    return shape


def broadcast(x: Any, shape: Any) -> Any:
    """np.broadcast_to, of shapes in which sizes have names."""
    return np.broadcast_to(x, shape)
