"""Elementwise tests of numbers (`isfinite`, `isclose`, ...), and `np.nan_to_num`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import MutationError
from chainrule.graph.dtypes import dtype_kind, finfo
from chainrule.numpy.promoted import promoted


def isnan(x: Any) -> Any:
    """Whether x is not a number."""
    return x != x


def isinf(x: Any) -> Any:
    """Whether x is inf or -inf."""
    return np.abs(x) == np.inf


def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor NaN."""
    return np.abs(x) < np.inf


def isposinf(x: Any) -> Any:
    """Whether x is inf."""
    return x == np.inf


def isneginf(x: Any) -> Any:
    """Whether x is -inf."""
    return x == -np.inf


def signbit(x: Any) -> Any:
    """Whether x is negative, -0 too."""
    (x,) = promoted(np.copysign, x, x)[:1]
    return np.copysign(1.0, x) < 0


def logical_xor(x1: Any, x2: Any) -> Any:
    """Whether one of the two is true (not 0), and not both."""
    return np.not_equal(x1 != 0, x2 != 0)


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether a is as near to b as rtol |b| + atol."""
    b = b * 1.0  # integers have a size that is none: |least| < 0
    near = np.abs(a - b) <= atol + rtol * np.abs(b)
    close = (near & isfinite(b)) | (a == b)
    return close | (isnan(a) & isnan(b)) if equal_nan else close


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """x with numbers for NaN, inf and -inf: 0 and the largest of the dtype, or those given."""
    if not copy:
        raise MutationError(
            "np.nan_to_num(copy=False) changes an array in place; traced arrays are values",
            where=x.program.where(),
            hint="leave copy= out and bind the result to a name",
        )
    if dtype_kind(x.dtype) != "f":
        return +x
    limits = finfo(x.dtype)

    def number(given: Any, limit: Any) -> Any:
        return float(limit) if given is None else given

    def put(condition: Any, value: Any, x: Any) -> Any:
        return np.where(condition, value, x).astype(x.dtype)

    result = put(x != x, nan, x)
    result = put(x == np.inf, number(posinf, limits.max), result)
    return put(x == -np.inf, number(neginf, limits.min), result)


FINITE: dict[Any, Callable[..., Any]] = {
    np.isnan: isnan,
    np.isinf: isinf,
    np.isfinite: isfinite,
    np.isposinf: isposinf,
    np.isneginf: isneginf,
    np.signbit: signbit,
    np.logical_xor: logical_xor,
    np.isclose: isclose,
    np.nan_to_num: nan_to_num,
}
