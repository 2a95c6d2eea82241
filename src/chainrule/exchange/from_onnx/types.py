"""Which dtype each of ONNX's element types is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import UnsupportedError

if TYPE_CHECKING:
    from chainrule.exchange.from_onnx.call import Call

DTYPES = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
}
NAMES = {
    0: "no type",
    8: "string",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}


def numbers(kind: Any, what: str) -> np.dtype:
    """The dtype of an element type; UnsupportedError for what NumPy has no numbers for."""
    if kind in DTYPES:
        return DTYPES[kind]
    raise UnsupportedError(
        f"{what} is of type {NAMES.get(kind, kind)}",
        hint="arrays of booleans, integers of 8 to 64 bits, and float16, float32, float64 are read",
    )


def dtype_of(call: Call, kind: Any) -> np.dtype:
    """The dtype that an attribute of the call says."""
    return numbers(kind, f"the result of {call.shown}")
