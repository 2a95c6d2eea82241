"""Fourier transforms as ONNX's `DFT`, always forward and in float64.

onnxruntime's inverse rounds 1/n to float32, and its transforms of float32 err by 2e-5 where a
length is no power of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.exchange.to_onnx.writer import Writer
from chainrule.graph.node import Node

WIDE = np.dtype(np.float64)


def _transformed(writer: Writer, out: Node, x: str, axes: Sequence[int], **options: Any) -> str:
    """`DFT` along axes, in float64."""
    x = x if out.dtype == WIDE else writer.cast(x, WIDE)
    length = options.pop("length", "")
    for axis in axes:
        if writer.opset < 20:
            x = writer.emit("DFT", x, *filter(None, [length]), axis=axis, **options)
        else:
            place = writer.constant(np.int64(axis))
            x = writer.emit("DFT", x, length, place, **options)
    return x


def _conjugate(writer: Writer, x: str) -> str:
    return writer.emit("Mul", x, writer.constant(np.array([1.0, -1.0])))


def dft(writer: Writer, out: Node, x: str) -> str:
    """With sign 1 the conjugate of that of the conjugate."""
    x = x if out.dtype == WIDE else writer.cast(x, WIDE)
    is_forward = out.param("sign") < 0
    x = _transformed(writer, out, x if is_forward else _conjugate(writer, x), out.param("axes"))
    x = x if is_forward else _conjugate(writer, x)
    return x if out.dtype == WIDE else writer.cast(x, out.dtype)


def half_dft(writer: Writer, out: Node, x: str) -> str:
    x = writer.emit("Unsqueeze", x, writer.constant(np.array([-1], np.int64)))
    x = _transformed(writer, out, x, [out.param("axis")], onesided=1)
    return x if out.dtype == WIDE else writer.cast(x, out.dtype)


def half_dft_transpose(writer: Writer, out: Node, g: str) -> str:
    """The real part of the transform of the conjugate, continued by zeros."""
    g = g if out.dtype == WIDE else writer.cast(g, WIDE)
    scalar = writer.constant(np.array([], np.int64))
    length = writer.emit("Reshape", writer.size(out.param("length")), scalar, allowzero=1)
    x = _transformed(writer, out, _conjugate(writer, g), [out.param("axis")], length=length)
    x = writer.emit("Gather", x, writer.constant(np.int64(0)), axis=-1)
    return x if out.dtype == WIDE else writer.cast(x, out.dtype)


FOURIER = {"dft": dft, "half_dft": half_dft, "half_dft_transpose": half_dft_transpose}
