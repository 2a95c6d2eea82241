"""Max and average pooling over one to three axes in PyTorch's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite
from chainrule.frontend.errors.refusing import refuse, require_flag
from chainrule.graph.dtypes import dtype_kind
from chainrule.nn import closed_forms
from chainrule.numpy.windows import batched, counts_of, padded, windows
from chainrule.primitives.windows import Counts, span

Widths = tuple[tuple[int, int], ...]  # padding before and after each axis


@composite(symbol="max pool", latex=r"\operatorname{maxpool}", gradients=closed_forms.MAX_POOL)
def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of x (n, channels, length), or without n.

    As PyTorch's max_pool1d; elements that tie share the derivative equally.  With `ceil_mode` also
    windows that begin in x and end beyond its padding.  Where a window has NaN its maximum is NaN,
    and its derivative 0 (PyTorch gives 1 to the last NaN).
    """
    return _largest(x, kernel_size, stride, padding, dilation, ceil_mode, "max_pool1d", 1)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}", gradients=closed_forms.MAX_POOL)
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
    size; elements that tie share the derivative equally.  With `ceil_mode` also windows that begin
    in x and end beyond its padding.
    """
    return _largest(x, kernel_size, stride, padding, dilation, ceil_mode, "max_pool2d", 2)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}", gradients=closed_forms.MAX_POOL)
def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of x (n, channels, depth, height, width), or without n.

    As PyTorch's max_pool3d: sizes are one integer or three; the rest is as in `max_pool2d`.
    """
    return _largest(x, kernel_size, stride, padding, dilation, ceil_mode, "max_pool3d", 3)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}", gradients=closed_forms.MEAN_POOL)
def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of x (n, channels, length), or without n, as PyTorch's avg_pool1d.

    Zeros of the padding count, unless `count_include_pad` is False.  With `ceil_mode` also windows
    that begin in x and end beyond its padding: the mean of what lies within.
    """
    return _mean(x, kernel_size, stride, padding, ceil_mode, count_include_pad, "avg_pool1d", 1)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}", gradients=closed_forms.MEAN_POOL)
def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of x (n, channels, height, width), or without n.

    As PyTorch's avg_pool2d: zeros of the padding count, unless `count_include_pad` is False.
    With `ceil_mode` also windows that begin in x and end beyond its padding: the mean of what lies
    within.  With `divisor_override` sums are divided by this integer instead.
    """
    options = (ceil_mode, count_include_pad, "avg_pool2d", 2, divisor_override)
    return _mean(x, kernel_size, stride, padding, *options)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}", gradients=closed_forms.MEAN_POOL)
def avg_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of x (n, channels, depth, height, width), or without n.

    As PyTorch's avg_pool3d: sizes are one integer or three; the rest is as in `avg_pool2d`.
    """
    options = (ceil_mode, count_include_pad, "avg_pool3d", 3, divisor_override)
    return _mean(x, kernel_size, stride, padding, *options)


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
    spread = counts_of(dilation, axes, 1, asked, "dilation")
    window, steps, _, around = _sizes(
        x, kernel_size, stride, padding, spread, ceil_mode, asked, axes
    )
    whole = padded(x, around)
    if whole is not x:
        is_given = padded(np.ones_like(x, dtype=np.bool_), around)
        whole = np.where(is_given, whole, lowest_of(x.dtype))
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
    divisor: int | None = None,
) -> Any:
    x, had_batch = batched(x, axes, asked)
    if divisor is not None and (isinstance(divisor, bool) or not divisor):
        raise InputError(
            f"{asked}: divisor_override={divisor!r} is no integer to divide by",
            hint="give a number other than 0, or leave it out",
        )
    once = (1,) * axes
    require_flag((x,), count_include_pad, f"{asked}: count_include_pad")
    window, steps, given, around = _sizes(
        x, kernel_size, stride, padding, once, ceil_mode, asked, axes
    )
    seen = windows(padded(x, around), window, steps, once, asked)
    counted = given if count_include_pad else ((0, 0),) * axes
    if divisor is not None:
        result = np.sum(seen, axis=_last(axes)) / divisor
    elif counted == around:
        result = np.mean(seen, axis=_last(axes))
    else:
        ones = np.ones_like(padded(x[:1, :1], counted))
        rest = tuple((a - c, b - d) for (a, b), (c, d) in zip(around, counted, strict=True))
        count = np.sum(windows(padded(ones, rest), window, steps, once, asked), axis=_last(axes))
        result = np.sum(seen, axis=_last(axes)) / count
    return result if had_batch else result[0]


def lowest_of(dtype: np.dtype) -> Any:
    """What no element is smaller than."""
    return -np.inf if dtype_kind(dtype) == "f" else np.iinfo(dtype).min


def _last(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))


def _sizes(
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Counts,
    ceil_mode: bool,
    asked: str,
    axes: int,
) -> tuple[Counts, Counts, Widths, Widths]:
    """The window, the stride, the padding that was asked for before and after each axis, and that
    with what `ceil_mode` adds at the end."""
    window = counts_of(kernel_size, axes, 1, asked, "kernel_size")
    steps = window if stride is None else counts_of(stride, axes, 1, asked, "stride")
    around = counts_of(padding, axes, 0, asked, "padding")
    require_flag((x,), ceil_mode, f"{asked}: ceil_mode")
    if any(2 * one > length for one, length in zip(around, window, strict=True)):
        most = tuple(length // 2 for length in window)
        refuse(
            InputError,
            (x,),
            f"{asked}: padding={padding!r} is more than half of kernel_size={kernel_size!r}",
            f"give at most padding={most[0] if axes == 1 else most}: "
            "otherwise a window has only padding",
        )
    given = tuple((one, one) for one in around)
    if not ceil_mode:
        return window, steps, given, given
    lengths = np.shape(x)[np.ndim(x) - axes :]
    spans = [span(w, d) for w, d in zip(window, dilation, strict=True)]
    ends = map(_end, lengths, around, spans, steps)
    return window, steps, given, tuple(zip(around, ends, strict=True))


def _end(length: Any, padding: int, reach: int, step: int) -> int:
    """How much `ceil_mode` pads the end of an axis.

    It has the windows that begin before its end (not in the padding behind it), without those that
    begin after one that reaches the end of the padding: PyTorch's pooling_output_shape.  So much
    padding is enough that no other fits: step - 1 more than there is, or a whole window less 1.
    Where the length is known, it is what the last of them reads.
    """
    most = min(padding + step, reach) - 1
    if not isinstance(length, int):
        return most
    left = length + padding + most - reach
    return most if left < 0 else max(padding, most - left % step)
