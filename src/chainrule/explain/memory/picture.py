"""Draws the memory timeline as SVG: needs nothing installed, same plan, same bytes.

Colours are apart under the usual kinds of colour blindness; kinds that lie upon each other differ
in lightness or in a pattern as well, and the legend is in the order of the layers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.run_memory import WORKSPACE, RunMemory
from chainrule.explain.memory.table import written
from chainrule.explain.memory.timeline import Moment
from chainrule.graph.bytes_text import UNITS, in_bytes
from chainrule.graph.words import printable

WIDTH, HEIGHT = 960, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 704, 96, 376  # of the plot
INK, MUTED, MARK, GRID = "#1a1a1a", "#555555", "#d4007f", "#d0d0d0"
LETTER = 7.0  # pixels, about, of one letter in a label
MOST_NAMED = 24  # instructions whose values are named below the axis
MOST_COLUMNS = RIGHT - LEFT  # one pixel each; more instructions than that share columns

# From the lowest layer to the highest: the paint of each kind and the colour of words on it.
# The pattern's name follows the colour.
PAINTS = {
    str(Kind.PARAMETER): ("#66bfff", "", INK),
    str(Kind.CARRIED): ("#8fd0b5", "", INK),
    str(Kind.STATE): ("#b2d9ff", "strokes", INK),
    str(Kind.INPUT): ("#ffffff", "", INK),
    str(Kind.CONSTANT): ("#e4e4e4", "dots", INK),
    str(Kind.SAVED): ("#7a4fa3", "", "#ffffff"),
    str(Kind.GRADIENT): ("#ffb14e", "", INK),
    str(Kind.TEMPORARY): ("#ffe0b3", "", INK),
    str(Kind.RESULT): ("#9a4b00", "dots", "#ffffff"),
    WORKSPACE: ("#c8c8c8", "strokes", INK),
}
STROKES = (
    '<pattern id="{id}" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="{colour}"/>'
    '<path d="M0 0V6" stroke="#1a1a1a" stroke-opacity="0.45" stroke-width="2"/></pattern>'
)
DOTS = (
    '<pattern id="{id}" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="{colour}"/>'
    '<circle cx="3" cy="3" r="1.2" fill="{ink}"/></pattern>'
)

Column = tuple[Moment, int]  # the fullest moment of a column, and the first instruction after it
Layer = tuple[
    str, list[tuple[float, float]]
]  # a kind, and for each column its lower and upper edge


def picture(run: RunMemory, title: str) -> str:
    """The bytes in use by instruction, as SVG."""
    return _Picture(run, title).svg()


def columns(moments: Sequence[Moment]) -> list[Column]:
    """The moments to draw: each, or the fullest of as many as share a pixel."""
    share = -(-len(moments) // MOST_COLUMNS)
    return [
        (max(moments[start : start + share], key=lambda one: one.live_nbytes), start + share)
        for start in range(0, len(moments), share)
    ]


class _Picture:
    """One drawing; methods give SVG elements."""

    def __init__(self, run: RunMemory, title: str) -> None:
        self.run, self.title = run, title
        self.columns = columns(run.timeline)
        self.width = (RIGHT - LEFT) / len(self.columns)
        self.most = max(run.peak_nbytes, 1)
        self.layers = self._layers()
        self.description = self._description()
        digest = hashlib.sha256(f"{title}\n{self.description}\n{self.layers}".encode())
        self.key = f"m{digest.hexdigest()[:8]}"  # two pictures may be on one page

    def svg(self) -> str:
        """The whole picture."""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{self.key}-title {self.key}-desc" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f'<title id="{self.key}-title">{escape(self.title)}</title>',
            f'<desc id="{self.key}-desc">{escape(self.description)}</desc>',
            f"<defs>{self._patterns()}</defs>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            words_at(LEFT, 24, self.title, size=16, weight=600),
            *self._axis(),
            *(self._area(layer) for layer in self.layers),
            *self._below(),
            *self._backward(),
            *self._peak(),
            *(self._label(layer) for layer in self.layers),
            *self._legend(),
            *self._tooltips(),
            "</svg>",
        ]
        return "\n".join(line for line in lines if line) + "\n"

    def _description(self) -> str:
        run = self.run
        parts = ", ".join(f"{kind} {n:,} bytes" for kind, n in run.parts.items() if n)
        names = written(run, run.peak_instruction)
        return (
            f"Bytes in use during each of {run.usage.count} instructions. The peak is "
            f"{run.peak_nbytes:,} bytes at instruction {run.peak_instruction}"
            + (f", which computes {names}" if names else "")
            + f": {parts}."
        )

    def _x(self, column: float) -> float:
        return LEFT + column * self.width

    def _y(self, nbytes: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * nbytes / self.most

    def _paint(self, kind: str) -> str:
        colour, pattern, _ = PAINTS[kind]
        return f"url(#{self.key}-{kind.replace(' ', '-')})" if pattern else colour

    def _patterns(self) -> str:
        found = []
        for kind, (colour, pattern, ink) in PAINTS.items():
            if pattern:
                form = STROKES if pattern == "strokes" else DOTS
                name = f"{self.key}-{kind.replace(' ', '-')}"
                found.append(form.format(id=name, colour=colour, ink=ink))
        return "".join(found)

    def _layers(self) -> list[Layer]:
        """The kinds that have bytes, from the lowest, with their edges."""
        floors = [0] * len(self.columns)
        layers = []
        for kind in PAINTS:
            edges = []
            for place, (moment, _) in enumerate(self.columns):
                below, nbytes = floors[place], moment.nbytes.get(kind, 0)
                edges.append((below, below + nbytes))
                floors[place] += nbytes
            if any(upper > lower for lower, upper in edges):
                layers.append((kind, [(self._y(low), self._y(high)) for low, high in edges]))
        return layers

    def _area(self, layer: Layer) -> str:
        """The outline of a layer: to the right along its upper edge, back along the lower."""
        kind, edges = layer
        if max(low - high for low, high in edges) < 0.2:
            return ""
        lefts = [self._x(place) for place in range(len(edges) + 1)]
        upper = _steps([high for _, high in edges], lefts)
        lower = _steps([low for low, _ in edges][::-1], lefts[::-1])
        return (
            f'<path d="M{upper}L{lower}Z" fill="{self._paint(kind)}" stroke="{INK}" '
            f'stroke-width="{0.6 if self.width > 4 else 0.2}"/>'
        )

    def _label(self, layer: Layer) -> str:
        """The kind's name where its layer has room for it."""
        kind, edges = layer
        starts = range(0, len(edges), max(1, len(edges) // 64))
        rooms = [_room(edges, start, least) for least in (15, 60, 120) for start in starts]
        wide = (len(kind) * LETTER + 12) / self.width
        fitting = [room for room in rooms if room[1] - room[0] >= wide and room[3] - room[2] >= 15]
        if not fitting:
            return ""
        first, last, high, low = max(
            fitting, key=lambda room: (room[1] - room[0]) * (room[3] - room[2])
        )
        x, y = self._x((first + last) / 2), (low + high) / 2 + 4
        colour, _, ink = PAINTS[kind]
        return words_at(x, y, kind, anchor="middle", fill=ink, outline=colour)

    def _axis(self) -> list[str]:
        """Lines and bytes of the vertical axis."""
        found = []
        for nbytes in ticks(self.most):
            y = self._y(nbytes)
            found.append(f'<path d="M{LEFT} {_n(y)}H{RIGHT}" stroke="{GRID}" stroke-width="1"/>')
            words = in_bytes(nbytes) if nbytes else "0"
            found.append(words_at(LEFT - 8, y + 4, words, anchor="end", fill=MUTED))
        return found

    def _below(self) -> list[str]:
        """Numbers of instructions, and what they write where there is room for it."""
        found = [f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="{INK}" stroke-width="1"/>']
        count = self.run.usage.count
        few = count <= MOST_NAMED
        wanted = range(count + 1) if few else sorted({*ticks(count)[1:], 1})
        for number in wanted:
            x = self._center(number)
            found.append(words_at(x, BOTTOM + 16, str(number), anchor="middle", fill=MUTED))
            label = _cut(printable(self.run.timeline[number].label), 12)
            if few and label:
                place = f' transform="rotate(-40 {_n(x + 3)} {BOTTOM + 30})"'
                found.append(words_at(x + 3, BOTTOM + 30, label, anchor="end", size=11, more=place))
        found.append(words_at(RIGHT + 24, BOTTOM + 16, "instruction", fill=MUTED, size=11))
        if few:
            found.append(words_at(RIGHT + 24, BOTTOM + 34, "what it writes", fill=MUTED, size=11))
        return found

    def _center(self, number: int) -> float:
        """The middle of the column in which an instruction is."""
        place = next(place for place, (_, after) in enumerate(self.columns) if number < after)
        return self._x(place + 0.5)

    def _backward(self) -> list[str]:
        """Where backpropagation begins: the first instruction that writes a gradient."""
        run = self.run
        gradients = {one.value for one in run.graph.gradients}
        for number in range(1, run.usage.count + 1):
            if gradients.intersection(run.written_at(number)):
                x = self._center(number) - self.width / 2
                return [
                    f'<path d="M{_n(x)} {TOP - 28}V{BOTTOM}" stroke="{INK}" '
                    'stroke-dasharray="4 3" fill="none"/>',
                    words_at(x - 5, TOP - 18, "forward", anchor="end", fill=MUTED, size=11),
                    words_at(x + 5, TOP - 18, "backward", fill=MUTED, size=11),
                ]
        return []

    def _peak(self) -> list[str]:
        """A frame around the column of the peak, and what it is in words."""
        run = self.run
        x = self._center(run.peak_instruction)
        wide = max(self.width, 3.0)
        anchor = "start" if x < LEFT + 160 else "end" if x > RIGHT - 160 else "middle"
        names = _cut(written(run, run.peak_instruction), 40)
        words = (
            f"peak: {run.peak_nbytes:,} bytes"
            + (f" ({in_bytes(run.peak_nbytes)})" if run.peak_nbytes >= 1024 else "")
            + f" at instruction {run.peak_instruction}"
            + (f", {names}" if names else "")
        )
        y = self._y(run.peak_nbytes)
        at = {"start": x - 6, "end": x + 6, "middle": x}[anchor]
        return [
            f'<rect x="{_n(x - wide / 2)}" y="{_n(y)}" width="{_n(wide)}" '
            f'height="{_n(BOTTOM - y)}" fill="none" stroke="{MARK}" stroke-width="2"/>',
            f'<path d="M{_n(x)} {_n(y - 2)}l-6 -10h12Z" fill="{MARK}"/>',
            words_at(at, TOP - 36, words, anchor=anchor, weight=600),
        ]

    def _legend(self) -> list[str]:
        """The kinds in the order of the layers, the highest first, with their bytes at the peak."""
        x, y = RIGHT + 24, TOP + 6
        found = [words_at(x, y, "at the peak", fill=MUTED, size=11)]
        shown_kinds = [kind for kind, _ in self.layers]
        for kind in reversed(shown_kinds):
            y += 24
            found.append(
                f'<rect x="{x}" y="{y - 11}" width="18" height="14" fill="{self._paint(kind)}" '
                f'stroke="{INK}" stroke-width="0.8"/>'
            )
            found.append(words_at(x + 26, y, kind))
            found.append(
                words_at(WIDTH - 12, y, in_bytes(self.run.parts[kind]), anchor="end", fill=MUTED)
            )
        if self.run.padding_nbytes:
            found.append(words_at(x + 26, y + 24, "padding"))
            words = in_bytes(self.run.padding_nbytes)
            found.append(words_at(WIDTH - 12, y + 24, words, anchor="end", fill=MUTED))
        return found

    def _tooltips(self) -> list[str]:
        """What a pointer over a column is told."""
        found = []
        for place, (moment, _) in enumerate(self.columns):
            label = written(self.run, moment.number)
            words = f"instruction {moment.number}" if moment.number else "start"
            parts = "".join(f"\n{kind}: {n:,} bytes" for kind, n in moment.nbytes.items() if n)
            told = f"{words}{': ' + label if label else ''}\n{moment.live_nbytes:,} bytes{parts}"
            found.append(
                f'<rect x="{_n(self._x(place))}" y="{TOP}" width="{_n(self.width)}" '
                f'height="{BOTTOM - TOP}" fill="#ffffff" fill-opacity="0">'
                f"<title>{escape(told)}</title></rect>"
            )
        return found


def ticks(most: int) -> list[int]:
    """Round values from 0 to at most `most`, about five, in whole units of bytes."""
    unit = 1
    while most >= 1024 * unit and unit < 1024 ** len(UNITS):
        unit *= 1024
    step = unit
    while most > 6 * step:
        step = next(unit * s for s in _rounds() if unit * s > step)
    if most < 2 * step and unit > 1:
        step //= 4
    return list(range(0, most + 1, step))


def _rounds() -> Iterator[int]:
    """1, 2, 5, 10, 20, ..."""
    size = 1
    while True:
        yield from (size, 2 * size, 5 * size)
        size *= 10


def _room(
    edges: Sequence[tuple[float, float]], start: int, least: int
) -> tuple[int, int, float, float]:
    """The columns around `start` with `least` pixels between both edges of all; those edges."""
    low, high = edges[start]
    first = last = start
    for step in (-1, 1):
        place = start + step
        while 0 <= place < len(edges):
            lower, upper = min(low, edges[place][0]), max(high, edges[place][1])
            if lower - upper < least:
                break
            low, high = lower, upper
            first, last = min(first, place), max(last, place)
            place += step
    return first, last + 1, high, low


def _steps(heights: Sequence[float], lefts: Sequence[float]) -> str:
    """A line of steps from the left end to the right: column i is from lefts[i] to lefts[i + 1]."""
    found = [f"{_n(lefts[0])} {_n(heights[0])}"]
    for place, (before, after) in enumerate(pairwise(heights), 1):
        if before != after:
            found.append(f"H{_n(lefts[place])}V{_n(after)}")
    return "".join(found) + f"H{_n(lefts[-1])}"


def _n(number: float) -> str:
    """A coordinate: one digit after the point, none where it is 0."""
    return f"{number:.1f}".removesuffix(".0")


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def words_at(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: int = 12,
    weight: int = 400,
    outline: str = "",
    more: str = "",
) -> str:
    """A line of text; `outline` keeps it readable on a pattern."""
    style = f' text-anchor="{anchor}"' if anchor != "start" else ""
    style += f' font-size="{size}"' if size != 12 else ""
    style += f' font-weight="{weight}"' if weight != 400 else ""
    if outline:
        style += (
            f' stroke="{outline}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"'
        )
    return f'<text x="{_n(x)}" y="{_n(y)}" fill="{fill}"{style}{more}>{escape(words)}</text>'
