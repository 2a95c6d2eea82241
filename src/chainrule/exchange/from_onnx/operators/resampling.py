"""ONNX's Resize and GridSample: weighted sums of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import SMALL, Call
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.statistics import size_value

MOST_WEIGHTS = 1 << 25  # of the matrix that resamples an axis


def resize(call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """To given sizes or by given scales: nearest, linear or cubic, one axis after another."""
    if call.version < 11:  # Resize-10 and Upsample: (x, scales)
        scales, roi = roi, None
    if not all(isinstance(n, int) for n in x.shape) and (sizes is not None):
        known = [n for n in x.shape if isinstance(n, int)]
        if len(known) < x.ndim - 1:
            call.refuse(f"to given sizes from the shape {x.shape}")
    axes = [call.axis(one, x.ndim) for one in call.get("axes") or range(x.ndim)]
    given = call.known(scales, "scales") if scales is not None and scales.size else None
    wanted = call.integers(sizes, "sizes") if sizes is not None and sizes.size else None
    window = None
    if call.get("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        window = call.known(roi, "roi").ravel().tolist()
    factors, lengths = _targets(call, x, axes, given, wanted)
    for place, axis in enumerate(axes):
        start, end = (0.0, 1.0)
        if window is not None:
            start, end = window[place], window[place + len(axes)]
        same = lengths[place] is x.shape[axis] or (
            isinstance(lengths[place], int) and lengths[place] == x.shape[axis]
        )
        if same and factors[place] == 1 and window is None:
            continue
        x = _along(call, x, axis, factors[place], lengths[place], start, end)
    return x


def _targets(
    call: Call, x: Any, axes: list[int], scales: Any, sizes: Any
) -> tuple[list[float], list[Any]]:
    """For each axis its scale and its new length."""
    if sizes is None:
        if scales is None:
            call.refuse("it has neither scales nor sizes")
        factors = [float(one) for one in np.asarray(scales).ravel()]
        if any(not 0 < one < 1 << 20 for one in factors):
            call.refuse(f"by the scales {factors}")
        lengths = []
        for axis, factor in zip(axes, factors, strict=True):
            length = x.shape[axis]
            if isinstance(length, Size):
                if factor != int(factor):
                    hint = "give it a number: cr.from_onnx(path, sizes={...})"
                    call.refuse(f"the size {length} by {factor}, which is no integer", hint)
                lengths.append(length * int(factor))
            else:
                lengths.append(math.floor(length * factor))
        return factors, lengths
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    lengths = list(sizes)
    if policy != "stretch":
        ratios = [n / x.shape[axis] for n, axis in zip(sizes, axes, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        lengths = [int(ratio * x.shape[axis] + 0.5) for axis in axes]
        return [ratio] * len(axes), lengths
    factors = []
    for n, axis in zip(lengths, axes, strict=True):
        factors.append(1.0 if n is x.shape[axis] or n == x.shape[axis] else n / x.shape[axis])
    return factors, lengths


def _along(
    call: Call, x: Any, axis: int, scale: float, length: int, start: float, end: float
) -> Any:
    old = x.shape[axis]
    if isinstance(old, Size) and not isinstance(length, int):
        return _along_size(call, x, axis, int(scale), length)
    if not isinstance(old, int) or length > SMALL or length < 1:
        hint = "give its size a number: cr.from_onnx(path, sizes={...})"
        call.refuse(f"axis {axis} from {old} to {length}", hint)
    places = _coordinates(call, np.arange(length), scale, length, old, start, end)
    mode = call.get("mode", "nearest")
    if mode != "nearest" and length * old > MOST_WEIGHTS:
        call.refuse(f"axis {axis} from {old} to {length}, by a matrix")
    outside = (places < 0) | (places > old - 1)
    if mode == "nearest":
        index = np.clip(_nearest(call, places), 0, old - 1).astype(np.int64)
        found = np.take(x, index, axis)
    else:
        index, weights = _neighbours(call, mode, places, scale, old)
        matrix = np.zeros((length, old))
        for one in range(index.shape[1]):
            np.add.at(matrix, (np.arange(length), index[:, one]), weights[:, one])
        moved = np.moveaxis(x, axis, -1) @ np.asarray(matrix.T, x.dtype)
        found = np.moveaxis(moved, -1, axis)
    if call.get("coordinate_transformation_mode", "") == "tf_crop_and_resize" and outside.any():
        fits = tuple(-1 if one == axis else 1 for one in range(x.ndim))
        fill = np.asarray(call.get("extrapolation_value", 0.0), x.dtype)
        found = np.where(np.reshape(outside, fits), fill, found)
    return found


def _along_size(call: Call, x: Any, axis: int, factor: int, length: Any) -> Any:
    """An axis whose length is a named size, made longer by an integer factor."""
    mode, way = call.get("mode", "nearest"), _way(call)
    offsets = {"half_pixel": 0.5, "pytorch_half_pixel": 0.5, "half_pixel_symmetric": 0.5}
    offsets["asymmetric"] = 0.0
    if way not in offsets or mode not in ("nearest", "linear") or call.get("exclude_outside", 0):
        hint = "give it a number: cr.from_onnx(path, sizes={...})"
        call.refuse(f"the size {x.shape[axis]} in mode {mode!r} and {way!r}", hint)
    ones = np.broadcast_to(call.traced(np.array(1.0)), (length,))
    at = np.cumsum(ones) - 1 + offsets[way]
    places = at / factor - offsets[way]
    last = size_value(x.shape[axis], x) - 1
    if mode == "nearest":
        index = np.clip(_nearest(call, places), 0.0, last)
        return np.take(x, index.astype(np.int64), axis)
    below = np.floor(places)
    fits = tuple(-1 if one == axis else 1 for one in range(x.ndim))
    weight = np.reshape((places - below).astype(x.dtype), fits)
    low, high = (np.clip(one, 0.0, last).astype(np.int64) for one in (below, below + 1))
    return np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight


def _way(call: Call) -> str:
    """How coordinates are transformed, which has another default in old versions."""
    default = "half_pixel" if call.version >= 11 and call.operator == "Resize" else "asymmetric"
    return call.get("coordinate_transformation_mode", default)


def _coordinates(
    call: Call, at: np.ndarray, scale: float, length: int, old: int, start: float, end: float
) -> np.ndarray:
    """Where each new element lies among the old ones."""
    mode = _way(call)
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return at / scale
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if length > 1 else np.zeros_like(at, dtype=float)
    if mode == "align_corners":
        exact = scale * old
        return np.zeros(len(at)) if exact == 1 else at * (old - 1) / (exact - 1)
    if mode == "half_pixel_symmetric":
        adjustment = length / (scale * old)
        centre = old / 2
        return centre * (1 - adjustment) + (at + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        if length > 1:
            return start * (old - 1) + at * (end - start) * (old - 1) / (length - 1)
        return np.full(len(at), 0.5 * (start + end) * (old - 1))
    call.refuse(f"coordinate_transformation_mode {mode!r}")


def _nearest(call: Call, places: np.ndarray) -> np.ndarray:
    mode = call.get("nearest_mode", "round_prefer_floor" if call.version >= 11 else "floor")
    rounding = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if mode not in rounding:
        call.refuse(f"nearest_mode {mode!r}")
    return rounding[mode](places)


def _neighbours(
    call: Call, mode: str, places: np.ndarray, scale: float, old: int
) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the old elements that each new one is a sum of, and their weights."""
    if mode not in ("linear", "cubic"):
        call.refuse(f"mode {mode!r}")
    wide = 1 if mode == "linear" else 2
    shrink = min(scale, 1.0) if call.get("antialias", 0) else 1.0
    reach = math.ceil(wide / shrink)
    if reach > 1 << 10:
        call.refuse(f"by the scale {scale}")
    base = np.floor(places).astype(np.int64)
    index = base[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.absolute(index - places[:, None]) * shrink
    if mode == "linear":
        weights = np.maximum(1 - distance, 0)
    else:
        weights = _cubic(distance, call.get("cubic_coeff_a", -0.75))
    inside = (index >= 0) & (index < old)
    if call.get("exclude_outside", 0):
        weights = np.where(inside, weights, 0)
    if call.get("exclude_outside", 0) or call.get("antialias", 0):
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, old - 1), weights


def _cubic(x: Any, a: float) -> Any:
    """Keys' kernel (Cubic convolution interpolation for digital image processing, 1981)."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def upsample(call: Call, x: Any, scales: Any = None) -> Any:
    factors = np.array(call.get("scales")) if scales is None else scales
    return resize(call, x, factors)


def grid_sample(call: Call, x: Any, grid: Any) -> Any:
    """Samples x (n, c, ...) at positions between -1 and 1, the last axis of the grid."""
    axes = x.ndim - 2
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        call.get("mode", "linear"), call.get("mode", "linear")
    )
    outside, corners = call.get("padding_mode", "zeros"), call.get("align_corners", 0)
    lengths = x.shape[2:]
    if not all(isinstance(n, int) for n in lengths):
        call.refuse(f"an image of {lengths}")
    if mode not in ("linear", "nearest", "cubic") or outside not in (
        "zeros",
        "border",
        "reflection",
    ):
        call.refuse(f"mode {mode!r} with padding_mode {outside!r}")
    places = []
    for one, length in enumerate(reversed(lengths)):
        at = grid[..., one]
        at = (at + 1) / 2 * (length - 1) if corners else ((at + 1) * length - 1) / 2
        if mode != "cubic":
            at = _brought_in(at, length, outside, corners)
        places.insert(0, at)
    neighbours = []
    for at in places:
        if mode == "nearest":
            neighbours.append([(np.rint(at), None)])
            continue
        base = np.floor(at)
        reach = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        each = []
        for step in reach:
            distance = np.absolute(at - (base + step))
            weight = 1 - distance if mode == "linear" else _cubic(distance, -0.75)
            each.append((base + step, weight))
        neighbours.append(each)
    batch = np.reshape(call.positions(x.shape[0]), (-1, *(1,) * axes))
    rows = np.moveaxis(x, 1, -1)  # (n, ..., c)
    total: Any = None
    for corner in itertools.product(*neighbours):
        index: list[Any] = []
        weight: Any = None
        for (at, own), length in zip(corner, lengths, strict=True):
            if mode == "cubic":
                at = _brought_in(at, length, outside, corners)
            if outside == "zeros":
                inside = ((at >= 0) & (at <= length - 1)).astype(x.dtype)
                weight = inside if weight is None else weight * inside
            if own is not None:
                weight = own if weight is None else weight * own
            index.append(np.clip(at, 0, length - 1).astype(np.int64))
        part = rows[(batch, *index)]
        part = part if weight is None else part * np.expand_dims(weight, -1)
        total = part if total is None else total + part
    return np.moveaxis(total, -1, 1).astype(x.dtype)


def _brought_in(at: Any, length: int, outside: str, corners: int) -> Any:
    if outside == "border":
        return np.clip(at, 0, length - 1)
    if outside != "reflection":
        return at
    low, high = (0.0, length - 1.0) if corners else (-0.5, length - 0.5)
    wide = high - low
    if wide == 0:
        return at * 0
    folded = np.mod(np.absolute(at - low), 2 * wide)
    back = low + np.where(folded > wide, 2 * wide - folded, folded)
    return np.clip(back, 0, length - 1)


RESAMPLING: dict[str, Callable[..., Any]] = {
    "GridSample": grid_sample,
    "Resize": resize,
    "Upsample": upsample,
}
