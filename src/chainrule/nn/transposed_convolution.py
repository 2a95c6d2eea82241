"""Transposed convolution in PyTorch's layout: the transpose of the linear map of a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.graph.sizes.sizes import Size
from chainrule.nn.convolution import WINDOW, of_windows, product, window_of
from chainrule.numpy.windows import batched, counts_of, fold_windows, padded, refuse, show
from chainrule.primitives.windows import are_most, span


@composite(symbol="∗ᵀ", latex=r"\operatorname{conv}^{\top}")
def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv1d: x (n, in, length) or (in, length), weight (in, out / groups, width).

    As PyTorch's conv_transpose1d: the result, to which bias (out) is added, has the length
    (length - 1) stride - 2 padding + dilation (width - 1) + output_padding + 1.
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(x, weight, bias, *options, "conv_transpose1d", 1)


@composite(symbol="∗ᵀ", latex=r"\operatorname{conv}^{\top}")
def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv2d: x (n, in, height, width), or without n, and weight
    (in, out / groups, rows, columns).

    As PyTorch's conv_transpose2d: bias (out) is added; each option is one integer or two; an axis
    of the result has the length (length - 1) stride - 2 padding + dilation (window - 1)
    + output_padding + 1.
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(x, weight, bias, *options, "conv_transpose2d", 2)


@composite(symbol="∗ᵀ", latex=r"\operatorname{conv}^{\top}")
def conv_transpose3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of conv3d: x (n, in, depth, height, width), or without n, and weight
    (in, out / groups, depth, rows, columns).

    As PyTorch's conv_transpose3d: bias (out) is added; each option is one integer or three; an
    axis of the result has the length (length - 1) stride - 2 padding + dilation (window - 1)
    + output_padding + 1.
    """
    options = (stride, padding, output_padding, groups, dilation)
    return _transposed(x, weight, bias, *options, "conv_transpose3d", 3)


def _transposed(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    asked: str,
    axes: int,
) -> Any:
    x, had_batch = batched(x, axes, asked)
    (groups,) = counts_of(groups, 1, 1, asked, "groups")
    _check(x, weight, bias, groups, asked, axes)
    window = window_of(weight, asked)
    steps = counts_of(stride, axes, 1, asked, "stride")
    around = counts_of(padding, axes, 0, asked, "padding")
    further = counts_of(output_padding, axes, 0, asked, "output_padding")
    spread = counts_of(dilation, axes, 1, asked, "dilation")
    if any(more >= max(s, d) for more, s, d in zip(further, steps, spread, strict=True)):
        raise InputError(
            f"{asked}: output_padding={output_padding!r} with stride={stride!r} and "
            f"dilation={dilation!r}",
            hint="it says which of the lengths with the same windows is meant: "
            "less than the stride or the dilation",
        )
    lengths = np.shape(x)[2:]
    spans = tuple(span(w, d) for w, d in zip(window, spread, strict=True))
    shape = tuple((n - 1) * s + k for n, s, k in zip(lengths, steps, spans, strict=True))
    widths = tuple((-p, more - p) for p, more in zip(around, further, strict=True))
    _require_elements(x, tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True)), asked)
    if max(steps) == 1 and are_most(lengths, shape):
        ends = ((k - 1 + a, k - 1 + b) for k, (a, b) in zip(spans, widths, strict=True))
        turned = _turned(weight, groups)
        result = of_windows(padded(x, tuple(ends)), turned, steps, spread, groups, asked)
    else:
        summed = _of_places(x, weight, groups)
        channels = np.shape(summed)[:2]
        result = padded(fold_windows(summed, steps, spread, (*channels, *shape)), widths)
    if bias is not None:
        result = result + np.reshape(bias, (-1, *(1,) * axes))
    return result if had_batch else result[0]


def _turned(weight: Any, groups: int) -> Any:
    """The weight of the convolution that is the transpose where strides are 1: (in, out / groups)
    becomes (out, in / groups), and each window is turned round."""
    inside, out, *window = np.shape(weight)
    last = tuple(range(2, 2 + len(window)))
    if groups == 1:
        return np.flip(np.swapaxes(weight, 0, 1), last)
    split = np.reshape(weight, (groups, inside // groups, out, *window))
    split = np.reshape(np.swapaxes(split, 1, 2), (groups * out, inside // groups, *window))
    return np.flip(split, last)


def _of_places(x: Any, weight: Any, groups: int) -> Any:
    """What each element of x adds at each place of its window: (n, out, positions, places)."""
    n, inside, *lengths = np.shape(x)
    _, out, *window = np.shape(weight)
    p, w = "pqr"[: len(window)], "uvw"[: len(window)]
    if groups == 1:
        return product(f"nc{p},co{w}->no{p}{w}", x, weight)
    split = np.reshape(x, (n, groups, inside // groups, *lengths))
    weight = np.reshape(weight, (groups, inside // groups, out, *window))
    result = product(f"ngc{p},gco{w}->ngo{p}{w}", split, weight)
    return np.reshape(result, (n, groups * out, *lengths, *window))


def _require_elements(x: Any, lengths: tuple[Any, ...], asked: str) -> None:
    """A ShapeError unless each axis of the result has elements; for a named size a condition."""
    trace = trace_of((x,))
    for given, length in zip(np.shape(x)[2:], lengths, strict=True):
        text = f"{asked}: an axis of {given} becomes one of {length}"
        if isinstance(length, Size):
            assert trace is not None
            trace.require(length - 1, False, text)
        elif length < 1 or given == 0:
            refuse(
                (x,),
                text,
                "an axis becomes (length - 1) stride - 2 padding + dilation (window - 1) "
                "+ output_padding + 1 long: pad less",
            )


def _check(x: Any, weight: Any, bias: Any, groups: int, asked: str, axes: int) -> None:
    given = (x, weight, bias)
    if np.ndim(weight) != axes + 2:
        refuse(
            given,
            f"{asked}: the weight {show(weight)} has {np.ndim(weight)} axes",
            f"a weight is (in, out / groups, {WINDOW[axes]})",
        )
    channels, inside, out = np.shape(x)[1], *np.shape(weight)[:2]
    if channels != inside:
        refuse(
            given,
            f"{asked}: {show(x)} has {channels} channels, but the weight {show(weight)} "
            f"takes {inside}",
            "the second axis of x and the first of the weight are the input channels "
            "(a convolution has them second)",
        )
    if isinstance(inside, int) and inside % groups:
        refuse(
            given,
            f"{asked}: {inside} input channels are not divisible into {groups} groups",
            "make the first axis of the weight a multiple of groups",
        )
    if bias is not None and tuple(np.shape(bias)) != (out * groups,):
        refuse(
            given,
            f"{asked}: the bias {show(bias)} does not fit the {out * groups} output channels of "
            f"the weight {show(weight)}" + (f" ({out} in each of {groups} groups)" * (groups > 1)),
            f"a bias has one axis of {out * groups}: one number for each output channel",
        )
