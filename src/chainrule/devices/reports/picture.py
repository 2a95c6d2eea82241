"""Draws a timeline as SVG: a lane for each rank, messages as arrows, bytes below each lane.

Nothing is random and no text is measured: the same timeline gives the same bytes.  Letters,
patterns and heights say what colours say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10

from chainrule.devices.reports.spans import (
    ADDING,
    BACKWARD,
    FORWARD,
    GATHERING,
    GRADIENTS,
    PASSES,
    RECOMPUTE,
    UPDATE,
    WAITING,
    Message,
    ParallelTimeline,
    Span,
)
from chainrule.devices.reports.timeline_text import duration, hidden_words
from chainrule.errors import InputError
from chainrule.explain.memory.picture import GRID, INK, MUTED, STROKES, words_at
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.words import printable

NARROWEST = 320
LEFT, RIGHT = 62, 12
BAR, GAP, BYTES, BETWEEN = 26, 4, 18, 12  # heights: of bars, of what is below them
LETTER = 6.6  # pixels, about, of one letter
LEAST = 0.15  # pixels of a span that is drawn
MOST_ARROWS = 2_000

# The colour of what a rank does, and its letter; gradients have strokes upon it.
PAINTS = {
    FORWARD: ("#66bfff", "F"),
    RECOMPUTE: ("#b3dfff", "R"),
    BACKWARD: ("#ffb14e", "B"),
    GRADIENTS: ("#ffe0b3", "W"),
    PASSES: ("#b3d9c2", "P"),
    UPDATE: ("#9a4b00", "U"),
    ADDING: ("#7a4fa3", "A"),
    GATHERING: ("#3d7a4a", "G"),
}
DARK = (UPDATE, ADDING, GATHERING)
THERE, BACK = "#0b5394", "#9a4b00"  # arrows to the next stages, and back
FILLED = "#d9d9d9"  # bytes


def picture(timeline: ParallelTimeline, width: int) -> str:
    """The timeline as SVG, so many pixels wide; InputError where that is too narrow."""
    if not isinstance(width, int) or isinstance(width, bool) or width < NARROWEST:
        raise InputError(
            f"width is {width!r}", hint=f"an integer of pixels, {NARROWEST} or more: width=960"
        )
    return _Picture(timeline, width).svg()


class _Picture:
    """One drawing; methods give SVG elements."""

    def __init__(self, timeline: ParallelTimeline, width: int) -> None:
        self.timeline, self.width = timeline, width
        self.right = width - RIGHT
        self.seconds = max(timeline.seconds, 1e-12)
        self.most = max((one.nbytes for spans in timeline.ranks for one in spans), default=1) or 1
        self.title = printable(timeline.title)
        self.head = self._head()
        self.legend, rows = self._legend(34 + 17 * len(self.head))
        self.top = 34 + 17 * len(self.head) + 20 * rows + 8
        self.lane = BAR + GAP + BYTES + BETWEEN
        self.bottom = self.top + self.lane * len(timeline.ranks)
        digest = hashlib.sha256(f"{self.title}{timeline}{width}".encode())
        self.key = f"t{digest.hexdigest()[:8]}"  # two pictures may be on one page

    def svg(self) -> str:
        """The whole picture."""
        height = self.bottom + 30
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" role="img" '
            f'aria-labelledby="{self.key}-title {self.key}-desc" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f'<title id="{self.key}-title">{escape(self.title)}</title>',
            f'<desc id="{self.key}-desc">{escape(" ".join(self.head))}</desc>',
            f"<defs>{self._definitions()}</defs>",
            f'<rect width="{self.width}" height="{height}" fill="#ffffff"/>',
            words_at(12, 22, _cut(self.title, self.width - 24, 8.6), size=15, weight=600),
            *(words_at(12, 41 + 17 * at, line, fill=MUTED) for at, line in enumerate(self.head)),
            *(line.replace("{key}", self.key) for line in self.legend),
            *self._axis(),
        ]
        for rank, spans in enumerate(self.timeline.ranks):
            lines += self._rank(rank, spans)
        lines += self._arrows()
        lines.append("</svg>")
        return "\n".join(lines) + "\n"

    def _head(self) -> list[str]:
        """The timeline in words, in lines of this width."""
        one = self.timeline
        words = [
            f"{duration(one.seconds)} {'measured' if one.is_measured else 'predicted'},",
            f"{100 * one.bubble:.1f} % bubble:",
            f"the busiest rank waits for {duration(one.seconds - max(one.busy))}.",
        ]
        words += [line.strip() + "." for line in hidden_words(one)]
        if one.lower_bound is not None:
            words.append(f"No order of the pieces takes less than {duration(one.lower_bound)}.")
        return _wrapped(words, self.width - 24)

    def _definitions(self) -> str:
        strokes = STROKES.format(id=f"{self.key}-{GRADIENTS}", colour=PAINTS[GRADIENTS][0])
        heads = [
            f'<marker id="{self.key}-{name}" viewBox="0 0 6 6" refX="5.5" refY="3" '
            'markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0L6 3L0 6Z" fill="{colour}"/></marker>'
            for name, colour in (("there", THERE), ("back", BACK))
        ]
        return strokes + "".join(heads)

    def _paint(self, doing: str) -> str:
        return f"url(#{self.key}-{GRADIENTS})" if doing == GRADIENTS else PAINTS[doing][0]

    def _legend(self, y: float) -> tuple[list[str], int]:
        """What is in the picture, in as many rows as it takes; how many these are."""
        there = {one.doing for spans in self.timeline.ranks for one in spans}
        there |= {ADDING} if self.timeline.exchanges else set()
        found, x, row = [], 12.0, 0
        for doing, (colour, letter) in PAINTS.items():
            if doing not in there:
                continue
            words = f"{letter} {doing}"
            x, row = self._place(x, row, words)
            top = y + 20 * row
            fill = f"url(#{{key}}-{GRADIENTS})" if doing == GRADIENTS else colour
            found.append(
                f'<rect x="{_n(x)}" y="{_n(top)}" width="16" height="12" fill="{fill}" '
                f'stroke="{INK}" stroke-width="0.6"/>'
            )
            found.append(words_at(x + 21, top + 10, words))
            x += 21 + len(words) * LETTER + 14
        signs = [("bytes in use", f'fill="{FILLED}"')]
        if self.timeline.messages:
            signs.insert(0, ("message", ""))
        for words, fill in signs:
            x, row = self._place(x, row, words)
            top = y + 20 * row
            found.append(
                f'<rect x="{_n(x)}" y="{_n(top)}" width="16" height="12" {fill}/>'
                if fill
                else f'<path d="M{_n(x)} {_n(top)}L{_n(x + 15)} {_n(top + 11)}" stroke="{THERE}" '
                'fill="none" marker-end="url(#{key}-there)"/>'
            )
            found.append(words_at(x + 21, top + 10, words))
            x += 21 + len(words) * LETTER + 14
        return found, row + 1

    def _place(self, x: float, row: int, words: str) -> tuple[float, int]:
        """Where the next sign of the legend has room."""
        fits = x + 21 + len(words) * LETTER <= self.width - 8
        return (x, row) if fits or x == 12.0 else (12.0, row + 1)

    def _x(self, seconds: float) -> float:
        return LEFT + (self.right - LEFT) * seconds / self.seconds

    def _y(self, rank: int) -> float:
        return self.top + self.lane * rank

    def _axis(self) -> list[str]:
        """Lines and times below the lanes."""
        if not self.timeline.seconds:
            return []
        found = []
        step = _step(self.seconds, (self.right - LEFT) / 80)
        count = floor(self.seconds / step + 1e-9)
        for number in range(count + 1):
            x = self._x(number * step)
            found.append(
                f'<path d="M{_n(x)} {_n(self.top - 4)}V{_n(self.bottom)}" stroke="{GRID}" '
                'stroke-width="1"/>'
            )
            words = duration(number * step) if number else "0"
            anchor = "end" if x > self.right - 24 else "middle"
            at = self.right if anchor == "end" else x
            found.append(words_at(at, self.bottom + 18, words, anchor=anchor, fill=MUTED, size=11))
        return found

    # One rank ------------------------------------------------------------------------------------

    def _rank(self, rank: int, spans: Sequence[Span]) -> Iterator[str]:
        y, timeline = self._y(rank), self.timeline
        grid = timeline.grid
        stage, replica, shard = grid.stage_of(rank), grid.replica_of(rank), grid.shard_of(rank)
        yield words_at(8, y + 12, f"rank {rank}", weight=600)
        where = f"stage {stage}" if grid.stages > 1 else f"replica {replica}"
        if grid.ways > 1:
            where = f"shard {shard}" if grid.stages == 1 else f"{where}.{shard}"
        yield words_at(8, y + 26, where, fill=MUTED, size=11)
        yield (
            f'<rect x="{LEFT}" y="{_n(y)}" width="{_n(self.right - LEFT)}" height="{BAR}" '
            f'fill="#f6f6f6"/>'
        )
        yield from self._bytes(rank, spans)
        for span in spans:
            yield from self._span(rank, y, span)
        yield from self._exchanges(rank, y + BAR)

    def _span(self, rank: int, y: float, span: Span) -> Iterator[str]:
        wide = self._x(span.end) - self._x(span.start)
        if span.doing == WAITING or wide < LEAST:
            return
        x, part = self._x(span.start), "" if span.micro_batch is None else str(span.micro_batch)
        told = (
            f"rank {rank}: {span.doing}{' of micro-batch ' if part else ''}{part}\n"
            f"{duration(span.start)} to {duration(span.end)}\n{span.nbytes:,} bytes"
        )
        yield (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{BAR}" '
            f'fill="{self._paint(span.doing)}" stroke="{INK}" '
            f'stroke-width="{0.6 if wide > 3 else 0.15}"><title>{escape(told)}</title></rect>'
        )
        letter = PAINTS[span.doing][1]
        for words in (letter + part, part):
            if words and len(words) * LETTER + 5 <= wide:
                dark = span.doing in DARK
                ink, outline = ("#ffffff", "") if dark else (INK, PAINTS[span.doing][0])
                yield words_at(
                    x + wide / 2, y + BAR / 2 + 4, words, anchor="middle", fill=ink, size=11,
                    outline=outline, more=' pointer-events="none"',
                )  # fmt: skip
                return

    def _exchanges(self, rank: int, y: float) -> Iterator[str]:
        """What the helper of a rank adds up, in a strip below its lane."""
        for one in self.timeline.exchanges:
            wide = self._x(one.end) - self._x(one.start)
            if one.rank != rank or wide < LEAST:
                continue
            told = (
                f"helper of rank {rank}: {ADDING}\n{duration(one.start)} to {duration(one.end)}\n"
                f"{one.nbytes:,} bytes; the rank waits for {duration(one.waited)} of it"
            )
            yield (
                f'<rect x="{_n(self._x(one.start))}" y="{_n(y)}" width="{_n(wide)}" '
                f'height="{GAP}" fill="{self._paint(ADDING)}" stroke="{INK}" stroke-width="0.15">'
                f"<title>{escape(told)}</title></rect>"
            )

    def _bytes(self, rank: int, spans: Sequence[Span]) -> Iterator[str]:
        """The bytes of a rank as steps below its lane; the peak in words where there is room."""
        base = self._y(rank) + BAR + GAP + BYTES
        most = max((one.nbytes for one in spans), default=0)
        if not most:
            return
        path, last = f"M{_n(self._x(0))} {_n(base)}", 0.0
        for span in spans:
            if not span.nbytes:
                continue
            high = BYTES * span.nbytes / self.most
            if high != last:
                path += f"H{_n(self._x(span.start))}V{_n(base - high)}"
                last = high
        path += f"H{_n(self.right)}V{_n(base)}Z"
        words = f"rank {rank}: at most {most:,} bytes"
        yield f'<path d="{path}" fill="{FILLED}"><title>{escape(words)}</title></path>'
        yield words_at(8, base - 3, in_bytes(most), fill=MUTED, size=10)

    # Messages ------------------------------------------------------------------------------------

    def _arrows(self) -> Iterator[str]:
        """Values on their way; of very many those of the most bytes."""
        shown = sorted(self.timeline.messages, key=lambda one: -one.nbytes)[:MOST_ARROWS]
        thin = len(shown) > 120
        for one in sorted(shown, key=lambda one: (one.start, one.sender, one.to, one.name)):
            yield self._arrow(one, thin)

    def _arrow(self, one: Message, thin: bool) -> str:
        down = one.to > one.sender
        x, y = self._x(one.start), self._y(one.sender) + (BAR if down else 0)
        to_x, to_y = self._x(one.end), self._y(one.to) + (0 if down else BAR)
        name, colour = ("there", THERE) if down else ("back", BACK)
        part = "" if one.micro_batch is None else f" of micro-batch {one.micro_batch}"
        told = (
            f"{printable(one.name)}{part}: rank {one.sender} to {one.to}, {one.nbytes:,} bytes, "
            f"{duration(one.end - one.start)}"
        )
        return (
            f'<path d="M{_n(x)} {_n(y)}L{_n(to_x)} {_n(to_y)}" stroke="{colour}" fill="none" '
            f'stroke-width="{0.7 if thin else 1}" stroke-opacity="0.8" '
            f'marker-end="url(#{self.key}-{name})"><title>{escape(told)}</title></path>'
        )


def _step(seconds: float, count: float) -> float:
    """A round time of which at most about `count` are in `seconds`."""
    least = seconds / max(count, 1.0)
    size = 10.0 ** floor(log10(least))
    return next(size * one for one in (1, 2, 5, 10) if size * one >= least * 0.999)


def _wrapped(parts: Sequence[str], width: float) -> list[str]:
    """Parts of a sentence, in lines that are no wider."""
    lines = [""]
    for word in " ".join(parts).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) * LETTER > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _cut(words: str, width: float, letter: float) -> str:
    most = max(int(width / letter), 1)
    return words if len(words) <= most else words[: most - 1] + "…"


def _n(number: float) -> str:
    """A coordinate: two digits after the point at most."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
