"""How a time is taken: bursts of calls, in turns, and the statistics of what they gave."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

QUIET = 0.25  # of one CPU, over a pause: more is a pool of threads that spins


@dataclass(frozen=True)
class Timing:
    """What one turn is made of, in seconds; README.md says why.

    A turn begins with a pause of `pause`, and more until no thread of the process is busy; it runs
    calls for `warm` (at least `fewest`) that do not count, then calls for `burst` (at least
    `fewest`) that do.
    """

    pause: float = 0.04
    warm: float = 0.005
    burst: float = 0.02
    fewest: int = 2


def call_seconds(call: Callable[[], Any], at_least: float, fewest: int) -> list[float]:
    """The seconds of each of as many calls as take `at_least`, and are at least `fewest`."""
    clock, taken = time.perf_counter, []
    begin = end = clock()
    while end - begin < at_least or len(taken) < fewest:
        before = clock()
        call()
        end = clock()
        taken.append(end - before)
    return taken


def wait_for_quiet(pause: float) -> None:
    """Sleep for `pause`, again until the threads of this process sleep too; at most ten times."""
    for _ in range(10):
        before = time.process_time()
        time.sleep(pause)
        if time.process_time() - before <= QUIET * pause:
            return


def turn_seconds(call: Callable[[], Any], timing: Timing) -> float:
    """The median seconds of a call in one turn."""
    wait_for_quiet(timing.pause)
    call_seconds(call, timing.warm, timing.fewest)
    return median(call_seconds(call, timing.burst, timing.fewest))


def alternate(
    calls: Mapping[str, Callable[[], Any]], rounds: int, timing: Timing
) -> dict[str, list[float]]:
    """Seconds by name, one for each round; a round is one turn of each, in order (A B C A B C)."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name].append(turn_seconds(call, timing))
    finally:
        gc.enable()
    return samples


def cpu_seconds_elsewhere() -> float | None:
    """The CPU seconds of all other processes since the machine began; None where it is not told."""
    try:
        ticks = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, ticks)
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()


@dataclass(frozen=True)
class Estimate:
    """A median with its interval; `low` and `high` are None where there are too few samples."""

    median: float
    low: float | None
    high: float | None


def median_estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median, and the narrowest pair of order statistics that holds it so surely.

    Between the k-th smallest and the k-th largest of n independent values lies the median of their
    distribution, whatever that is, with probability 1 - 2 P(B < k), B binomial (n, 1/2)
    (David and Nagaraja, Order Statistics, section 7.1).  At 0.95 this takes at least 6 values.
    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("the median of no values")
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0  # P(B < rank)
    while rank < (count + 1) // 2:
        more = outside + math.comb(count, rank) / 2**count
        if 1 - 2 * more < confidence:
            break
        outside, rank = more, rank + 1
    if rank == 0:
        return Estimate(median(ordered), None, None)
    return Estimate(median(ordered), ordered[rank - 1], ordered[count - rank])


def paired_ratio(theirs: Sequence[float], ours: Sequence[float]) -> Estimate:
    """Of theirs / ours, round by round: a drift of the machine is in both, and cancels.

    Raises ValueError where the rounds do not pair.
    """
    return median_estimate([their / our for their, our in zip(theirs, ours, strict=True)])


def geometric_mean(values: Sequence[float]) -> float:
    """The n-th root of the product of n positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))
