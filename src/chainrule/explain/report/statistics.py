"""What the page says of an array in numbers: statistics, histogram, the elements of a small one.

Large arrays are read in pieces, so that no copy of a whole one is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.explain.report.plain import element, known, number
from chainrule.explain.values.statistics import statistics_of

PIECE = 1 << 20  # elements that are read at once
BINS = 24
FEW = 16  # elements that are shown themselves


@dataclass(frozen=True)
class Summary:
    """Of the finite elements, in float64: NaN where there are none.  `counts` are the histogram's.

    `nan` and `infinite` count the elements that are not finite; `count` counts all.
    """

    count: int
    least: float
    greatest: float
    mean: float
    deviation: float
    norm: float
    zeros: int
    nan: int
    infinite: int
    counts: tuple[int, ...] | None

    @property
    def is_finite(self) -> bool:
        """Whether every element is."""
        return not (self.nan or self.infinite)

    @property
    def finite(self) -> int:
        """How many elements are finite."""
        return self.count - self.nan - self.infinite


def summary_of(array: np.ndarray) -> Summary:
    """The summary of an array of numbers or booleans, of any shape."""
    least, greatest, mean, norm = math.inf, -math.inf, 0.0, 0.0
    zeros = nan = infinite = finite = 0
    for piece in _pieces(array):
        one = statistics_of(piece)
        inside = one.count - one.nan - one.infinite
        nan, infinite = nan + one.nan, infinite + one.infinite
        zeros += one.count - int(np.count_nonzero(piece))
        if inside:
            finite += inside
            least, greatest = min(least, one.least), max(greatest, one.greatest)
            mean += (one.mean - mean) * (inside / finite)
            norm = math.hypot(norm, one.norm)
    if not finite:
        none = math.nan
        return Summary(array.size, none, none, none, none, none, zeros, nan, infinite, None)
    mean = min(max(mean, least), greatest)
    squares, counts = _around(array, mean, least, greatest, is_finite=not (nan or infinite))
    unit = max(abs(least), abs(greatest)) or 1.0
    deviation = math.sqrt(squares / finite) * unit
    return Summary(array.size, least, greatest, mean, deviation, norm, zeros, nan, infinite, counts)


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = array.ravel(order="K")  # no copy where the elements lie together, in whatever order
    for start in range(0, flat.size, PIECE):
        yield flat[start : start + PIECE]


def _around(
    array: np.ndarray, mean: float, least: float, greatest: float, *, is_finite: bool
) -> tuple[float, tuple[int, ...] | None]:
    """The sum of squared differences from the mean, in units of the largest; the histogram."""
    if least == greatest:
        return 0.0, None
    unit = max(abs(least), abs(greatest))
    low, high = least / unit, greatest / unit
    squares, counts = 0.0, np.zeros(BINS, np.int64)
    for piece in _pieces(array):
        values = piece.astype(np.float64)
        if not is_finite:
            values = values[np.isfinite(values)]
        values /= unit
        places = ((values - low) * (BINS / (high - low))).astype(np.int64)
        counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)
        values -= mean / unit
        squares += float(np.square(values, out=values).sum())
    return squares, tuple(counts.tolist())


def statistics_data(one: Summary) -> dict[str, Any]:
    """The `stats` of a value."""
    rms = one.norm / math.sqrt(one.finite) if one.finite else math.nan
    return {
        "min": known(one.least),
        "max": known(one.greatest),
        "mean": known(one.mean),
        "std": known(one.deviation),
        "norm": known(one.norm),
        "rms": known(rms),
        "zeros": one.zeros,
        "nan": one.nan,
        "infinite": one.infinite,
        "count": one.count,
    }


def histogram_data(one: Summary) -> dict[str, Any] | None:
    """The `histogram` of a value; None where all finite elements are equal."""
    if one.counts is None:
        return None
    return {"low": number(one.least), "high": number(one.greatest), "counts": list(one.counts)}


def elements_data(array: np.ndarray) -> list[Any] | None:
    """The elements in C order, where there are few."""
    return [element(one) for one in array.ravel()] if array.size <= FEW else None
