"""First and second derivatives of a primitive as numbers, for comparison with other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import grad, vjp
from chainrule.testing import as_function


def first(primitive: Any, arrays: list[np.ndarray], seed: Any, **params: Any) -> list[np.ndarray]:
    """The cotangents of the float arrays."""
    return vjp(*_on_floats(primitive, arrays, params))[1](seed)[0]


def second(
    primitive: Any,
    arrays: list[np.ndarray],
    seed: Any,
    directions: list[np.ndarray],
    **params: Any,
) -> list[np.ndarray]:
    """The gradient of the sum of the cotangents times the directions."""
    function, floats = _on_floats(primitive, arrays, params)

    def along(floats: list[Any]) -> Any:
        cotangents = vjp(function, floats)[1](seed)[0]
        return sum(np.sum(g * v) for g, v in zip(cotangents, directions, strict=True))

    return grad(along)(floats)


def floats_of(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The arrays that have derivatives."""
    return [array for array in arrays if array.dtype.kind == "f"]


def put_floats(arrays: list[Any], floats: Any) -> list[Any]:
    """The arrays with the float ones replaced, in order."""
    fresh = iter(floats)
    return [next(fresh) if array.dtype.kind == "f" else array for array in arrays]


def _on_floats(primitive: Any, arrays: list[np.ndarray], params: Any) -> tuple[Any, Any]:
    call = as_function(primitive, **params)
    return lambda floats: call(*put_floats(arrays, floats)), floats_of(arrays)
