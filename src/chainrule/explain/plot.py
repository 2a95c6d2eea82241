"""Draws points and lines over two axes as SVG, for screen, paper and dark pages, with words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, inf, isfinite, log10
from pathlib import Path

from chainrule.dataclass import dataclass
from chainrule.explain.writing import write_svg
from chainrule.graph.words import printable

ABOVE, BELOW, BEFORE, BEHIND = 72, 72, 84, 28  # pixels around the plot
LETTER = 6.6  # pixels, about, of one letter
COLOURS = 6
POINTS = 400  # of a line without dots at most: more than that differ by less than two pixels
STYLE = (
    ".paper{fill:#fff}.ink{fill:#1a1a1a}.muted{fill:#555}.grid{stroke:#d0d0d0}.axis{stroke:#1a1a1a}"
    ".s0{color:#7a4fa3}.s1{color:#0b6e8a}.s2{color:#b35900}.s3{color:#777}.s4{color:#00714f}"
    ".s5{color:#a8246b}"
    ".line{stroke:currentColor;fill:none;stroke-width:2}.dashed{stroke-dasharray:6 4}"
    ".band{fill:currentColor;opacity:.18;stroke:none}.dot{fill:currentColor}"
    ".hollow{fill:none;stroke:currentColor;stroke-width:2}"
    "@media screen and (prefers-color-scheme:dark){.paper{fill:#16181d}.ink{fill:#eceff4}"
    ".muted{fill:#aab1bd}.grid{stroke:#363b45}.axis{stroke:#aab1bd}.s0{color:#c3a2e8}"
    ".s1{color:#63c3dd}.s2{color:#f0a04b}.s3{color:#9aa1ad}.s4{color:#5cc9a0}.s5{color:#f08cc0}}"
)

# Marks between two powers of ten, or of two: the first that are enough are taken.
FINER = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
FINER_BINARY = ((1,), (1, 1.5), (1, 1.25, 1.5, 1.75))

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Points with a name: joined by a line, as dots, or both; `colour` is 0 to 5.

    What is not finite, or not positive on a logarithmic axis, is a gap.  `words`
    are told where a pointer is over a point; `labels` are written beside points.
    """

    name: str
    points: Sequence[Point]
    colour: int = 0
    line: bool = True
    dots: bool = True
    dashed: bool = False
    steps: bool = False
    words: Sequence[str] = ()
    labels: Sequence[str] = ()
    hollow: Sequence[bool] = ()
    band: Sequence[Point] = ()  # lowest and highest of each point


@dataclass(frozen=True)
class Axis:
    """What an axis measures; `shown` writes a value of it.  It begins at 0 if it is `from_zero` and
    not logarithmic.

    Marks are at whole numbers where these are all it has (`whole`), and at powers of two and parts
    of them where that is how it counts (`binary`, of logarithmic ones).
    """

    name: str
    shown: Callable[[float], str]
    logarithmic: bool = False
    whole: bool = False
    binary: bool = False
    from_zero: bool = True


@dataclass(frozen=True)
class Plot:
    """A picture; `description` says what it shows to those who cannot see it."""

    title: str
    across: Axis
    up: Axis
    series: Sequence[Series]
    description: str
    width: int = 720  # pixels
    height: int = 420

    def svg(self) -> str:
        """The picture, which needs nothing else."""
        return _Drawing(self).svg()

    def save(self, path: str | Path) -> None:
        """Write it to a file, whose name ends in .svg."""
        write_svg(Path(path), self.svg(), "plot")


class _Scale:
    """From values to pixels."""

    def __init__(self, axis: Axis, values: list[float], begin: int, end: int) -> None:
        self.axis, self.begin, self.end = axis, begin, end
        known = [one for one in values if isfinite(one) and (one > 0 or not axis.logarithmic)]
        low, high = min(known, default=1.0), max(known, default=1.0)
        if axis.logarithmic:
            low, high = log10(low), log10(high)
            spare = 0.06 * (high - low) or 0.5
            self.low, self.high = low - spare, high + spare
        elif axis.from_zero:
            self.low, self.high = min(low, 0.0), high * 1.08 or 1.0
        else:
            spare = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
            self.low, self.high = low - spare, high + spare

    def __call__(self, value: float) -> float:
        if self.axis.logarithmic:
            value = log10(value) if value > 0 else -inf
        part = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * min(max(part, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values: powers of ten or two and parts of them, or multiples of one step."""
        if not self.axis.logarithmic:
            step = 10 ** floor(log10(self.high - self.low))
            step *= next(
                k for k in (0.1, 0.2, 0.25, 0.5, 1, 2) if (self.high - self.low) / k < 6 * step
            )
            step = max(step, 1.0) if self.axis.whole else step
            first = ceil(self.low / step)
            return [step * k for k in range(first, floor(self.high / step) + 1)]
        base = 2.0 if self.axis.binary else 10.0
        each = log10(base)
        found: list[float] = []
        for factors in FINER_BINARY if self.axis.binary else FINER:
            found = [
                factor * base**power
                for power in range(floor(self.low / each), ceil(self.high / each) + 1)
                for factor in factors
                if self.low <= log10(factor) + power * each <= self.high
            ]
            if len(found) >= 4:
                break
        return found[:: 1 + len(found) // 9]


class _Drawing:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.right, self.bottom = plot.width - BEHIND, plot.height - BELOW
        points = [point for one in plot.series for point in one.points if self._is_known(point)]
        bands = [end for one in plot.series for pair in one.band for end in pair]
        self.is_empty = not points
        self.x = _Scale(plot.across, [x for x, _ in points], BEFORE, self.right)
        self.y = _Scale(plot.up, [*[y for _, y in points], *bands], self.bottom, ABOVE)

    def _is_known(self, point: Point) -> bool:
        axes = zip(point, (self.plot.across, self.plot.up), strict=True)
        return all(isfinite(one) and (one > 0 or not axis.logarithmic) for one, axis in axes)

    def svg(self) -> str:
        plot = self.plot
        title = printable(plot.title)
        key = f"p{hashlib.sha256(f'{title}{plot.series}'.encode()).hexdigest()[:8]}"
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{plot.width}" height="{plot.height}" '
            f'viewBox="0 0 {plot.width} {plot.height}" id="{key}" role="img" '
            f'aria-labelledby="{key}-t {key}-d" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f'<title id="{key}-t">{escape(title)}</title>',
            f'<desc id="{key}-d">{escape(printable(plot.description))}</desc>',
            f"<style>{re.sub(r'[.](?=[a-z])', f'#{key} .', STYLE)}</style>",
            f'<rect class="paper" width="{plot.width}" height="{plot.height}"/>',
            _words(16, 26, title, "ink", size=16),
            _words(16, 54, plot.up.name, "muted"),
        ]
        if self.is_empty:
            lines.append(_words(BEFORE, plot.height / 2, "nothing to show yet", "muted"))
            return "\n".join([*lines, "</svg>"]) + "\n"
        along = _words(self.right, plot.height - 34, plot.across.name, "muted", anchor="end")
        lines += [along, *self._grid()]
        for one in plot.series:
            lines += self._series(one)
        return "\n".join([*lines, *self._legend(), "</svg>"]) + "\n"

    def _grid(self) -> list[str]:
        lines = []
        for value in self.y.ticks():
            y = self.y(value)
            lines.append(f'<path class="grid" d="M{BEFORE} {y:.1f}H{self.right}"/>')
            lines.append(
                _words(BEFORE - 8, y + 4, self.plot.up.shown(value), "muted", anchor="end")
            )
        lines.append(f'<path class="axis" d="M{BEFORE} {self.bottom}H{self.right}"/>')
        for value in self.x.ticks():
            x = self.x(value)
            lines.append(f'<path class="axis" d="M{x:.1f} {self.bottom}v5"/>')
            shown = self.plot.across.shown(value)
            lines.append(_words(x, self.bottom + 19, shown, "muted", anchor="middle"))
        return lines

    def _series(self, one: Series) -> list[str]:
        places = [(self.x(x), self.y(y)) for x, y in one.points]
        lines = [f'<g class="s{one.colour}">']
        if one.band and places:
            above = [
                f"{x:.1f} {self.y(high):.1f}"
                for (x, _), (_, high) in zip(places, one.band, strict=True)
            ]
            below = [
                f"{x:.1f} {self.y(low):.1f}"
                for (x, _), (low, _) in zip(places, one.band, strict=True)
            ]
            lines.append(f'<path class="band" d="M{"L".join([*above, *below[::-1]])}Z"/>')
            lines += [
                f'<path class="line" d="M{top}L{bottom}"/>'
                for top, bottom in zip(above, below, strict=True)
            ]
        if one.line and places:
            dashed = " dashed" if one.dashed else ""
            lines.append(f'<path class="line{dashed}" d="{self._path(one, places)}"/>')
        for place, (x, y) in enumerate(places if one.dots else ()):
            if not self._is_known(one.points[place]):
                continue
            hollow = place < len(one.hollow) and one.hollow[place]
            told = one.words[place] if place < len(one.words) else ""
            title = f"<title>{escape(printable(told))}</title>" if told else ""
            shape = "hollow" if hollow else "dot"
            lines.append(
                f'<circle class="{shape}" cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
            )
        lines.append("</g>")
        lines += self._labels(one, places)
        return lines

    def _path(self, one: Series, places: Sequence[Point]) -> str:
        """The line through the points that are known; one that is not is a gap."""
        every = 1 if one.dots or one.band else ceil(len(places) / POINTS)
        shown = [*range(0, len(places) - 1, every), len(places) - 1]
        path, is_begun = "", False
        for place in shown:
            x, y = places[place]
            is_known = self._is_known(one.points[place])
            if is_known and not is_begun:
                path += f"M{x:.1f} {y:.1f}"
            elif is_known:
                path += f"H{x:.1f}V{y:.1f}" if one.steps else f"L{x:.1f} {y:.1f}"
            is_begun = is_known
        return path

    def _labels(self, one: Series, places: Sequence[Point]) -> list[str]:
        """Words beside points, where there is room."""
        lines, taken = [], [(x - 6, x + 6, y + 4) for x, y in places]
        for line in self.plot.series if one.labels else ():
            taken += self._steps(line)
        for (x, y), label in zip(places, one.labels, strict=False):
            wide = len(label) * LETTER
            fits = x + 8 + wide <= self.right + 20
            begin, at, anchor = (x + 8, x + 8, "start") if fits else (x - 8 - wide, x - 8, "end")
            for up in (4.0, -10.0, 18.0):
                free = all(
                    abs(y + up - b) > 13 or begin > e or a > begin + wide for a, e, b in taken
                )
                if free and y + up < self.bottom - 2:
                    taken.append((begin, begin + wide, y + up))
                    lines.append(_words(at, y + up, label, "ink", size=11, anchor=anchor))
                    break
        return lines

    def _steps(self, one: Series) -> Iterator[tuple[float, float, float]]:
        """From where to where, and at which height of words, the steps of a series are drawn."""
        places = [(self.x(x), self.y(y)) for x, y in one.points if one.steps]
        for (a, y), (b, below) in pairwise(places):
            yield min(a, b), max(a, b), y + 4
            for height in range(int(min(y, below)), int(max(y, below)), 12):
                yield b - 2, b + 2, height + 4.0

    def _legend(self) -> list[str]:
        lines, x = [], float(BEFORE)
        middle = self.plot.height - 16
        for one in self.plot.series:
            if not one.name:
                continue
            mark = f'<circle class="dot" cx="{x + 11:.0f}" cy="{middle}" r="4"/>'
            if one.line:
                kind = "line dashed" if one.dashed else "line"
                mark = f'<path class="{kind}" d="M{x:.0f} {middle}h22"/>'
            lines.append(f'<g class="s{one.colour}">{mark}</g>')
            lines.append(_words(x + 28, middle + 4, one.name, "ink"))
            x += 46 + LETTER * len(one.name)
        return lines


def _words(
    x: float, y: float, text: str, kind: str, *, size: int = 12, anchor: str = "start"
) -> str:
    shown = escape(printable(text))
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" '
        f'text-anchor="{anchor}">{shown}</text>'
    )
