"""Draws series of numbers as lines in an SVG picture: one axis to the right, one upwards."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from html import escape

from chainrule.graph.words import printable

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 446, 56, 222  # of the plot
# Okabe and Ito's colours, which people with any colour vision tell apart, darkened for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56a0d3")
POINTS = 400  # of a line at most: more than that differ by less than a pixel


def line_chart(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    along: str = "step",
    log: bool = False,
) -> str:
    """The lines through the points (x, y) of each series; `log` has a logarithmic axis upwards.

    `along` says what x is.

    Points that are not finite, and with `log` those that are not positive, are gaps.
    """
    shown = {name: _shown(points, log) for name, points in series.items()}
    points = [point for line in shown.values() for point in line if point is not None]
    key = f"l{hashlib.sha256(f'{title}{shown}'.encode()).hexdigest()[:8]}"
    title = printable(title)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{key}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f"<style>#{key} text{{fill:#333}}#{key} .page{{fill:#fff}}#{key} .grid{{stroke:#ddd}}"
        f"@media (prefers-color-scheme:dark){{#{key} text{{fill:#ddd}}#{key} .page{{fill:#15181d}}"
        f"#{key} .grid{{stroke:#3a3f46}}}}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="12" y="22" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    if points:
        lines += _plot(shown, points, log)
        label = escape(printable(along))
        lines.append(f'<text x="{RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{label}</text>')
    else:
        lines.append(f'<text x="{LEFT}" y="{(TOP + BOTTOM) // 2}">nothing to show yet</text>')
    return "\n".join([*lines, "</svg>"])


def _shown(points: Sequence[tuple[float, float]], log: bool) -> list[tuple[float, float] | None]:
    """The points as they are drawn, every nth of many, None for a gap."""
    every = max(1, math.ceil(len(points) / POINTS))
    kept = [*points[:-1:every], *points[-1:]]
    return [
        (x, math.log10(y) if log else y) if math.isfinite(y) and not (log and y <= 0) else None
        for x, y in kept
    ]


def _plot(
    shown: Mapping[str, list[tuple[float, float] | None]],
    points: Sequence[tuple[float, float]],
    log: bool,
) -> list[str]:
    lows, highs = zip(*((min(axis), max(axis)) for axis in zip(*points, strict=True)), strict=True)
    (x_low, y_low), (x_high, y_high) = lows, highs

    def x_of(x: float) -> float:
        return LEFT + (RIGHT - LEFT) * (x - x_low) / ((x_high - x_low) or 1)

    def y_of(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (y - y_low) / ((y_high - y_low) or 1)

    lines = []
    for y in _ticks(y_low, y_high):
        number = f"{10**y:.2g}" if log else f"{y:.4g}"
        lines.append(f'<path class="grid" d="M{LEFT} {y_of(y):.1f}H{RIGHT}"/>')
        lines.append(
            f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{number}</text>'
        )
    for x in _ticks(x_low, x_high):
        lines.append(
            f'<text x="{x_of(x):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{x:.4g}</text>'
        )
    place = float(LEFT)
    for index, (name, line) in enumerate(shown.items()):
        colour = COLOURS[index % len(COLOURS)]
        path, pen = "", "M"
        for point in line:
            if point is None:
                pen = "M"
                continue
            path += f"{pen}{x_of(point[0]):.1f} {y_of(point[1]):.1f}"
            pen = "L"
        lines.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )
        name = printable(name)
        lines.append(f'<path d="M{place:.0f} 38h14" stroke="{colour}" stroke-width="3"/>')
        lines.append(f'<text x="{place + 19:.0f}" y="42">{escape(name)}</text>')
        place += 36 + 7 * len(name)
    return lines


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, about four; the number itself where they are equal."""
    if not high > low:
        return [low]
    rough = (high - low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    return [place * step for place in range(first, math.floor(high / step) + 1)]
