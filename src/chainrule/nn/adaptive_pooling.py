"""Pooling to a given number of elements, whatever the lengths are, in PyTorch's layout."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.frontend.composite import composite, trace_of
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size, divide_exactly
from chainrule.nn.pooling import lowest_of
from chainrule.numpy.of_arrays import positions_of
from chainrule.numpy.statistics import size_value
from chainrule.numpy.windows import batched, refuse, show


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}")
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    """The means of `output_size` parts of x (n, channels, length), or without n.

    As PyTorch's adaptive_avg_pool1d: part i of `length` elements is from floor(i length / parts)
    to ceil((i + 1) length / parts), so neighbours overlap where lengths are not divisible.
    """
    return _mean(x, output_size, "adaptive_avg_pool1d", 1)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}")
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
    """The means of the parts of x (n, channels, height, width), or without n.

    As PyTorch's adaptive_avg_pool2d: `output_size` is how many parts each axis has, one integer or
    two, of which None leaves an axis as it is; `adaptive_avg_pool1d` says what the parts are.
    """
    return _mean(x, output_size, "adaptive_avg_pool2d", 2)


@composite(symbol="mean pool", latex=r"\operatorname{meanpool}")
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Any:
    """The means of the parts of x (n, channels, depth, height, width), or without n.

    As PyTorch's adaptive_avg_pool3d: `output_size` is how many parts each axis has, one integer or
    three, of which None leaves an axis as it is; `adaptive_avg_pool1d` says what the parts are.
    """
    return _mean(x, output_size, "adaptive_avg_pool3d", 3)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}")
def adaptive_max_pool1d(x: Any, output_size: Any) -> Any:
    """The largest elements of `output_size` parts of x (n, channels, length), or without n.

    As PyTorch's adaptive_max_pool1d, with the parts of `adaptive_avg_pool1d`; elements that tie
    share the derivative equally.
    """
    return _largest(x, output_size, "adaptive_max_pool1d", 1)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}")
def adaptive_max_pool2d(x: Any, output_size: Any) -> Any:
    """The largest elements of the parts of x (n, channels, height, width), or without n.

    As PyTorch's adaptive_max_pool2d, with the parts of `adaptive_avg_pool2d`; elements that tie
    share the derivative equally.
    """
    return _largest(x, output_size, "adaptive_max_pool2d", 2)


@composite(symbol="max pool", latex=r"\operatorname{maxpool}")
def adaptive_max_pool3d(x: Any, output_size: Any) -> Any:
    """The largest elements of the parts of x (n, channels, depth, height, width), or without n.

    As PyTorch's adaptive_max_pool3d, with the parts of `adaptive_avg_pool3d`; elements that tie
    share the derivative equally.
    """
    return _largest(x, output_size, "adaptive_max_pool3d", 3)


def _mean(x: Any, output_size: Any, asked: str, axes: int) -> Any:
    x, had_batch = batched(x, axes, asked)
    seen, counts = _in_parts(x, output_size, asked, axes)
    last = tuple(range(-axes, 0))
    if counts is None:
        result = np.mean(seen, axis=last)
    else:
        count = np.sum(np.broadcast_to(counts, np.shape(seen)[2:]), axis=last)
        result = np.sum(np.where(counts, seen, 0), axis=last) / count.astype(_float_of(x))
    return result if had_batch else result[0]


def _float_of(x: Any) -> Any:
    return x.dtype if dtype_kind(x.dtype) == "f" else np.float64


def _largest(x: Any, output_size: Any, asked: str, axes: int) -> Any:
    x, had_batch = batched(x, axes, asked)
    seen, counts = _in_parts(x, output_size, asked, axes)
    if counts is not None:
        seen = np.where(counts, seen, lowest_of(x.dtype))
    result = np.max(seen, axis=tuple(range(-axes, 0)))
    return result if had_batch else result[0]


def _in_parts(x: Any, output_size: Any, asked: str, axes: int) -> tuple[Any, Any]:
    """x (n, channels, *parts, *places), the parts of each axis on one of their own; and which
    places of (*parts, *places) count, None where all do: where parts differ in their length."""
    counts = None
    for axis, parts in enumerate(_parts_of(x, output_size, asked, axes), 2):
        shape = np.shape(x)
        within = None
        length = divide_exactly(shape[axis], parts)
        if length is not None:
            x = np.reshape(x, (*shape[:axis], parts, length, *shape[axis + 1 :]))
        else:
            places, within = _places(x, shape[axis], parts)
            x = np.take(x, places, axis=axis)
        x = np.moveaxis(x, axis + 1, -1)
        if within is not None:
            one = [1] * (2 * axes)
            one[axis - 2], one[axis - 2 + axes] = np.shape(within)
            within = np.reshape(within, one)
            counts = within if counts is None else counts & within
    return x, counts


def _parts_of(x: Any, output_size: Any, asked: str, axes: int) -> list[Any]:
    """How many parts each axis has."""
    several = isinstance(output_size, (tuple, list))
    given = list(output_size) if several else [output_size] * axes
    given = given * axes if len(given) == 1 else given
    lengths = np.shape(x)[2:]
    if any(length == 0 for length in lengths):
        refuse(
            (x,),
            f"{asked}: {show(x)} has an axis without elements",
            "each part has at least one element of x: leave out what is empty",
        )
    try:
        parts = [n if one is None else _count(one) for n, one in zip(lengths, given, strict=True)]
    except (TypeError, ValueError):
        parts = [0]
    if any(isinstance(one, int) and one < 1 for one in parts):
        raise InputError(
            f"{asked}: output_size={output_size!r} is not one integer of at least 1"
            + (f", nor {axes} of them" if axes > 1 else ""),
            hint="it is how many parts an axis has; None leaves an axis as it is",
        )
    return parts


def _count(value: Any) -> Any:
    return value if isinstance(value, Size) else operator.index(value)


def _places(x: Any, length: Any, parts: Any) -> tuple[Any, Any]:
    """Which elements the parts of an axis have, (parts, places), and whether a place counts: all
    parts get as many as the longest."""
    longest = (length + parts - 1) // parts + 1
    trace = trace_of((x,))
    if isinstance(longest, Size):
        assert trace is not None
        numbers, offsets = positions_of(trace, parts), positions_of(trace, longest)
        n, p = size_value(length, numbers), size_value(parts, numbers)
    else:
        numbers, offsets, n, p = np.arange(parts), np.arange(longest), length, parts
    first = numbers * n // p
    end = ((numbers + 1) * n + p - 1) // p
    if not isinstance(longest, Size):
        offsets = offsets[: np.max(end - first)]
    places = first[:, None] + offsets
    return np.minimum(places, n - 1), places < end[:, None]
