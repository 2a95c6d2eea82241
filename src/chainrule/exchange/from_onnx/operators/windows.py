"""ONNX's convolutions and pooling, over any number of axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import SMALL, Call
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size
from chainrule.nn import convolution
from chainrule.numpy.windows import padded, windows

Widths = tuple[tuple[Any, Any], ...]


class Places:
    """The attributes that convolutions and pools share: window, strides, dilations, padding."""

    def __init__(self, call: Call, x: Any, window: Any = None) -> None:
        self.call, self.axes = call, x.ndim - 2
        self.lengths = tuple(x.shape[2:])
        given = call.get("kernel_shape") if window is None else window
        self.window = self._counts(given, None)
        self.strides = self._counts(call.get("strides"), 1)
        self.dilations = self._counts(call.get("dilations"), 1)
        self.spans = tuple(
            d * (w - 1) + 1 for w, d in zip(self.window, self.dilations, strict=True)
        )
        self.widths = self._widths()

    def _counts(self, given: Any, default: Any) -> tuple[int, ...]:
        found = tuple(given) if given is not None else (default,) * self.axes
        if len(found) != self.axes or not all(isinstance(n, int) and n > 0 for n in found):
            self.call.refuse(f"{self.axes} axes with windows, strides or dilations {given}")
        return found

    def _widths(self) -> Widths:
        kind = self.call.get("auto_pad", "NOTSET")
        if kind in ("NOTSET", ""):
            pads = self.call.get("pads") or (0,) * 2 * self.axes
            if len(pads) != 2 * self.axes:
                self.call.refuse(f"pads {pads} of {self.axes} axes")
            return tuple(zip(pads[: self.axes], pads[self.axes :], strict=True))
        if kind == "VALID":
            return ((0, 0),) * self.axes
        found = []
        for length, span, step in zip(self.lengths, self.spans, self.strides, strict=True):
            if isinstance(length, Size) and step != 1:
                self.call.refuse(f"auto_pad {kind} of the size {length} with stride {step}")
            more = (
                span - 1 if step == 1 else max((-(-length // step) - 1) * step + span - length, 0)
            )
            small = more // 2
            found.append((small, more - small) if kind == "SAME_UPPER" else (more - small, small))
        return tuple(found)

    def with_ceiling(self) -> Widths:
        """The padding with what `ceil_mode` adds at the ends."""
        if not self.call.get("ceil_mode", 0):
            return self.widths
        found = []
        for length, (before, after), span, step in zip(
            self.lengths, self.widths, self.spans, self.strides, strict=True
        ):
            if isinstance(length, Size):
                self.call.refuse(f"ceil_mode of the size {length}")
            room = length + before + after - span
            count = -(-room // step) + 1
            if (count - 1) * step >= length + before:  # a window that begins in the padding
                count -= 1
            found.append((before, max((count - 1) * step + span - length - before, after)))
        return tuple(found)


def conv(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    places = Places(call, x, tuple(weight.shape[2:]))
    groups = call.get("group", 1)
    whole = padded(x, places.widths)
    if places.axes <= 2:
        function = convolution.conv1d if places.axes == 1 else convolution.conv2d
        return function(whole, weight, bias, places.strides, 0, places.dilations, groups)
    return convolve(whole, weight, bias, places, groups)


def convolve(whole: Any, weight: Any, bias: Any, places: Places, groups: int) -> Any:
    """The product of all windows with the weights, group by group."""
    axes = places.axes
    seen = windows(whole, places.window, places.strides, places.dilations, "Conv")
    n, channels, *rest = seen.shape
    out = weight.shape[0]
    seen = np.reshape(seen, (n, groups, channels // groups, *rest))
    weight = np.reshape(weight, (groups, out // groups, *weight.shape[1:]))
    p, w = "pqrst"[:axes], "uvxyz"[:axes]
    found = np.einsum(f"ngc{p}{w},goc{w}->ngo{p}", seen, weight)
    found = np.reshape(found, (n, out, *rest[:axes]))
    return found if bias is None else found + np.reshape(bias, (-1, *(1,) * axes))


def conv_transpose(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    """The adjoint of a convolution: zeros between the elements, and the weights turned around."""
    axes, groups = x.ndim - 2, call.get("group", 1)
    window = tuple(weight.shape[2:])
    strides = call.get("strides") or (1,) * axes
    dilations = call.get("dilations") or (1,) * axes
    extra = call.get("output_padding") or (0,) * axes
    spans = tuple(d * (w - 1) + 1 for w, d in zip(window, dilations, strict=True))
    lengths = x.shape[2:]
    full = [(n - 1) * s + k for n, s, k in zip(lengths, strides, spans, strict=True)]
    pads = call.get("pads") or (0,) * 2 * axes
    before, after = list(pads[:axes]), list(pads[axes:])
    shape, kind = call.get("output_shape"), call.get("auto_pad", "NOTSET")
    if shape or kind.startswith("SAME"):
        wanted = shape[-axes:] if shape else [n * s for n, s in zip(lengths, strides, strict=True)]
        for i in range(axes):
            total = full[i] + extra[i] - wanted[i]
            half = total // 2
            if kind == "SAME_UPPER":
                before[i], after[i] = half, total - half
            elif kind == "SAME_LOWER":
                before[i], after[i] = total - half, half
            else:  # what is missing is at the end
                after[i] = total - before[i]
    spread = x
    for i in range(axes):
        spread = _spread(spread, i + 2, strides[i])
    widths = [
        (k - 1 - b, k - 1 - a + e) for k, b, a, e in zip(spans, before, after, extra, strict=True)
    ]
    out = weight.shape[1]
    turned = np.flip(weight, tuple(range(2, axes + 2)))
    turned = np.reshape(turned, (groups, weight.shape[0] // groups, out, *window))
    turned = np.reshape(np.swapaxes(turned, 1, 2), (groups * out, -1, *window))
    plain = Call("Conv", "", call.name, {"dilations": dilations, "group": groups}, (), ())
    plain.trace = call.trace
    cut = tuple(slice(max(-a, 0), None if b >= 0 else b) for a, b in widths)
    spread = spread[(slice(None), slice(None), *cut)]
    whole = padded(spread, tuple((max(a, 0), max(b, 0)) for a, b in widths))
    return conv(plain, whole, turned, bias)


def _spread(x: Any, axis: int, step: int) -> Any:
    """x with step - 1 zeros between its elements along an axis."""
    if step == 1:
        return x
    widths = [(0, 0)] * (x.ndim + 1)
    widths[axis + 1] = (0, step - 1)
    shape = list(x.shape)
    shape[axis] = shape[axis] * step
    wide = np.reshape(np.pad(np.expand_dims(x, axis + 1), widths), tuple(shape))
    place = [slice(None)] * x.ndim
    place[axis] = slice(0, 1 - step)
    return wide[tuple(place)]


def _seen(call: Call, x: Any, fill: Any) -> tuple[Any, Places, Widths]:
    places = Places(call, x)
    widths = places.with_ceiling()
    whole = x
    if any(before or after for before, after in widths):
        around = ((0, 0), (0, 0), *widths)
        whole = np.pad(x, around, constant_values=np.asarray(fill, x.dtype)[()])
    seen = windows(whole, places.window, places.strides, places.dilations, call.operator)
    return seen, places, widths


def _last(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))


def max_pool(call: Call, x: Any) -> Any:
    """The largest of each window; where asked for, its position in the flattened operand."""
    lowest = -np.inf if dtype_kind(x.dtype) == "f" else np.iinfo(x.dtype).min
    seen, places, _ = _seen(call, x, lowest)
    largest = np.max(seen, axis=_last(places.axes))
    if len(call.outputs) < 2 or not call.outputs[1]:
        return largest
    if not all(isinstance(one, int) for one in x.shape):
        call.refuse(f"positions in the shape {x.shape}")
    numbers = np.reshape(call.positions(math.prod(x.shape)), x.shape)
    if call.get("storage_order", 0):
        n, c, *rest = x.shape
        numbers = np.reshape(numbers, (n, c, *rest[::-1]))
        numbers = np.transpose(numbers, (0, 1, *range(x.ndim - 1, 1, -1)))
    at, _, _ = _seen(call, numbers, -1)
    flat = (*largest.shape, -1)
    first = np.argmax(np.reshape(seen, flat), -1)
    found = np.take_along_axis(np.reshape(at, flat), np.expand_dims(first, -1), -1)
    return largest, np.squeeze(found, -1)


def average_pool(call: Call, x: Any) -> Any:
    seen, places, widths = _seen(call, x, 0)
    given = places.widths if call.get("count_include_pad", 0) else ((0, 0),) * places.axes
    total = np.sum(seen, axis=_last(places.axes))
    if given == widths:
        return total / math.prod(places.window)
    ones = np.ones_like(padded(x[:1, :1], given))
    rest = tuple((a - c, b - d) for (a, b), (c, d) in zip(widths, given, strict=True))
    counted = windows(padded(ones, rest), places.window, places.strides, places.dilations, "")
    return total / np.sum(counted, axis=_last(places.axes))


def lp_pool(call: Call, x: Any) -> Any:
    p = call.get("p", 2)
    seen, places, _ = _seen(call, x, 0)
    return np.sum(np.absolute(seen) ** p, axis=_last(places.axes)) ** (1 / p)


def over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, x: function(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def global_lp_pool(call: Call, x: Any) -> Any:
    p, axes = call.get("p", 2), tuple(range(2, x.ndim))
    return np.sum(np.absolute(x) ** p, axis=axes, keepdims=True) ** (1 / p)


def max_unpool(call: Call, x: Any, places: Any, shape: Any = None) -> Any:
    """The elements at their places in zeros."""
    window = call.get("kernel_shape")
    axes = len(window)
    strides = call.get("strides") or (1,) * axes
    pads = call.get("pads") or (0,) * 2 * axes
    inner = [
        (n - 1) * s + w - a - b
        for n, s, w, a, b in zip(
            x.shape[2:], strides, window, pads[:axes], pads[axes:], strict=True
        )
    ]
    natural = (*x.shape[:2], *inner)
    result = natural if shape is None else call.integers(shape, "output_shape")
    if all(isinstance(n, int) for n in natural) and math.prod(natural) > SMALL * 16:
        call.refuse(f"into the shape {natural}")
    zeros = np.zeros_like(x, shape=(math.prod(result),))
    places = np.reshape(places, (-1,))
    if tuple(result) != tuple(natural) and all(isinstance(n, int) for n in natural):
        corners = np.unravel_index(np.arange(math.prod(natural)), natural)
        table = (
            np.ravel_multi_index(corners, result)
            if all(a >= b for a, b in zip(result, natural, strict=True))
            else np.arange(math.prod(natural))
        )
        places = np.take(call.traced(table), places)
    filled = call.traced(zeros).at[places].set(np.reshape(x, (-1,)))
    return np.reshape(filled, tuple(result))


def col2im(call: Call, x: Any, image: Any, block: Any) -> Any:
    """Adds columns of blocks up into an image: the adjoint of cutting it into windows."""
    lengths = call.integers(image, "image_shape")
    window = call.integers(block, "block_shape")
    axes = len(lengths)
    strides = call.get("strides") or (1,) * axes
    dilations = call.get("dilations") or (1,) * axes
    pads = call.get("pads") or (0,) * 2 * axes
    whole = [n + a + b for n, a, b in zip(lengths, pads[:axes], pads[axes:], strict=True)]
    counts = [
        (n - d * (w - 1) - 1) // s + 1
        for n, w, s, d in zip(whole, window, strides, dilations, strict=True)
    ]
    n, channels = x.shape[0], x.shape[1] // math.prod(window)
    columns = np.reshape(x, (n, channels, math.prod(window), math.prod(counts)))
    numbers = np.reshape(call.positions(math.prod(whole)), tuple(whole))
    seen = windows(numbers, tuple(window), tuple(strides), tuple(dilations), "Col2Im")
    index = np.reshape(seen, (math.prod(counts), math.prod(window))).T
    zeros = np.zeros_like(x, shape=(n, channels, math.prod(whole)))
    filled = call.traced(zeros).at[:, :, index].add(columns)
    filled = np.reshape(filled, (n, channels, *whole))
    inner = tuple(slice(a, a + k) for a, k in zip(pads[:axes], lengths, strict=True))
    return filled[(slice(None), slice(None), *inner)]


WINDOWS: dict[str, Callable[..., Any]] = {
    "AveragePool": average_pool,
    "Col2Im": col2im,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": over_all(np.mean),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": over_all(np.max),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
