"""Central finite differences along a direction, with a bound on the error of each number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.dataclass import dataclass

EPS = float(np.finfo(np.float64).eps)

# Relative to the direction, which is as long as the argument is large.  The first one nearly always
# suffices: it is small enough to miss most kinks, and at 1e-4 a slope has lost only four digits
# more than the function; the others serve functions that are rough, noisy or close to a kink.
STEPS = (1e-4, 1e-3, 1e-5, 1e-2, 1e-6)
SETTLED = 1e-7

# How many roundings the rounding term stands for: the two values of the difference, their two
# arguments, and a few of the function's own.
ROUNDINGS = 8

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Slope:
    """The derivative of each element of an output along a direction, and how far it may be off."""

    value: np.ndarray
    error: np.ndarray


def slopes(
    function: Callable[[list[np.ndarray]], Arrays],
    point: Arrays,
    direction: Arrays,
    magnitude: float,
) -> list[Slope]:
    """The derivative of each output of `function` at `point` along `direction`.

    For a step h, D(h) = (f(x + hv) - f(x - hv)) / 2h errs by O(h^2), and D(h/2) by a quarter of
    that, so Richardson's D(h/2) + (D(h/2) - D(h)) / 3 errs by O(h^4).  The bound is the sum of

    * truncation: |D(h/2) - D(h)|, three times the error of D(h/2) and far more than the error of
      what is returned; next to a kink it is as large as the jump of the slope;
    * rounding: ROUNDINGS eps (m + |D|) / h, where m is the largest element of the output, and at
      least `magnitude`, the size of what the function was computed from.

    Each element takes the step where its bound is least.  Where no step gives a finite value, the
    value is NaN and the bound inf.
    """
    found: list[Slope] = []
    for step in STEPS:
        coarse, fine = (_slope(function, point, direction, h) for h in (step, step / 2))
        settled = True
        for index, ((rough, high), (value, low)) in enumerate(zip(coarse, fine, strict=True)):
            eps = max(EPS, float(np.finfo(value.dtype).eps))
            rough, value = rough.astype(np.float64), value.astype(np.float64)
            with np.errstate(all="ignore"):
                rounding = ROUNDINGS * eps * (max(high, low, magnitude) + np.abs(value)) / step
                truncation = np.abs(value - rough)
                slope = Slope(value + (value - rough) / 3, truncation + rounding)
                if index == len(found):
                    found.append(_nothing(value.shape))
                better = slope.error < found[index].error
                found[index] = best = Slope(
                    np.where(better, slope.value, found[index].value),
                    np.where(better, slope.error, found[index].error),
                )
                limit = SETTLED * np.abs(best.value) + 2 * rounding
                settled = settled and bool(np.all(best.error <= limit))
        if settled:
            break
    return found


def _nothing(shape: tuple[int, ...]) -> Slope:
    return Slope(np.full(shape, np.nan), np.full(shape, np.inf))


def _slope(
    function: Callable[[list[np.ndarray]], Arrays], point: Arrays, direction: Arrays, step: float
) -> list[tuple[np.ndarray, float]]:
    """D(step) of each output, and the largest element that went into it."""
    pairs = zip(point, direction, strict=True)
    moved = [(x + step * v, x - step * v) for x, v in pairs]
    ahead = function([plus for plus, _ in moved])
    behind = function([minus for _, minus in moved])
    with np.errstate(all="ignore"):
        return [
            (np.asarray((a - b) / (2 * step)), largest([a, b]))
            for a, b in zip(ahead, behind, strict=True)
        ]


def largest(arrays: Arrays) -> float:
    """The largest absolute value of a finite element; 0 where there is none."""
    best = 0.0
    for array in arrays:
        finite = np.abs(array[np.isfinite(array)])
        best = max(best, float(finite.max(initial=0)))
    return best
