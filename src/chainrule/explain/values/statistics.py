"""Summarises an array: extremes, mean, norm, and the number of NaN and inf."""

from __future__ import annotations

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.dtypes import dtype_kind


@dataclass(frozen=True)
class Statistics:
    """Of the finite elements: least, greatest, mean, Euclidean norm; NaN where there are none.

    All are computed in float64.  `nan` and `infinite` count the other elements.
    """

    count: int
    least: float
    greatest: float
    mean: float
    norm: float
    nan: int
    infinite: int


def statistics_of(array: np.ndarray) -> Statistics:
    """The statistics of an array of numbers or booleans, of any shape."""
    values = np.asarray(array).reshape(-1)
    if dtype_kind(values.dtype) != "f":
        return _of_finite(values.astype(np.float64), 0, 0)
    finite = np.isfinite(values)
    if finite.all():
        return _of_finite(values.astype(np.float64, copy=False), 0, 0)
    nan = int(np.isnan(values).sum())
    infinite = values.size - int(finite.sum()) - nan
    return _of_finite(values[finite].astype(np.float64), nan, infinite)


def _of_finite(values: np.ndarray, nan: int, infinite: int) -> Statistics:
    count = values.size + nan + infinite
    if not values.size:
        return Statistics(count, np.nan, np.nan, np.nan, np.nan, nan, infinite)
    least, greatest = float(values.min()), float(values.max())
    largest = max(abs(least), abs(greatest))
    # Squares and sums of numbers near the largest float overflow: they are taken in its units.
    unit = largest if largest > 1e150 or 0 < largest < 1e-150 else 1.0
    scaled = values / unit if unit != 1.0 else values
    mean = float(scaled.mean()) * unit
    norm = float(np.sqrt(np.dot(scaled, scaled))) * unit
    return Statistics(count, least, greatest, mean, norm, nan, infinite)
