"""Chooses a batch: what a larger one saves in time against what it costs in examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, isfinite, log

from chainrule.dataclass import dataclass

GOLDEN = 0.6180339887498949
ROUNDS = 60  # of a search


@dataclass(frozen=True)
class Training:
    """What a training to a given objective takes with a batch, beside the least of each: `steps`
    times the steps of the largest batch, `samples` times the samples of the smallest (McCandlish et
    al. 2018, equation 2.7), and the seconds of its steps for each least step."""

    batch: float
    steps: float
    samples: float
    seconds: float


def training_with(scale: float, batch: float, seconds: float) -> Training:
    """What a batch takes where the noise scale is `scale` and a step `seconds`."""
    steps = 1 + scale / batch
    return Training(batch, steps, 1 + batch / scale if scale else inf, steps * seconds)


def recommended(scale: float, seconds: Callable[[float], float], least: int, most: int) -> float:
    """The batch from `least` to `most` with the least product of time and samples.

    There, a larger batch saves as large a part of the time as it costs more of the samples; of a
    smaller one, the next batch saves more time for each sample lost, of a larger one less.  Where a
    step takes as long for any batch, that is the noise scale itself.  `seconds` are of a step.
    """
    if not isfinite(scale):
        return float(most)

    def product(place: float) -> float:
        one = training_with(scale, exp(place), seconds(exp(place)))
        return log(one.seconds) + log(one.samples)

    if scale <= 0:
        return float(least)
    grid = [log(least) + (log(most) - log(least)) * k / ROUNDS for k in range(ROUNDS + 1)]
    best = min(range(len(grid)), key=lambda k: product(grid[k]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, ROUNDS)]
    for _ in range(ROUNDS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if product(left) <= product(right):
            high = right
        else:
            low = left
    return exp((low + high) / 2)


def between(batches: Sequence[int], seconds: Sequence[float]) -> Callable[[float], float]:
    """Seconds of a step for any batch, from those of some: along lines of the logarithms."""
    pairs = sorted(zip(batches, seconds, strict=True))

    def at(batch: float) -> float:
        after = next((k for k, (one, _) in enumerate(pairs) if one >= batch), len(pairs) - 1)
        if not after:
            return pairs[0][1]
        (low, first), (high, second) = pairs[after - 1], pairs[after]
        part = (log(batch) - log(low)) / (log(high) - log(low))
        return exp(log(first) + part * (log(second) - log(first)))

    return at
