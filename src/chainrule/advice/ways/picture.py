"""The picture of ways: bytes against time a sample, with the line of the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.advice.showing import duration
from chainrule.explain.plot import Axis, Plot, Series
from chainrule.graph.bytes_text import in_bytes

if TYPE_CHECKING:
    from chainrule.advice.ways.way import TrainingWay
    from chainrule.advice.ways.ways import Ways


def best_line(ways: Ways) -> list[TrainingWay]:
    """The ways that none needs fewer bytes for less time than, from the quickest on."""
    found: list[TrainingWay] = []
    for one in sorted(ways, key=lambda one: (one.seconds_a_sample, one.needed_nbytes)):
        if one.seconds and (not found or one.needed_nbytes < found[-1].needed_nbytes):
            found.append(one)
    return found


def plot(ways: Ways) -> Plot:
    """Every way as a point; those that do not fit are hollow."""
    shown = [one for one in ways if one.seconds]
    line = best_line(ways)[::-1]
    points = [(float(one.needed_nbytes), one.seconds_a_sample) for one in shown]
    words = [
        f"{one.what}: {in_bytes(one.needed_nbytes)}, {duration(one.seconds_a_sample)} a sample"
        + ("" if one.fits else f"; {one.why_not}")
        for one in shown
    ]
    series = [
        Series(
            "no way is better",
            [(float(one.needed_nbytes), one.seconds_a_sample) for one in line],
            1,
            dots=False,
            steps=True,
        ),
        Series(
            "ways",
            points,
            0,
            line=False,
            words=words,
            labels=[one.what.partition(":")[0] for one in shown],
            hollow=[not one.fits for one in shown],
        ),
    ]
    if ways.limit_nbytes is not None and points:
        times = [time for _, time in points]
        limit = float(ways.limit_nbytes)
        edge = [(limit, min(times)), (limit, max(times))]
        series.append(Series("memory", edge, 3, dots=False, dashed=True))
    best = ways.fitting[0] if ways.fitting else None
    first = f"The quickest that fits is {best.what}: " if best else "None fits. "
    return Plot(
        f"Ways to train {ways.name}: bytes against time",
        Axis("bytes of the device that needs most", lambda n: in_bytes(int(n)), True, binary=True),
        Axis("time a sample", duration, logarithmic=True),
        series,
        first + "; ".join(words) + ".",
    )
