"""ONNX's quantised operators: integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.operators import windows
from chainrule.exchange.from_onnx.types import DTYPES, dtype_of


def _along(call: Call, x: Any, scale: Any, axis: Any = None) -> Any:
    """A scale or zero point that goes with x: one, one for each place of an axis, or for blocks."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1 and x.ndim != 1):
        return np.reshape(scale, ())
    axis = call.axis(call.get("axis", 1) if axis is None else axis, x.ndim)
    if scale.ndim == 1:
        return np.reshape(scale, tuple(-1 if i == axis else 1 for i in range(x.ndim)))
    block = call.get("block_size", 0) or -(-x.shape[axis] // scale.shape[axis])
    wide = np.repeat(scale, block, axis)
    place = [slice(None)] * x.ndim
    place[axis] = slice(0, x.shape[axis])
    return wide[tuple(place)]


def dequantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = scale.dtype
    if call.get("output_dtype"):
        dtype = dtype_of(call, call.get("output_dtype"))
    found = x.astype(np.float32)
    if zero is not None:
        found = found - _along(call, x, zero).astype(np.float32)
    return (found * _along(call, x, scale).astype(np.float32)).astype(dtype)


def quantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    """Rounded to even and clipped to what the type holds."""
    kind = call.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else DTYPES.get(kind, np.dtype(np.uint8))
    if kind and kind not in DTYPES:
        dtype_of(call, kind)
    found = np.rint(x / _along(call, x, scale))
    if zero is not None:
        found = found + _along(call, x, zero).astype(found.dtype)
    return _clipped(found, dtype)


def _clipped(x: Any, dtype: np.dtype) -> Any:
    limits = np.iinfo(dtype)
    wide = x.astype(np.float64) if limits.max > 1 << 20 else x
    return np.clip(wide, float(limits.min), float(limits.max)).astype(dtype)


def dynamic_quantize(call: Call, x: Any) -> Any:
    """As uint8, with a scale for the range of the values, 0 included."""
    low, high = np.minimum(np.min(x), 0), np.maximum(np.max(x), 0)
    scale = (high - low) / np.float32(255)
    scale = np.where(scale == 0, np.float32(1), scale)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero.astype(np.uint8)


def _whole(call: Call, x: Any, zero: Any, axis: int | None) -> Any:
    x32 = x.astype(np.int32)
    if zero is None:
        return x32
    if zero.ndim == 1 and zero.shape[0] != 1 and axis is not None:
        fits = tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim))
        return x32 - np.reshape(zero, fits).astype(np.int32)
    return x32 - (np.reshape(zero, ()) if zero.size == 1 else zero).astype(np.int32)


def matmul_integer(call: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return _whole(call, a, a_zero, -2) @ _whole(call, b, b_zero, -1)


def conv_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return windows.conv(call, _whole(call, x, x_zero, None), _whole(call, w, w_zero, 0))


def qlinear_matmul(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    y_scale: Any,
    y_zero: Any,
) -> Any:
    product = _whole(call, a, a_zero, -2) @ _whole(call, b, b_zero, -1)
    factor = (a_scale * b_scale / y_scale).astype(np.float32)
    found = np.rint(product.astype(np.float32) * factor) + y_zero.astype(np.float32)
    return _clipped(found, y_zero.dtype)


def qlinear_conv(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
) -> Any:
    product = windows.conv(call, _whole(call, x, x_zero, None), _whole(call, w, w_zero, 0), bias)
    factor = x_scale * w_scale / y_scale
    if factor.ndim == 1:
        factor = np.reshape(factor, (-1, *(1,) * (product.ndim - 2)))
    found = np.rint(product.astype(np.float32) * factor) + y_zero.astype(np.float32)
    return _clipped(found, y_zero.dtype)


QUANTISED: dict[str, Callable[..., Any]] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize,
}
