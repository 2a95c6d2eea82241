"""Estimates the noise of gradients from those of single examples, and how sure the estimates are.

McCandlish et al. (2018), "An Empirical Model of Large-Batch Training", appendix A: gradients of
single examples have the covariance Σ about their mean G; the noise scale is tr Σ / |G|², the batch
with which a step is half as good as one along G itself.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from chainrule.dataclass import dataclass

DOUBLINGS, HALVINGS = 200, 80  # of a search


@dataclass(frozen=True)
class Noise:
    """Estimates, each without bias but for the quotient.

    `trace` is tr Σ, the variance of the gradient of one example, summed over elements; `square` is
    |G|², the squared norm of the mean gradient, without what noise adds to it: it may come out
    negative, where `scale` is infinite.
    """

    trace: float
    square: float

    @property
    def scale(self) -> float:
        """tr Σ / |G|², in examples."""
        if self.square > 0:
            return self.trace / self.square
        return inf if self.trace > 0 else nan


def noise_of(squares: np.ndarray, own: float, whole: float) -> Noise:
    """The noise from the squared norms of each example's gradient, and of their mean.

    `own` is the squared norm of the mean of these gradients, `whole` that of the mean gradient with
    what all examples share (a penalty's).  Of one example the trace is not known: NaN.
    """
    count = len(squares)
    if count < 2:
        return Noise(nan, nan)
    trace = (float(np.sum(squares)) - count * own) / (count - 1)
    return Noise(max(trace, 0.0), whole - max(trace, 0.0) / count)


def two_batch_noise(small: int, large: int, small_square: float, large_square: float) -> Noise:
    """The noise from squared norms of mean gradients of batches of two sizes.

    Of parts and the whole of one batch, such as what replicas compute and their sum; appendix A.1.
    `small_square` is best a mean over several batches.
    """
    square = (large * large_square - small * small_square) / (large - small)
    trace = (small_square - large_square) / (1 / small - 1 / large)
    return Noise(trace, square)


def interval(
    squares: np.ndarray,
    slopes: np.ndarray,
    shifted: np.ndarray,
    own: float,
    whole: float,
    shift: float,
    confidence: float,
) -> tuple[float, float]:
    """From where to where the noise scale lies, with this confidence.

    `slopes` are ⟨d_i, d̄⟩ of each example's gradient d_i and their mean, `shifted` are ⟨d_i, q⟩ with
    what all share, `own` is |d̄|², `whole` |d̄ + q|², `shift` |q|².

    n|ḡ|² / tr Σ is taken as non-central F.  Its degrees of freedom are those with which the
    variances of both estimates are what they come out as where each example is left out once
    (jackknife), so that uneven spectra and heavy tails count.  The upper end is infinite where the
    mean gradient may be zero.
    """
    from scipy.special import ncfdtr

    count = len(squares)
    noise = noise_of(squares, own, whole)
    if count < 4 or not noise.trace > 0:
        return (0.0, inf)
    means = (count**2 * own - 2 * count * slopes + squares) / (count - 1) ** 2
    traces = (np.sum(squares) - squares - (count - 1) * means) / (count - 2)
    inner = (count * float(np.mean(shifted)) - shifted) / (count - 1)
    norms = means + 2 * inner + shift - traces / (count - 1)
    of_trace, of_square = [
        float(np.var(one, ddof=1)) * (count - 1) ** 2 / count for one in (traces, norms)
    ]
    if not of_square > 0:
        return (noise.scale, noise.scale)
    # The variance 2 (tr Σ)² / (n² ν) + 4 tr Σ |G|² / (n ν); the jackknife doubles the first part.
    degrees = 4 * noise.trace**2 / count**2 + 4 * noise.trace * max(noise.square, 0.0) / count
    degrees = max(degrees / of_square, 1.0)
    others = max(2 * noise.trace**2 / of_trace, 1.0) if of_trace > 0 else 1e9
    ratio = count * whole / noise.trace
    rest = (1 - confidence) / 2

    def at(probability: float) -> float:
        """The non-centrality with which so much lies below what was found."""

        def more(centre: float) -> bool:
            return bool(ncfdtr(degrees, others, centre, ratio) > probability)

        if not more(0.0):
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(DOUBLINGS):
            if not more(high):
                break
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if more(middle) else (low, middle)
        return low

    ends = [at(rest), at(1 - rest)]
    low, high = [count * degrees / one if one > 0 else inf for one in ends]
    return (low, high)
