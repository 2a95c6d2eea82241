"""Samples images and volumes at places that are values, as PyTorch's grid_sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite
from chainrule.frontend.errors.refusing import refuse, require_flag, shown
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import Size
from chainrule.nn.kernels import cubic_weights
from chainrule.numpy.of_arrays import positions_of, trace_among
from chainrule.numpy.statistics import size_value

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
FARTHEST = 2.0**30  # places beyond are taken for this one, which is outside of every array
Padded = Callable[[Any], Any]


@composite(symbol="sample", latex=r"\operatorname{sample}")
def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:
    """x (n, channels, height, width) at the places of grid (n, rows, columns, 2), or
    x (n, channels, depth, height, width) at those of grid (n, ..., 3): (n, channels, ...).

    As PyTorch's grid_sample: a place is (column, row) or (column, row, layer) from -1 to 1, from
    edge to edge, with `align_corners` from the centre of the first element to that of the last.
    `mode` is "bilinear" (trilinear of volumes), "nearest" or "bicubic" (of images); beyond the
    edges, by `padding_mode`, are "zeros", the "border"'s elements or the "reflection" of all.
    Differentiable in x and in grid.
    """
    _check(x, grid, mode, padding_mode, align_corners)
    sizes = np.shape(x)[2:]
    taps = []
    for axis, size in enumerate(sizes):
        # The last coordinate is that of the first axis.
        place = _unscaled(grid[..., len(sizes) - 1 - axis], _number(size, x), align_corners)
        taps.append(_taps(place, _number(size, x), mode, padding_mode, align_corners))
    rows = np.moveaxis(x, 1, -1)
    first = np.reshape(_numbers(x, np.shape(x)[0]), (-1, *(1,) * len(sizes)))
    result: Any = None
    for chosen in product(*taps):
        where = tuple(index for index, _, _ in chosen)
        inside = reduce(np.logical_and, (one for _, _, one in chosen))
        weight = reduce(np.multiply, (one for _, one, _ in chosen))
        taken = rows[(np.broadcast_to(first, np.shape(where[0])), *where)]
        part = np.where(inside[..., None], taken, 0) * weight[..., None]
        result = part if result is None else result + part
    return np.moveaxis(result, -1, 1)


def _number(size: Any, like: Any) -> Any:
    return size_value(size, like) if isinstance(size, Size) else size


def _numbers(x: Any, count: Any) -> Any:
    return positions_of(trace_among(x), count) if isinstance(count, Size) else np.arange(count)


def _unscaled(place: Any, size: Any, aligned: bool) -> Any:
    """From -1 to 1 to the number of an element."""
    found = (place + 1) * ((size - 1) / 2) if aligned else ((place + 1) * size - 1) / 2
    return np.clip(found, -FARTHEST, FARTHEST).astype(place.dtype)


def _taps(
    place: Any, size: Any, mode: str, padding: str, aligned: bool
) -> list[tuple[Any, Any, Any]]:
    """The elements of an axis of which the result has a part: which, how much of it, and whether
    it is one of x."""
    padded = _padding(size, padding, aligned)
    if mode == "nearest":
        found = [(np.rint(padded(place)), np.ones_like(place))]
    elif mode == "bilinear":
        place = padded(place)
        first = np.floor(place)
        found = [(first, 1 - (place - first)), (first + 1, place - first)]
    else:
        first = np.floor(place)
        weights = cubic_weights(place - first)
        found = [(padded(first + k), weight) for k, weight in enumerate(weights, -1)]
    return [_tap(number, weight, size) for number, weight in found]


def _tap(number: Any, weight: Any, size: Any) -> tuple[Any, Any, Any]:
    inside = (number >= 0) & (number <= size - 1)
    return np.where(inside, number, 0).astype(np.int64), weight, inside


def _padding(size: Any, padding: str, aligned: bool) -> Padded:
    """Which place inside stands for one outside."""

    def border(place: Any) -> Any:
        return np.minimum(np.maximum(place, 0), size - 1).astype(place.dtype)

    def reflection(place: Any) -> Any:
        low, span = (0.0, size - 1) if aligned else (-0.5, size)
        span = np.maximum(span, 1)  # of one element all places are clipped to it
        distance = np.abs(place - low)
        turns = np.floor(distance / span)
        rest = distance - turns * span
        return border(np.where(turns % 2 == 0, rest, span - rest) + low).astype(place.dtype)

    return {"zeros": lambda place: place, "border": border, "reflection": reflection}[padding]


def _check(x: Any, grid: Any, mode: Any, padding_mode: Any, align_corners: Any) -> None:
    given = (x, grid)
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, PADDINGS)):
        if value not in known:
            raise InputError(
                f"grid_sample: {name}={value!r} is not known",
                hint=f"{name} is one of {', '.join(map(repr, known))}",
            )
    require_flag(given, align_corners, "grid_sample: align_corners")
    axes = np.ndim(x) - 2
    if np.ndim(x) not in (4, 5) or (mode == "bicubic" and axes != 2):
        refuse(
            ShapeError,
            given,
            f"grid_sample: {shown(x)} has {np.ndim(x)} axes",
            "it takes images (n, channels, height, width)"
            + ("" if mode == "bicubic" else " or volumes (n, channels, depth, height, width)"),
        )
    if (
        np.ndim(grid) != axes + 2
        or np.shape(grid)[-1] != axes
        or np.shape(grid)[0] != np.shape(x)[0]
    ):
        refuse(
            ShapeError,
            given,
            f"grid_sample: the grid {shown(grid)} of {shown(x)}",
            f"a grid is (n, {'rows, columns' if axes == 2 else 'layers, rows, columns'}, {axes})",
        )
    if any(size == 0 for size in np.shape(x)[2:]):
        refuse(ShapeError, given, f"grid_sample: {shown(x)} has no elements", "give at least one")
    if grid.dtype != x.dtype or dtype_kind(x.dtype) != "f":
        refuse(
            DTypeError,
            given,
            f"grid_sample: {shown(x)} and the grid {shown(grid)}",
            "both are floats of one dtype: convert with .astype",
        )
