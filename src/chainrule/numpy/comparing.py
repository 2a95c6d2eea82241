"""NumPy functions that ask whether two arrays are equal, as one traced boolean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.frontend.functions.elementwise import as_node
from chainrule.graph.sizes.sizes import is_never_zero
from chainrule.numpy.of_arrays import array_of, trace_among
from chainrule.primitives.sources import uniform


def _both(a: Any, b: Any) -> tuple[Any, Any]:
    trace = trace_among([a], [b])
    return array_of(as_node(trace, a), trace), array_of(as_node(trace, b), trace)


def _false(x: Any, unlike: Iterable[tuple[Any, Any]]) -> Any:
    """False; that these sizes differ becomes a condition where it is not proved."""
    for one, other in unlike:
        difference = one - other
        if not (isinstance(difference, int) or is_never_zero(difference)):
            text = f"while tracing, {one} == {other} was taken as False"
            x.program.assume_not_zero(difference, text)
    node = uniform(False, np.dtype(np.bool_))
    return array_of(x.program.build(node.primitive, **dict(node.params)), x.program)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and the same elements."""
    x, y = _both(a1, a2)
    if x.shape != y.shape:
        unlike = [pair for pair in zip(x.shape, y.shape, strict=False) if pair[0] != pair[1]]
        return _false(x, unlike[: x.ndim == y.ndim])
    same = x == y
    return np.all(same | ((x != x) & (y != y)) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast to one shape and have the same elements there."""
    x, y = _both(a1, a2)
    try:
        same = x == y
    except ShapeError as error:
        return _false(x, error.rests_on or ())
    return np.all(same)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close, as np.isclose has it."""
    return np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


COMPARING: dict[Any, Callable[..., Any]] = {
    np.array_equal: array_equal,
    np.array_equiv: array_equiv,
    np.allclose: allclose,
}
