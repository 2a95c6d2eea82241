"""Answers NumPy's questions about the dtypes of traced arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind, promoted


def _asked(value: Any) -> Any:
    """What NumPy decides by: the dtype, or a number of Python's where that is what is traced."""
    if not hasattr(value, "node"):
        return value
    if value.node.type.weak:
        return {"f": 0.0, "i": 0}.get(dtype_kind(value.dtype), value.dtype)
    return value.dtype


def _empty(value: Any) -> Any:
    return np.empty(0, value.dtype) if hasattr(value, "node") else value


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if hasattr(from_, "node") else from_, to, casting)


TYPES_OF: dict[Any, Callable[..., Any]] = {
    np.result_type: lambda *given: promoted(*map(_asked, given)),
    np.can_cast: _can_cast,
    np.common_type: lambda *given: np.common_type(*map(_empty, given)),
    np.iscomplexobj: lambda x: False,
    np.isrealobj: lambda x: True,
}
