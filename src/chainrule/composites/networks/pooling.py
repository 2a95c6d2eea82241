"""Pooling: the largest element or the mean of each window, in PyTorch's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.composites.composite import composite
from chainrule.composites.networks.windows import batched, counts_of, padded, windows
from chainrule.composites.refusing import refuse
from chainrule.errors import InputError, UnsupportedError
from chainrule.primitives.windows import Counts


@composite(symbol="max pool", latex=r"\operatorname{maxpool}")
def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of x (n, channels, length), or without n.

    As PyTorch's max_pool1d; elements that tie share the derivative equally.
    """
    return _largest(x, kernel_size, stride, padding, dilation, ceil_mode, "max_pool1d", 1)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}")
def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of x (n, channels, height, width), or without n.

    As PyTorch's max_pool2d: sizes are one integer or two, the stride is by default the kernel
    size; elements that tie share the derivative equally.
    """
    return _largest(x, kernel_size, stride, padding, dilation, ceil_mode, "max_pool2d", 2)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}")
def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of x (n, channels, length), or without n, as PyTorch's avg_pool1d."""
    return _mean(x, kernel_size, stride, padding, ceil_mode, count_include_pad, "avg_pool1d", 1)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}")
def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of x (n, channels, height, width), or without n.

    As PyTorch's avg_pool2d: zeros of the padding count, unless `count_include_pad` is False.
    """
    return _mean(x, kernel_size, stride, padding, ceil_mode, count_include_pad, "avg_pool2d", 2)


def _largest(
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    asked: str,
    axes: int,
) -> Any:
    x, had_batch = batched(x, axes, asked)
    window, steps, around = _sizes(x, kernel_size, stride, padding, ceil_mode, asked, axes)
    spread = counts_of(dilation, axes, 1, asked, "dilation")
    whole = padded(x, around)
    if whole is not x:
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        whole = np.where(padded(np.ones_like(x, dtype=np.bool_), around), whole, lowest)
    seen = windows(whole, window, steps, spread, asked)
    result = np.max(seen, axis=_last(axes))
    return result if had_batch else result[0]


def _mean(
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    asked: str,
    axes: int,
) -> Any:
    x, had_batch = batched(x, axes, asked)
    window, steps, around = _sizes(x, kernel_size, stride, padding, ceil_mode, asked, axes)
    whole = padded(x, around)
    once = (1,) * axes
    seen = windows(whole, window, steps, once, asked)
    if count_include_pad or whole is x:
        result = np.mean(seen, axis=_last(axes))
    else:
        ones = windows(padded(np.ones_like(x), around), window, steps, once, asked)
        result = np.sum(seen, axis=_last(axes)) / np.sum(ones, axis=_last(axes))
    return result if had_batch else result[0]


def _last(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))


def _sizes(
    x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, asked: str, axes: int
) -> tuple[Counts, Counts, tuple[tuple[int, int], ...]]:
    """The window, the stride, and the zeros before and after each axis."""
    if ceil_mode:
        refuse(
            UnsupportedError,
            (x,),
            f"{asked}: ceil_mode=True is not implemented",
            "pad x at its end with np.pad, so that the last window fits",
        )
    window = counts_of(kernel_size, axes, 1, asked, "kernel_size")
    steps = window if stride is None else counts_of(stride, axes, 1, asked, "stride")
    around = counts_of(padding, axes, 0, asked, "padding")
    if any(2 * one > length for one, length in zip(around, window, strict=True)):
        most = tuple(length // 2 for length in window)
        refuse(
            InputError,
            (x,),
            f"{asked}: padding={padding!r} is more than half of kernel_size={kernel_size!r}",
            f"give at most padding={most[0] if axes == 1 else most}: "
            "a window would lie in the padding alone",
        )
    return window, steps, tuple((one, one) for one in around)
