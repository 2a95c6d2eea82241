"""Evaluates loops and choices in array namespaces that have them as a whole, as JAX has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.control.repeated import Repeated
from chainrule.graph.body import Body


def has_loops(xp: Any) -> bool:
    """Whether the namespace has `scan`, `cond`, `while_loop` and `unwind`, which take bodies."""
    return xp is not np and hasattr(xp, "scan")


def scanned(
    xp: Any,
    *arrays: Any,
    body: Body,
    carries: int,
    constants: int,
    dtype: np.dtype,
    length: int,
    reverse: bool,
) -> Any:
    """The result of a scan."""
    last = constants + carries
    fixed, states, slices = arrays[:constants], arrays[constants:last], arrays[last:]
    after, stacks = xp.scan(body, fixed, states, slices, length, reverse)
    return _packed(xp, [*_of_dtype(body, after, dtype), *stacks], dtype)


def chosen(
    xp: Any, predicate: Any, *operands: Any, if_true: Body, if_false: Body, dtype: np.dtype
) -> Any:
    """The result of a choice."""
    return _packed(xp, xp.cond(predicate, if_true, if_false, operands), dtype)


def repeated(xp: Any, *arrays: Any, **params: Any) -> Any:
    """The result of a while loop."""
    loop = Repeated(**params)
    fixed, states = arrays[: loop.constants], arrays[loop.constants :]
    after = xp.while_loop(loop.condition, loop.body, fixed, states, loop.limit)
    return _packed(xp, _of_dtype(loop.body, after, loop.dtype), loop.dtype)


def unwound(xp: Any, *arrays: Any, **params: Any) -> Any:
    """The result of going back through a while loop."""
    loop = Repeated(**params)
    fixed, gone = arrays[: loop.constants], arrays[loop.back :]
    after = xp.unwind(
        loop.condition,
        loop.forth,
        loop.body,
        fixed,
        arrays[loop.constants : loop.back],
        gone,
        loop.limit,
        loop.segments[0],
        loop.read,
    )
    return _packed(xp, _of_dtype(loop.body, after, loop.dtype), loop.dtype)


def _of_dtype(body: Body, values: Sequence[Any], dtype: np.dtype) -> list[Any]:
    types = [node.type for _, node in body.graph.outputs]
    return [value for value, one in zip(values, types, strict=False) if one.dtype == dtype]


def _packed(xp: Any, values: Sequence[Any], dtype: np.dtype) -> Any:
    flat = [value.reshape(-1) for value in values]
    if not flat:
        return xp.zeros(0, dtype=dtype)
    return flat[0] if len(flat) == 1 else xp.concatenate(flat)
