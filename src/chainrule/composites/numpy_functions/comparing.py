"""NumPy's questions whether two arrays are the same, as one traced boolean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.composites.numpy_functions.of_arrays import array_of, trace_among
from chainrule.errors import ShapeError
from chainrule.frontend.elementwise import as_node
from chainrule.primitives.sources import uniform


def _both(a: Any, b: Any) -> tuple[Any, Any]:
    trace = trace_among([a], [b])
    return array_of(as_node(trace, a), trace), array_of(as_node(trace, b), trace)


def _false(x: Any) -> Any:
    node = uniform(False, np.dtype(np.bool_))
    return array_of(x.program.build(node.primitive, **dict(node.params)), x.program)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and the same elements."""
    x, y = _both(a1, a2)
    if x.shape != y.shape:
        return _false(x)
    same = x == y
    return np.all(same | ((x != x) & (y != y)) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast to one shape and have the same elements there."""
    x, y = _both(a1, a2)
    try:
        same = x == y
    except ShapeError:
        return _false(x)
    return np.all(same)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close, as np.isclose has it."""
    return np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


COMPARING: dict[Any, Callable[..., Any]] = {
    np.array_equal: array_equal,
    np.array_equiv: array_equiv,
    np.allclose: allclose,
}
