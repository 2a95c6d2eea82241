"""ONNX's Fourier transforms and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import SMALL, Call
from chainrule.exchange.from_onnx.types import dtype_of
from chainrule.numpy import fft


def dft(call: Call, x: Any, length: Any = None, axis: Any = None) -> Any:
    """x (..., 1 or 2): the parts of complex numbers are the last axis."""
    at = call.get("axis", 1) if axis is None else call.integer(axis, "axis")
    if call.version >= 20 and axis is None:
        at = -2
    at = call.axis(at, x.ndim)
    inverse, onesided = call.get("inverse", 0), call.get("onesided", 0)
    have = x.shape[at]
    count = have if length is None else call.integer(length, "dft_length")
    if onesided and inverse and length is None:
        count = 2 * (have - 1)
    if isinstance(count, int) and count < 1:
        call.refuse(f"along {have} elements")
    moved = np.moveaxis(call.traced(x), at, -2)
    given: Any = moved[..., 0]
    if x.shape[-1] == 2:
        given = given, moved[..., 1]
    if onesided and inverse:
        pair = given if isinstance(given, tuple) else (given, np.zeros_like(given))
        found = np.expand_dims(fft.irfft(pair, count), -1)
    elif inverse:
        found = np.stack(fft.ifft(given, count), -1)
    elif onesided and not isinstance(given, tuple):
        found = np.stack(fft.rfft(given, count), -1)
    else:
        found = np.stack(fft.fft(given, count), -1)
        if onesided:
            found = found[..., : count // 2 + 1, :]
    return np.moveaxis(found, -2, at)


def stft(call: Call, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """Transforms of frames of x (n, length, 1 or 2), each times the window."""
    hop = call.integer(step, "frame_step")
    size = window.shape[0] if length is None else call.integer(length, "frame_length")
    total = x.shape[1] if x.ndim > 1 else 0
    if not isinstance(total, int) or not isinstance(hop, int) or hop < 1 or total < size:
        call.refuse(f"frames of {size} every {hop} of {total}")
    count = (total - size) // hop + 1
    if count * size > SMALL * 16:
        call.refuse(f"{count} frames of {size}")
    places = hop * np.arange(count)[:, None] + np.arange(size)
    frames = np.take(x, places, 1)  # (n, frames, size, parts)
    if frames.ndim == 3:
        frames = np.expand_dims(frames, -1)
    if window is not None:
        frames = frames * np.reshape(window, (-1, 1))
    attributes = {"onesided": call.get("onesided", 1)}
    inner = Call("DFT", "", call.name, attributes, (), ())
    inner.trace, inner.version = call.trace, 20
    return dft(inner, frames, None, np.array(2))


def window(a0: float, a1: float, a2: float) -> Callable[..., Any]:
    """a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n)."""

    def operator(call: Call, size: Any) -> Any:
        count = call.integer(size, "size")
        if not isinstance(count, int) or not 0 <= count <= SMALL:
            call.refuse(f"of {count} places")
        over = count if call.get("periodic", 1) else count - 1
        turn = 2 * np.pi * np.arange(count) / max(over, 1)
        found = a0 - a1 * np.cos(turn) + a2 * np.cos(2 * turn)
        return found.astype(dtype_of(call, call.get("output_datatype", 1)))

    return operator


LONGEST = 4096  # bins and places


def mel_weights(call: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """The matrix that sums a spectrum into mel bins."""
    count, size = call.integer(bins, "num_mel_bins"), call.integer(length, "dft_length")
    samples = call.integer(rate, "sample_rate")
    if not 0 < count <= LONGEST or not 0 < size <= LONGEST or samples < 1:
        call.refuse(f"{count} bins of {size} places")
    edges = [call.one_float(one, "edge") for one in (low, high)]
    mel = 2595 * np.log10(1 + np.array(edges) / 700)
    points = mel[0] + np.arange(count + 2) * (mel[1] - mel[0]) / (count + 2)
    hertz = 700 * (10 ** (points / 2595) - 1)
    at = ((size + 1) * hertz // samples).astype(np.int64)
    found = np.zeros((size // 2 + 1, count))
    for one in range(count):
        first, middle, last = at[one : one + 3]
        if middle == first:
            found[middle, one] = 1
        else:
            found[first : middle + 1, one] = (np.arange(first, middle + 1) - first) / (
                middle - first
            )
        if last != middle:
            found[middle:last, one] = (last - np.arange(middle, last)) / (last - middle)
    return found.astype(dtype_of(call, call.get("output_datatype", 1)))


SIGNALS: dict[str, Callable[..., Any]] = {
    "BlackmanWindow": window(0.42, 0.5, 0.08),
    "DFT": dft,
    "HammingWindow": window(25 / 46, 21 / 46, 0.0),
    "HannWindow": window(0.5, 0.5, 0.0),
    "MelWeightMatrix": mel_weights,
    "STFT": stft,
}
