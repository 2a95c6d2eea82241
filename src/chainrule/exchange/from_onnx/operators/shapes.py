"""ONNX's operators on shapes: they move, cut and join, and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.exchange.from_onnx.call import SMALL, Call, has_sizes, sized
from chainrule.exchange.from_onnx.types import dtype_of
from chainrule.graph.sizes.sizes import Size, divide_exactly, product


def reshape(call: Call, x: Any, shape: Any) -> Any:
    """0 stands for the size at the same place, -1 for what is left."""
    wanted = list(call.integers(shape, "shape"))
    if not call.get("allowzero", 0):
        for place, one in enumerate(wanted):
            if isinstance(one, int) and one == 0:
                if place >= x.ndim:
                    call.refuse(f"the shape {wanted} keeps axis {place} of {x.ndim}")
                wanted[place] = x.shape[place]
    return np.reshape(x, tuple(wanted))


def transpose(call: Call, x: Any) -> Any:
    return np.transpose(x, call.get("perm"))


def _axes(call: Call, axes: Any) -> tuple[Any, ...] | None:
    return call.get("axes") if axes is None else call.integers(axes, "axes")


def squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    given = _axes(call, axes)
    return np.squeeze(x, None if given is None else tuple(given))


def unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    return np.expand_dims(x, tuple(_axes(call, axes) or ()))


def flatten(call: Call, x: Any) -> Any:
    axis = call.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return np.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


def concat(call: Call, *parts: Any) -> Any:
    if any(map(has_sizes, parts)):
        parts = tuple(np.asarray(one, object) for one in parts)
    return np.concatenate(parts, call.axis(call.get("axis", 1), parts[0].ndim))


def split(call: Call, x: Any, lengths: Any = None) -> Any:
    """In parts of given lengths, or in as many equal parts as there are outputs (the last one may
    be shorter)."""
    axis = call.axis(call.get("axis", 0), x.ndim)
    given = call.get("split") if lengths is None else call.integers(lengths, "split")
    length, count = x.shape[axis], len(call.outputs)
    if given is None:
        if call.get("num_outputs", count) != count:
            call.refuse(f"{count} outputs of {call.get('num_outputs')} parts")
        if isinstance(length, Size):
            each = divide_exactly(length, count)
            if each is None:
                call.refuse(f"axis {axis} of the size {length} into {count} parts")
            given = (each,) * count
        else:
            each = -(-length // count)
            given = [each] * (count - 1) + [length - each * (count - 1)]
    is_known = all(isinstance(one, int) for one in (*given, length))
    if len(given) != count or (is_known and (min(given) < 0 or sum(given) != length)):
        call.refuse(f"{length} elements in {count} parts of the lengths {list(given)[:9]}")
    start, parts = 0, []
    for one in given:
        place = [slice(None)] * x.ndim
        place[axis] = slice(start, start + one)
        parts.append(x[tuple(place)])
        start = start + one
    return tuple(parts)


def slice_(call: Call, x: Any, *given: Any) -> Any:
    """x[start:end:step] along some axes; before version 10 these are attributes."""
    if given:
        starts, ends = call.integers(given[0], "starts"), call.integers(given[1], "ends")
        rest = [None if one is None else call.integers(one, "axes") for one in given[2:]]
        axes, steps = (*rest, None, None)[:2]
    else:
        starts, ends, axes, steps = call.get("starts"), call.get("ends"), call.get("axes"), None
    axes = range(len(starts)) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    place = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place[call.axis(axis, x.ndim)] = _bounds(start, end, step)
    return x[tuple(place)]


def _bounds(start: Any, end: Any, step: Any) -> slice:
    """Numbers beyond the ends, such as the largest integer, stand for the ends."""
    far = 1 << 30
    if isinstance(end, int) and (end >= far or end <= -far):
        end = None
    if isinstance(start, int):
        if start >= far:
            start = None if step < 0 else start
        elif start <= -far:
            start = None if step > 0 else start
    return slice(start, end, step)


def expand(call: Call, x: Any, shape: Any) -> Any:
    """As broadcasting does; 1 leaves an axis as it is."""
    wanted = call.integers(shape, "shape")
    ndim = max(len(wanted), x.ndim)
    have = (1,) * (ndim - x.ndim) + tuple(x.shape)
    wanted = (1,) * (ndim - len(wanted)) + wanted
    result = tuple(
        a if isinstance(b, int) and b == 1 else b for a, b in zip(have, wanted, strict=True)
    )
    small = all(isinstance(one, int) for one in result) and math.prod(result) <= SMALL
    return np.broadcast_to(x if small or has_sizes(x) else call.traced(x), result)


def tile(call: Call, x: Any, repeats: Any) -> Any:
    counts = call.integers(repeats, "repeats")
    if isinstance(x, np.ndarray) and x.size * math.prod(counts) > SMALL:
        x = call.traced(x)
    return np.tile(x, counts)


def shape(call: Call, x: Any) -> Any:
    return sized(x.shape[slice(call.get("start"), call.get("end"))])


def size(call: Call, x: Any) -> Any:
    return sized([product(x.shape)])[0]


def constant(call: Call) -> Any:
    for name in ("value", "sparse_value"):
        if call.get(name) is not None:
            return call.get(name)
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        for key in (name, f"{name}s"):
            if call.get(key) is not None:
                return np.array(call.get(key), dtype)
    call.refuse("its value is text, which no array of numbers is")


def constant_of_shape(call: Call, shape: Any) -> Any:
    value = call.get("value", np.zeros(1, np.float32))
    return call.filled(call.integers(shape, "shape"), value.ravel()[0])


def range_(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    """Of known numbers; of sizes with a step of one."""
    first, last, step = (call.known(one, "bounds").ravel()[0] for one in (start, limit, delta))
    if isinstance(last, Size) or isinstance(first, Size):
        if step != 1:
            call.refuse(f"from {first} to {last} in steps of {step}")
        one = np.broadcast_to(call.traced(np.array(1, np.int64)), (last - first,))
        return np.cumsum(one) - 1 + (call.traced(start) if isinstance(first, Size) else first)
    count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
    if count <= SMALL:
        dtype = start.dtype
        return (first + np.arange(count).astype(dtype) * step).astype(dtype)
    places = np.cumsum(np.broadcast_to(call.traced(np.array(1, np.int64)), (count,))) - 1
    return (places.astype(start.dtype) * step + first).astype(start.dtype)


def eye_like(call: Call, x: Any) -> Any:
    dtype = dtype_of(call, call.get("dtype")) if call.get("dtype") else x.dtype
    rows, columns = x.shape
    if not all(isinstance(one, int) for one in x.shape) or rows * columns > SMALL * 16:
        call.refuse(f"of the shape {x.shape}")
    return np.eye(rows, columns, call.get("k", 0), dtype)


def triangle(call: Call, x: Any, diagonal: Any = None) -> Any:
    k = 0 if diagonal is None else call.integer(diagonal, "diagonal")
    return (np.triu if call.get("upper", 1) else np.tril)(x, max(min(k, 1 << 31), -(1 << 31)))


def depth_to_space(call: Call, x: Any) -> Any:
    block, (n, c, h, w) = call.get("blocksize"), x.shape
    inside = c // (block * block)
    if call.get("mode", "DCR") == "DCR":
        x = np.transpose(np.reshape(x, (n, block, block, inside, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = np.transpose(np.reshape(x, (n, inside, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return np.reshape(x, (n, inside, h * block, w * block))


def space_to_depth(call: Call, x: Any) -> Any:
    block, (n, c, h, w) = call.get("blocksize"), x.shape
    x = np.reshape(x, (n, c, h // block, block, w // block, block))
    deepest = call.get("mode", "DCR") == "DCR"
    x = np.transpose(x, (0, 3, 5, 1, 2, 4) if deepest else (0, 1, 3, 5, 2, 4))
    return np.reshape(x, (n, c * block * block, h // block, w // block))


def pad(call: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    """Negative widths cut off."""
    given = call.get("pads") if pads is None else call.integers(pads, "pads")
    over = range(x.ndim) if axes is None else call.integers(axes, "axes")
    over = [call.axis(one, x.ndim) for one in over]
    widths: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
    for place, axis in enumerate(over):
        widths[axis] = given[place], given[place + len(over)]
    cut = tuple(
        slice(
            max(-before, 0) if isinstance(before, int) else 0,
            None if not isinstance(after, int) or after >= 0 else after,
        )
        for before, after in widths
    )
    if any(one != slice(0, None) for one in cut):
        x = x[cut]
    widths = [(_at_least_0(before), _at_least_0(after)) for before, after in widths]
    mode = call.get("mode", "constant")
    if all(isinstance(one, int) and one == 0 for two in widths for one in two):
        return x
    lengths = [n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)]
    if isinstance(x, np.ndarray) and all(isinstance(n, int) for n in lengths):
        x = call.traced(x) if math.prod(lengths) > SMALL else x
    if mode == "constant":
        fill = call.get("value", 0.0) if value is None else call.known(value, "value").ravel()[0]
        return np.pad(x, widths, constant_values=np.asarray(fill, x.dtype)[()])
    if mode not in ("reflect", "edge", "wrap"):
        call.refuse(f"mode {mode!r}")
    return np.pad(x, widths, mode=mode)


def _at_least_0(width: Any) -> Any:
    return max(width, 0) if isinstance(width, int) else width


def center_crop_pad(call: Call, x: Any, shape: Any) -> Any:
    """Cuts or pads with zeros around the middle."""
    wanted = call.integers(shape, "shape")
    axes = call.get("axes") or range(x.ndim)
    for axis, target in zip([call.axis(one, x.ndim) for one in axes], wanted, strict=True):
        more = target - x.shape[axis]
        place: list[Any] = [slice(None)] * x.ndim
        widths = [(0, 0)] * x.ndim
        if more < 0:
            start = (-more) // 2
            place[axis] = slice(start, start + target)
        widths[axis] = (max(more, 0) // 2, max(more, 0) - max(more, 0) // 2)
        x = np.pad(x[tuple(place)], widths)
    return x


def reverse_sequence(call: Call, x: Any, lengths: Any) -> Any:
    """The first elements of each row, as many as `lengths` says, from the last to the first."""
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    count = x.shape[time]
    if isinstance(count, Size):
        call.refuse(f"along the size {count}")
    places = call.positions(count)
    turned = np.expand_dims(lengths, 1) - 1 - places
    index = np.where(turned >= 0, turned, places)  # (batch, time)
    index = index if batch < time else np.transpose(index)
    fits = [x.shape[one] if one in (time, batch) else 1 for one in range(x.ndim)]
    index = np.broadcast_to(np.reshape(index, tuple(fits)), x.shape)
    return np.take_along_axis(x, index, time)


SHAPES: dict[str, Callable[..., Any]] = {
    "CenterCropPad": center_crop_pad,
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "ReverseSequence": reverse_sequence,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": triangle,
    "Unsqueeze": unsqueeze,
}
