"""Small pictures of arrays: heat maps of block means, strips of vectors, grids of images."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.explain.report.plain import number
from chainrule.explain.report.statistics import Summary

SIDE = 48  # pixels of a heat map, at most, each way
SMALLEST_IMAGE, LARGEST_IMAGE = 8, 28  # pixels each way of one image in a grid
COLUMNS, IMAGES = 4, 8  # of a grid of images
LARGEST_SUMMED = 1e300  # sums of larger numbers may overflow
MOST_LINES = 8  # rows or columns of zeros that are listed
NOT_FINITE = 255  # 0 to 254 go from the lowest to the highest
BUDGET = 1_000_000  # bytes of all pictures of a page


@dataclass
class Pictures:
    """Makes pictures until their bytes are used up; counts those that were left out."""

    budget: int = BUDGET
    used: int = 0
    left_out: int = 0

    def picture(
        self, array: np.ndarray, summary: Summary, *, images: bool = False
    ) -> dict[str, Any] | None:
        """The picture of an array; None for a single number, and where no bytes are left.

        With `images`, rows that can be square images are shown as such.
        """
        if array.size < 2:
            return None
        if self.used >= self.budget:
            self.left_out += 1
            return None
        made = _picture(array, summary, images)
        self.used += made["width"] * made["height"]
        return made

    def notes(self) -> Iterator[str]:
        """What was left out."""
        if self.left_out:
            noun = "value has" if self.left_out == 1 else "values have"
            yield (
                f"{self.left_out:,} {noun} no picture: all pictures together take at most "
                f"{self.budget:,} bytes."
            )


def _picture(array: np.ndarray, summary: Summary, images: bool) -> dict[str, Any]:
    side = _image_side(array) if images else 0
    if side:
        return _scaled(*_grid(array, side), block=None)
    matrix, what = _matrix(array)
    unit = max(abs(summary.least), abs(summary.greatest))
    if unit <= LARGEST_SUMMED or not summary.finite:
        means, block = _means(matrix, summary.is_finite)
    else:
        means, block = _means(matrix / unit, summary.is_finite)
        means = means * unit
    if block != (1, 1):
        what += f"; each pixel is the mean of {block[0]} × {block[1]} elements"
    return _scaled(means, what + _zero_lines(array), block=block)


def _zero_lines(array: np.ndarray) -> str:
    """`; rows 0, 7 and columns 3, 4 are 0` of a matrix with such rows and columns."""
    if array.ndim != 2 or not array.any():
        return ""
    found = []
    for axis, noun in ((1, "row"), (0, "column")):
        lines = np.flatnonzero(~array.any(axis=axis))
        if lines.size:
            listed = ", ".join(map(str, lines[:MOST_LINES].tolist()))
            more = ", ..." if lines.size > MOST_LINES else ""
            found.append(f"{noun}{'' if lines.size == 1 else 's'} {listed}{more}")
    is_one = len(found) == 1 and not found[0].startswith(("rows", "columns"))
    return f"; {' and '.join(found)} {'is' if is_one else 'are'} 0" if found else ""


def _scaled(means: np.ndarray, caption: str, *, block: tuple[int, int] | None) -> dict[str, Any]:
    """With numbers below and above 0, that is in the middle of the scale."""
    finite = np.isfinite(means)
    low = float(means[finite].min()) if finite.any() else 0.0
    high = float(means[finite].max()) if finite.any() else 0.0
    is_centred = block is not None and low < 0 < high
    if is_centred:
        high = max(-low, high)
        low = -high
    unit = max(abs(low), abs(high)) or 1.0
    span = high / unit - low / unit or 1.0
    with np.errstate(invalid="ignore"):
        levels = np.rint((means / unit - low / unit) * (254 / span))
    bytes_ = np.where(finite, levels, NOT_FINITE).astype(np.uint8)
    height, width = means.shape
    return {
        "width": width,
        "height": height,
        "low": number(low),
        "high": number(high),
        "bytes": base64.b64encode(bytes_.tobytes()).decode("ascii"),
        "caption": caption,
        "centred": is_centred,
        "block": None if block is None else list(block),
    }


def _matrix(array: np.ndarray) -> tuple[np.ndarray, str]:
    """A matrix to show: a vector as one row, of more axes the first matrix; what it is."""
    shape = " × ".join(map(str, array.shape))
    if array.ndim == 1:
        return array[None, :], f"{shape} elements"
    if array.ndim == 2:
        return array, shape
    lead = ", ".join("0" * (array.ndim - 2))
    return array[(0,) * (array.ndim - 2)], f"[{lead}, :, :] of {shape}"


def _means(matrix: np.ndarray, is_finite: bool) -> tuple[np.ndarray, tuple[int, int]]:
    """Means of blocks, at most 48 each way, and the size of a block; NaN where a block has an
    element that is not finite."""
    rows, columns = (_edges(length, SIDE) for length in matrix.shape)
    if (len(rows), len(columns)) == matrix.shape:
        return matrix.astype(np.float64), (1, 1)
    tall, wide = np.diff(rows, append=matrix.shape[0]), np.diff(columns, append=matrix.shape[1])
    counts = np.outer(tall, wide)
    if is_finite:
        means = _sums(matrix, rows, columns) / counts
    else:
        finite = np.isfinite(matrix)
        means = _sums(np.where(finite, matrix, 0), rows, columns) / counts
        means[_sums(finite, rows, columns) < counts] = np.nan
    return means, (int(tall.max()), int(wide.max()))


def _sums(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    tall = np.add.reduceat(matrix, rows, axis=0, dtype=np.float64)
    return np.add.reduceat(tall, columns, axis=1)


def _edges(length: int, most: int) -> np.ndarray:
    """Where the blocks of an axis begin; all are equal but for the last."""
    return np.arange(0, length, -(-length // most))


def _image_side(array: np.ndarray) -> int:
    """The side of the square images that the rows of an array can be; 0 if they cannot."""
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        side = array.shape[1]
    elif array.ndim == 2:
        side = math.isqrt(array.shape[1])
        side = side if side * side == array.shape[1] else 0
    else:
        side = 0
    return side if side >= SMALLEST_IMAGE else 0


def _grid(array: np.ndarray, side: int) -> tuple[np.ndarray, str]:
    """The first rows as images beside each other, with lines of the highest level between them."""
    count = min(len(array), IMAGES)
    images = array[:count].reshape(count, side, side).astype(np.float64)
    edges = _edges(side, LARGEST_IMAGE)
    shown = len(edges)
    if shown < side:
        sizes = np.diff(edges, append=side)
        images = np.add.reduceat(np.add.reduceat(images, edges, axis=1), edges, axis=2)
        images /= np.outer(sizes, sizes)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    finite = images[np.isfinite(images)]
    line = finite.max() if finite.size else 0.0
    grid = np.full((rows * (shown + 1) - 1, columns * (shown + 1) - 1), line)
    for place, image in enumerate(images):
        row, column = (shown + 1) * (place // columns), (shown + 1) * (place % columns)
        grid[row : row + shown, column : column + shown] = image
    shape = " × ".join(map(str, array.shape))
    what = f"row 0 of {shape}" if count == 1 else f"rows 0-{count - 1} of {shape}"
    return grid, f"{what}, each as an image of {side} × {side}"
