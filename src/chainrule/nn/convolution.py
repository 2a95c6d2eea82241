"""Convolution over one to three axes in PyTorch's layout, as a product with all windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.nn import closed_forms
from chainrule.numpy.windows import (
    batched,
    counts_of,
    padded,
    refuse,
    show,
    show_counts,
    windows,
)
from chainrule.primitives.windows import Counts, span


def _sign(arguments: Mapping[str, Any]) -> str:
    """`conv 5×5`."""
    return f"conv {'×'.join(map(str, arguments['weight'].shape[2:]))}"


WINDOW = {1: "width", 2: "rows, columns", 3: "depth, rows, columns"}


@composite(symbol="∗", latex=r"\operatorname{conv}", gradients=closed_forms.CONVOLUTION, sign=_sign)
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """x (n, in, length) or (in, length) with weight (out, in / groups, width), plus bias (out).

    As PyTorch's conv1d: `padding` is the number of zeros on either side, "valid" (none) or "same".
    """
    return _convolved(x, weight, bias, stride, padding, dilation, groups, "conv1d", 1)


@composite(symbol="∗", latex=r"\operatorname{conv}", gradients=closed_forms.CONVOLUTION, sign=_sign)
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """x (n, in, height, width), or without n, with weight (out, in / groups, rows, columns).

    As PyTorch's conv2d: bias (out) is added; stride, padding and dilation are one integer or two;
    `padding` is the number of zeros on either side, "valid" (none) or "same".
    """
    return _convolved(x, weight, bias, stride, padding, dilation, groups, "conv2d", 2)


@composite(symbol="∗", latex=r"\operatorname{conv}", gradients=closed_forms.CONVOLUTION, sign=_sign)
def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """x (n, in, depth, height, width), or without n, with weight (out, in / groups, *window).

    As PyTorch's conv3d: bias (out) is added; stride, padding and dilation are one integer or
    three; `padding` is the number of zeros on either side, "valid" (none) or "same".
    """
    return _convolved(x, weight, bias, stride, padding, dilation, groups, "conv3d", 3)


def _convolved(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    asked: str,
    axes: int,
) -> Any:
    x, had_batch = batched(x, axes, asked)
    (groups,) = counts_of(groups, 1, 1, asked, "groups")
    _check(x, weight, bias, groups, asked, axes)
    window = window_of(weight, asked)
    steps = counts_of(stride, axes, 1, asked, "stride")
    spread = counts_of(dilation, axes, 1, asked, "dilation")
    around = _widths(padding, window, steps, spread, asked)
    result = of_windows(padded(x, around), weight, steps, spread, groups, asked)
    if bias is not None:
        result = result + np.reshape(bias, (-1, *(1,) * axes))
    return result if had_batch else result[0]


def of_windows(
    x: Any, weight: Any, stride: Counts, dilation: Counts, groups: int, asked: str
) -> Any:
    """The product of all windows of x (n, in, ...) with the weight (out, in / groups, *window)."""
    out, inside, *window = np.shape(weight)
    axes = len(window)
    seen = windows(x, tuple(window), stride, dilation, asked)
    p, w = "pqr"[:axes], "uvw"[:axes]
    # In this order the output channels of the weight's gradient lie side by side, as those of the
    # result do: they fill the vectors of both products (`plan.products.windowed`).
    if groups == 1:
        order = (*range(2, 2 + axes), 1, 0)
        return product(f"nc{p}{w},{w}co->no{p}", seen, np.transpose(weight, order))
    n, _, *rest = np.shape(seen)
    seen = np.reshape(seen, (n, groups, inside, *rest))
    split = np.reshape(weight, (groups, out // groups, inside, *window))
    split = np.transpose(split, (0, *range(3, 3 + axes), 2, 1))
    result = product(f"ngc{p}{w},g{w}co->ngo{p}", seen, split)
    return np.reshape(result, (n, out, *rest[:axes]))


def window_of(weight: Any, asked: str) -> Counts:
    """How long the windows are, from the weight's last axes."""
    window = tuple(np.shape(weight)[2:])
    if not all(isinstance(one, int) and one > 0 for one in window):
        refuse(
            (weight,),
            f"{asked}: the weight {show(weight)} has windows of {show_counts(window)}",
            "the last axes of a weight are numbers of at least 1 that are known while tracing",
        )
    return window


def product(subscripts: str, x: Any, y: Any) -> Any:
    """np.einsum; at once, by way of matrix products."""
    if trace_of((x, y)) is None:
        return np.einsum(subscripts, x, y, optimize=True)
    return np.einsum(subscripts, x, y)


def _check(x: Any, weight: Any, bias: Any, groups: int, asked: str, axes: int) -> None:
    given = (x, weight, bias)
    if np.ndim(weight) != axes + 2:
        refuse(
            given,
            f"{asked}: the weight {show(weight)} has {np.ndim(weight)} axes",
            f"a weight is (out, in / groups, {WINDOW[axes]})",
        )
    channels, out, inside = np.shape(x)[1], *np.shape(weight)[:2]
    if channels != inside * groups:
        refuse(
            given,
            f"{asked}: {show(x)} has {channels} channels, but the weight {show(weight)} "
            f"takes {inside * groups}" + (f" ({inside} in each of {groups} groups)" * (groups > 1)),
            "the second axis of x is channels, that of the weight channels / groups",
        )
    if isinstance(out, int) and out % groups:
        refuse(
            given,
            f"{asked}: {out} output channels are not divisible into {groups} groups",
            "make the first axis of the weight a multiple of groups",
        )
    if bias is not None and tuple(np.shape(bias)) != (out,):
        refuse(
            given,
            f"{asked}: the bias {show(bias)} does not fit the {out} output channels of "
            f"the weight {show(weight)}",
            f"a bias has one axis of {out}: one number for each output channel",
        )


def _widths(
    padding: Any, window: Counts, stride: Counts, dilation: Counts, asked: str
) -> tuple[tuple[int, int], ...]:
    """How many zeros go before and after each axis."""
    if not isinstance(padding, str):
        return tuple((one, one) for one in counts_of(padding, len(window), 0, asked, "padding"))
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding != "same":
        raise InputError(
            f"{asked}: padding={padding!r} is not known",
            hint='padding is "valid", "same", or a number of zeros',
        )
    if max(stride) > 1:
        raise InputError(
            f'{asked}: padding="same" with stride {show_counts(stride)}',
            hint="give the number of zeros: with a stride above 1 the size is not kept",
        )
    both = [span(w, d) - 1 for w, d in zip(window, dilation, strict=True)]
    return tuple((one // 2, one - one // 2) for one in both)
