"""PyTorch's pooling: chainrule's own; where somebody reads them, also the places of the largest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.values import dtype_of, numbers, plain
from chainrule.nn import adaptive_pooling, pooling

_LARGEST = (pooling.max_pool1d, pooling.max_pool2d, pooling.max_pool3d)
_MEAN = (pooling.avg_pool1d, pooling.avg_pool2d, pooling.avg_pool3d)
_ADAPTIVE_LARGEST = (
    adaptive_pooling.adaptive_max_pool1d,
    adaptive_pooling.adaptive_max_pool2d,
    adaptive_pooling.adaptive_max_pool3d,
)
_ADAPTIVE_MEAN = (
    adaptive_pooling.adaptive_avg_pool1d,
    adaptive_pooling.adaptive_avg_pool2d,
    adaptive_pooling.adaptive_avg_pool3d,
)
_OF_LARGEST = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_OF_MEAN = (
    *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
)


def _pool(function: Any, names: tuple[str, ...]) -> Any:
    def call(x: Any, *given: Any, **options: Any) -> Any:
        return function(x, **_options(names, given, options))

    return call


def _options(names: tuple[str, ...], given: Any, options: Any) -> dict[str, Any]:
    found = {**dict(zip(names, given, strict=False)), **options}
    found = {name: plain(value) for name, value in found.items()}
    if found.get("stride") == ():
        found["stride"] = None
    return found


def _adaptive(function: Any) -> Any:
    return lambda x, output_size: function(x, plain(output_size))


def _alone(function: Any) -> Any:
    """The values, where nobody reads the places."""
    return lambda *given, **options: (function(*given, **options), None)


def _with_places(axes: int) -> Any:
    """max_pool, and the place of each result in its image or volume."""

    def call(x: Any, *given: Any, **options: Any) -> Any:
        found = _options(_OF_LARGEST, given, options)
        y = _LARGEST[axes - 1](x, **found)
        windows = [
            np.arange(_known(count))[:, None] * step - pad + np.arange(wide) * apart
            for count, step, pad, wide, apart in zip(
                np.shape(y)[-axes:],
                numbers(found.get("stride") or found["kernel_size"], axes),
                numbers(found.get("padding", 0), axes),
                numbers(found["kernel_size"], axes),
                numbers(found.get("dilation", 1), axes),
                strict=True,
            )
        ]
        return y, _places(x, windows)

    return call


def _adaptive_with_places(axes: int) -> Any:
    def call(x: Any, output_size: Any) -> Any:
        y = _ADAPTIVE_LARGEST[axes - 1](x, plain(output_size))
        windows = []
        for length, parts in zip(np.shape(x)[-axes:], np.shape(y)[-axes:], strict=True):
            own = np.arange(_known(parts))
            begin, end = own * _known(length) // parts, -(-(own + 1) * length // parts)
            places = begin[:, None] + np.arange(np.max(end - begin, initial=0))
            windows.append(np.where(places < end[:, None], places, -1))
        return y, _places(x, windows)

    return call


def _known(length: Any) -> int:
    if not isinstance(length, int):
        raise UnsupportedError(
            f"the places of the largest elements are read, along an axis of the size {length}",
            hint="give this axis a number when you import the model",
        )
    return length


def _places(x: Any, windows: list[np.ndarray]) -> Any:
    """Where the largest element of each window is, counted through all axes of the windows.

    `windows` has for each axis (windows, elements) its places; those outside are not looked at.
    """
    axes = len(windows)
    lengths = np.shape(x)[-axes:]
    inside = [(one >= 0) & (one < length) for one, length in zip(windows, lengths, strict=True)]
    kept = [np.where(ok, one, 0) for ok, one in zip(inside, windows, strict=True)]

    def spread(parts: list[np.ndarray]) -> list[np.ndarray]:
        """Each part on its own pair of axes: (windows..., elements...)."""
        return [
            np.reshape(
                part,
                [size if axis == place else 1 for size in part.shape for axis in range(axes)],
            )
            for place, part in enumerate(parts)
        ]

    keys = spread(kept)
    shape = np.broadcast_shapes(*(key.shape for key in keys))
    flat = (*shape[:axes], math.prod(shape[axes:]))
    counts = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*spread(inside))), shape)
    own = np.zeros(shape, np.int64)
    for key, length in zip(keys, lengths, strict=True):
        own = own * length + key
    taken = np.reshape(x[(..., *keys)], (*np.shape(x)[:-axes], *flat))
    lowest = pooling.lowest_of(dtype_of(x))
    largest = np.argmax(np.where(np.reshape(counts, flat), taken, lowest), axis=-1)
    table = np.broadcast_to(np.reshape(own, flat), np.shape(taken))
    return np.take_along_axis(table, largest[..., None], -1)[..., 0]


POOLING: dict[str, Any] = {
    **{f"max_pool{n}d": _pool(one, _OF_LARGEST) for n, one in enumerate(_LARGEST, 1)},
    **{
        f"max_pool{n}d_with_indices": _alone(_pool(one, _OF_LARGEST))
        for n, one in enumerate(_LARGEST, 1)
    },
    **{f"avg_pool{n}d": _pool(one, _OF_MEAN) for n, one in enumerate(_MEAN, 1)},
    **{f"adaptive_avg_pool{n}d": _adaptive(one) for n, one in enumerate(_ADAPTIVE_MEAN, 1)},
    **{f"_adaptive_avg_pool{n}d": _adaptive(_ADAPTIVE_MEAN[n - 1]) for n in (2, 3)},
    **{
        f"adaptive_max_pool{n}d": _alone(_adaptive(one))
        for n, one in enumerate(_ADAPTIVE_LARGEST, 1)
    },
}

# The same where the places are read.
PLACED: dict[str, Any] = {
    **{f"max_pool{n}d_with_indices": _with_places(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_with_places(n) for n in (1, 2, 3)},
}
