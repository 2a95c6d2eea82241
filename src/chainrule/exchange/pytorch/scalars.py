"""What a program computes with sizes and numbers: Python's own operations, on named sizes too."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.sizes.sizes import maximum, minimum


def _float(value: Any) -> Any:
    return value if isinstance(value, float) else value * 1


SCALARS: dict[str, Callable[..., Any]] = {
    **{
        one.__name__: one
        for one in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.neg)
    },
    **{one.__name__: one for one in (operator.truediv, operator.mod, operator.pow)},
    **{one.__name__: one for one in (operator.eq, operator.ne, operator.lt, operator.le)},
    **{one.__name__: one for one in (operator.gt, operator.ge, math.floor, math.ceil, math.trunc)},
    **{"sym_max": maximum, "sym_min": minimum, "sym_int": lambda value: value},
    **{"sym_float": _float, "sym_sum": lambda values: sum(values), "sym_not": operator.not_},
    **{"max": maximum, "min": minimum, "getitem": operator.getitem},
}


def _size(x: Any, dim: int) -> Any:
    return np.shape(x)[dim]


def _count(x: Any) -> Any:
    return math.prod(np.shape(x))


# Of arrays.
SIZES: dict[str, Callable[..., Any]] = {"sym_size": _size, "sym_numel": _count}
