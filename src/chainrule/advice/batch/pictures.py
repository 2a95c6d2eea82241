"""The pictures of a study of batches: noise along training, time a sample against batch."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from chainrule.advice.showing import duration, number
from chainrule.explain.plot import Axis, Plot, Series

if TYPE_CHECKING:
    from chainrule.advice.batch.study import BatchStudy


def noise_plot(study: BatchStudy) -> Plot:
    """The noise scale by steps of training, with its interval."""
    known = [one for one in study.noise if isfinite(one.total.scale)]
    points = [(float(one.steps), one.total.scale) for one in known]
    band = [(one.low, one.high if isfinite(one.high) else one.total.scale * 10) for one in known]
    words = [
        f"after {one.steps:,} steps: {number(one.total.scale)}, from {number(one.low)} to "
        f"{number(one.high)}"
        for one in known
    ]
    told = "; ".join(words) or "no scale is known"
    return Plot(
        f"Noise scale of {study.name} along training",
        Axis("steps", lambda value: f"{value:,.0f}", whole=True),
        Axis("noise scale, in samples", number, logarithmic=True),
        [Series("noise scale", points, 0, words=words, band=band)],
        f"The noise scale, with its interval: {told}.",
    )


def time_plot(study: BatchStudy) -> Plot:
    """Time a sample by batch, with the least by operations and by memory: two rooflines."""
    batches = study.batches
    across = [float(one.batch) for one in batches]
    taken = [one.seconds_a_sample for one in batches]
    words = [
        f"{study.size} = {one.batch}: {duration(one.seconds_a_sample)} a sample, "
        f"{one.of_best:.0%} of the best operations a second, {one.of_memory:.0%} of memory"
        for one in batches
    ]
    lines = [
        [least[place] / one.batch for least, one in zip(study.rooflines, batches, strict=True)]
        for place in (0, 1)
    ]
    first, last = batches[0], batches[-1]
    return Plot(
        f"Time a sample of {study.name} by batch",
        Axis(f"rows of a batch, {study.size}", lambda value: f"{value:,.0f}", logarithmic=True),
        Axis("time a sample", duration, logarithmic=True),
        [
            Series("a step", list(zip(across, taken, strict=True)), 0, words=words),
            Series("least by operations", list(zip(across, lines[0], strict=True)), 1, dots=False),
            Series(
                "least by memory",
                list(zip(across, lines[1], strict=True)),
                2,
                dots=False,
                dashed=True,
            ),
        ],
        f"A sample takes {duration(first.seconds_a_sample)} with {first.batch} rows and "
        f"{duration(last.seconds_a_sample)} with {last.batch}: there, {last.of_best:.0%} of the "
        f"best operations a second and {last.of_memory:.0%} of what memory moves.",
    )
