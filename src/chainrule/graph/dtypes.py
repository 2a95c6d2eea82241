"""Asks dtypes what NumPy says of its own, and wrongly of bfloat16, which is another package's.

NumPy takes bfloat16 (of ml_dtypes) for raw bytes: its kind is "V", `np.finfo` refuses it, and it is
not promoted as NEP 50 says.  Whatever a graph's dtype may reach asks here instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError

BFLOAT16 = "bfloat16"
FLOAT32 = np.dtype(np.float32)


def bfloat16() -> np.dtype:
    """The dtype; UnsupportedError where ml_dtypes is not installed."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise UnsupportedError(
            "bfloat16 is a dtype of the package ml_dtypes, which is not installed",
            hint="pip install 'chainrule[bfloat16]'",
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether it is bfloat16: stored in two bytes, and computed in float32."""
    return dtype.kind == "V" and dtype.name == BFLOAT16


def dtype_kind(dtype: np.dtype) -> str:
    """NumPy's letter for the kind: "f" for every float, bfloat16 among them."""
    kind = dtype.kind
    return "f" if kind == "V" and dtype.name == BFLOAT16 else kind


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which operations on this one are computed: float32 for bfloat16."""
    return FLOAT32 if is_bfloat16(dtype) else dtype


def finfo(dtype: Any) -> Any:
    """What `np.finfo` says (eps, epsneg, max, tiny, smallest_normal), of bfloat16 too."""
    dtype = np.dtype(dtype)
    if not is_bfloat16(dtype):
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def as_dtype(given: Any) -> np.dtype:
    """`np.dtype(given)`; "bfloat16" is known before anything has imported ml_dtypes."""
    return bfloat16() if isinstance(given, str) and given == BFLOAT16 else np.dtype(given)


def in_python(dtype: np.dtype) -> str:
    """How Python writes it: `np.float32`, `ml_dtypes.bfloat16`."""
    return f"ml_dtypes.{dtype.name}" if is_bfloat16(dtype) else f"np.{dtype.name}"


def stored_as(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array; bfloat16 where this is the dtype and `np.load` gives nameless pairs of bytes."""
    is_raw = array.dtype.kind == "V" and array.dtype.itemsize == 2 and array.dtype.names is None
    return array.view(dtype) if is_raw and is_bfloat16(dtype) else array


def is_narrow(dtype: np.dtype) -> bool:
    """Whether it is a float of two bytes."""
    return dtype_kind(dtype) == "f" and dtype.itemsize == 2


def promoted(*given: Any) -> np.dtype:
    """The dtype that NumPy gives arrays of these, and Python's numbers, which widen none.

    Of bfloat16 with booleans and integers of one byte it is bfloat16, with float16 float32, with
    wider floats those.  TypeError with wider integers, as NumPy has it.
    """
    strong = [
        one for one in given if isinstance(one, np.generic) or not isinstance(one, int | float)
    ]
    dtypes = [np.dtype(getattr(one, "dtype", one)) for one in strong]
    if not any(map(is_bfloat16, dtypes)):
        return np.result_type(*given)
    return np.result_type(*[FLOAT32 if one == np.float16 else one for one in dtypes])


def in_float32(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """The evaluation of arrays of bfloat16, too: with float32 numbers, rounded once at the end."""

    @wraps(evaluate)
    def widened(xp: Any, *arrays: Any, **params: Any) -> Any:
        for x in arrays:  # a loop, as every evaluation comes through here
            if x.dtype.kind == "V" and is_bfloat16(x.dtype):
                narrow = x.dtype
                break
        else:
            return evaluate(xp, *arrays, **params)
        wide = [x.astype(FLOAT32) if x.dtype == narrow else x for x in arrays]
        value = evaluate(xp, *wide, **params)
        return value.astype(narrow) if value.dtype == FLOAT32 else value

    return widened
