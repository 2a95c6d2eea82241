"""PyTorch's operators that move, join and part elements, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.exchange.pytorch.values import at_axis, numbers
from chainrule.graph.sizes.sizes import product
from chainrule.numpy.of_one_primitive import stop_gradient


def _reshape(x: Any, size: Any) -> Any:
    return np.reshape(x, tuple(size))


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = np.shape(x) or (1,)
    first, last = start_dim % len(shape), end_dim % len(shape)
    middle = product(shape[first : last + 1])
    return np.reshape(x, (*shape[:first], middle, *shape[last + 1 :]))


def _unflatten(x: Any, dim: int, sizes: Any) -> Any:
    dim %= np.ndim(x)
    return np.reshape(x, (*np.shape(x)[:dim], *sizes, *np.shape(x)[dim + 1 :]))


def _squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return np.squeeze(x)
    axes = [a for a in (dim if isinstance(dim, (list, tuple)) else [dim]) if np.ndim(x)]
    found = tuple(a % np.ndim(x) for a in axes if isinstance(np.shape(x)[a], int))
    found = tuple(a for a in found if np.shape(x)[a] == 1)
    return np.squeeze(x, found) if found else x


def _expand(x: Any, size: Any, *, implicit: bool = False) -> Any:
    own = (*(1,) * (len(size) - np.ndim(x)), *np.shape(x))
    pairs = zip(size, own, strict=True)
    return np.broadcast_to(x, tuple(o if isinstance(s, int) and s == -1 else s for s, o in pairs))


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    return np.roll(x, tuple(shifts) if dims else shifts[0], tuple(dims) or None)


def _split(x: Any, split_size: Any, dim: int = 0) -> Any:
    length = np.shape(x)[dim]
    if isinstance(split_size, (list, tuple)):
        ends = np.cumsum(split_size)[:-1].tolist()
    else:
        ends = range(split_size, length, split_size) if split_size else []
    return np.split(x, list(ends), dim)


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, max(-(-np.shape(x)[dim] // chunks), 1), dim)


def _unbind(x: Any, dim: int = 0) -> Any:
    return [x[at_axis(x, dim, place)] for place in range(np.shape(x)[dim])]


def _cat(tensors: Any, dim: int = 0) -> Any:
    parts = [one for one in tensors if np.shape(one) != (0,)] or list(tensors)
    return np.concatenate(parts, axis=dim)


def _permute(x: Any, dims: Any) -> Any:
    return np.transpose(x, tuple(dims))


def _swap(x: Any, dim0: int, dim1: int) -> Any:
    return np.swapaxes(x, dim0, dim1) if np.ndim(x) else x


def _movedim(x: Any, source: Any, destination: Any) -> Any:
    return np.moveaxis(x, source, destination)


def _repeat(x: Any, repeats: Any) -> Any:
    return np.tile(x, tuple(repeats))


def _repeat_interleave(x: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    return np.repeat(x, repeats, dim)


def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return np.diagonal(x, offset, dim1, dim2)


def _diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    below, beside = max(-offset, 0), max(offset, 0)
    length = np.shape(x)[-1]
    zero = np.zeros_like(x[..., None])
    square = np.where(np.eye(length, dtype=bool), x[..., None], zero)
    placed = np.pad(square, [*[(0, 0)] * (np.ndim(x) - 1), (below, beside), (beside, below)])
    return np.moveaxis(placed, (-2, -1), (dim1, dim2))


def _meshgrid(tensors: Any, *, indexing: Any = "ij") -> Any:
    return np.meshgrid(*tensors, indexing=indexing)


def _windows(x: Any, dimension: int, size: int, step: int) -> Any:
    """x.unfold: all windows of `size` elements along an axis, as a last axis."""
    if np.ndim(x) == 0:
        return np.reshape(x, (1,))[:size]
    starts = np.arange(0, np.shape(x)[dimension] - size + 1, step)
    moved = np.moveaxis(x, dimension, -1)[..., starts[:, None] + np.arange(size)]
    return np.moveaxis(moved, -2, dimension % np.ndim(x))


def _as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    places = np.full(tuple(size), storage_offset or 0)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        shape = [length if other == axis else 1 for other in range(len(size))]
        places = places + step * np.reshape(np.arange(length), shape)
    return np.ravel(x)[places]


# Padding ----------------------------------------------------------------------------------------

_MODES: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _cropped(x: Any, pairs: Any) -> Any:
    ends = zip(np.shape(x), pairs, strict=True)
    return x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in ends)]


def _pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Pairs from the last axis on; a negative number takes elements away."""
    pairs = [(0, 0)] * (np.ndim(x) - len(pad) // 2)
    pairs += list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    more = [(max(a, 0), max(b, 0)) for a, b in pairs]
    is_cropped = any(a < 0 or b < 0 for a, b in pairs)
    if mode == "circular":  # which wraps what is left
        return np.pad(_cropped(x, pairs) if is_cropped else x, more, "wrap")
    options = {"constant_values": value or 0} if mode == "constant" else {}
    padded = np.pad(x, more, _MODES[mode], **options)
    return _cropped(padded, pairs) if is_cropped else padded


def _padded(mode: str) -> Any:
    return lambda x, padding: _pad(x, padding, mode)


def _pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    factor = upscale_factor
    *outer, channels, height, width = np.shape(x)
    parts = np.reshape(x, (*outer, channels // factor**2, factor, factor, height, width))
    k = len(outer)
    moved = np.transpose(parts, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return np.reshape(moved, (*outer, channels // factor**2, height * factor, width * factor))


def _pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    factor = downscale_factor
    *outer, channels, height, width = np.shape(x)
    shape = (*outer, channels, height // factor, factor, width // factor, factor)
    k = len(outer)
    moved = np.transpose(np.reshape(x, shape), (*range(k + 1), k + 2, k + 4, k + 1, k + 3))
    return np.reshape(moved, (*outer, channels * factor**2, height // factor, width // factor))


def _im2col(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """nn.Unfold: the windows of images as columns."""
    (tall, wide), gaps, pads, steps = (
        numbers(value, 2) for value in (kernel_size, dilation, padding, stride)
    )
    batched = x if np.ndim(x) == 4 else x[None]
    padded = np.pad(batched, ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    height, width = np.shape(padded)[2:]
    rows = np.arange(0, height - gaps[0] * (tall - 1), steps[0])
    columns = np.arange(0, width - gaps[1] * (wide - 1), steps[1])
    down = np.arange(tall)[:, None, None, None] * gaps[0] + rows[:, None]
    across = np.arange(wide)[:, None, None] * gaps[1] + columns
    taken = padded[:, :, down, across]  # rows, channels, tall, wide, places down and across
    count = np.shape(batched)[1] * tall * wide
    found = np.reshape(taken, (np.shape(batched)[0], count, len(rows) * len(columns)))
    return found if np.ndim(x) == 4 else found[0]


def _copy(x: Any, src: Any, non_blocking: bool = False) -> Any:
    return np.broadcast_to(src, np.shape(x))


def _same(x: Any, **options: Any) -> Any:
    return x


def _cast(x: Any, *given: Any, dtype: Any = None, **options: Any) -> Any:
    """x.to(dtype), x.to(device, dtype), _to_copy(x, dtype=): what is no dtype says nothing."""
    found = next((one for one in given if isinstance(one, np.dtype)), dtype)
    return x if found is None else x.astype(found)


SHAPES: dict[str, Any] = {
    **dict.fromkeys(("reshape", "view", "_unsafe_view", "view_copy"), _reshape),
    **dict.fromkeys(("permute", "permute_copy"), _permute),
    **dict.fromkeys(("transpose", "transpose_copy", "swapaxes", "swapdims"), _swap),
    **dict.fromkeys(("t", "t_copy", "numpy_T"), lambda x: np.transpose(x)),
    **dict.fromkeys(("expand", "expand_copy"), _expand),
    **dict.fromkeys(("squeeze", "squeeze_copy"), _squeeze),
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), lambda x, dim: np.expand_dims(x, dim)),
    **dict.fromkeys(("split", "split_with_sizes", "split_copy", "unsafe_split"), _split),
    **dict.fromkeys(("split_with_sizes_copy", "unsafe_split_with_sizes"), _split),
    **dict.fromkeys(("unbind", "unbind_copy"), _unbind),
    **dict.fromkeys(("diagonal", "diagonal_copy"), _diagonal),
    **dict.fromkeys(("unfold", "unfold_copy"), _windows),
    **dict.fromkeys(("as_strided", "as_strided_copy"), _as_strided),
    **dict.fromkeys(
        (
            *("alias", "alias_copy", "clone", "contiguous", "lift", "lift_fresh"),
            *("lift_fresh_copy", "resolve_conj", "resolve_neg", "conj", "conj_physical", "real"),
        ),
        _same,
    ),
    **dict.fromkeys(("_to_copy", "to", "type_as"), _cast),
    **dict.fromkeys(("detach", "detach_copy"), lambda x: stop_gradient(x)),
    "copy": _copy,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "movedim": _movedim,
    "flip": lambda x, dims: np.flip(x, tuple(dims)),
    "roll": _roll,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "chunk": _chunk,
    "cat": _cat,
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "tril": lambda x, diagonal=0: np.tril(x, diagonal),
    "triu": lambda x, diagonal=0: np.triu(x, diagonal),
    "trace": lambda x: np.trace(x),
    "diag_embed": _diag_embed,
    "meshgrid": _meshgrid,
    "pad": _pad,
    "constant_pad_nd": lambda x, pad, value=0: _pad(x, pad, "constant", value),
    **{f"reflection_pad{n}d": _padded("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _padded("replicate") for n in (1, 2, 3)},
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "im2col": _im2col,
}
