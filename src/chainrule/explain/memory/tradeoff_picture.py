"""Draws bytes against predicted time as SVG: a step for each plan."""

from __future__ import annotations

import hashlib
from html import escape
from typing import TYPE_CHECKING

from chainrule.explain.memory.picture import GRID, INK, MARK, MUTED, ticks, words_at
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.explain.memory.tradeoff import Tradeoff

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 690, 64, 340  # of the plot
FILL = "#7a4fa3"
SPARE = 0.08  # of what can be saved, left of the least bytes where the axis does not begin at 0


def tradeoff_picture(found: Tradeoff) -> str:
    """Needed bytes to the right, more time upwards; a pointer over a point is told its numbers."""
    most = max(found.points[0].needed_nbytes, 1)
    least = found.points[-1].needed_nbytes
    low = least - SPARE * (most - least) if most / 2 < least < most else 0.0
    highest = max(found.highest, 0.01)
    title = printable(f"Memory against time of {found.name}, by {found.executor}")
    key = f"t{hashlib.sha256(f'{title}{found.points}'.encode()).hexdigest()[:8]}"

    def x(nbytes: float) -> float:
        return LEFT + (RIGHT - LEFT) * (nbytes - low) / max(most - low, 1)

    def y(extra: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * min(max(extra, 0.0) / (highest * 1.08), 1.0)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-title {key}-desc" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<title id="{key}-title">{escape(title)}</title>',
        f'<desc id="{key}-desc">{escape(_description(found))}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        words_at(16, 26, title, size=16, weight=600),
        words_at(16, 48, f"more {found.times} time than with the most bytes", fill=MUTED),
        words_at(RIGHT, HEIGHT - 12, "bytes that a run needs", anchor="end", fill=MUTED),
    ]
    for part in range(5):
        extra = highest * part / 4
        lines.append(f'<path d="M{LEFT} {y(extra):.1f}H{RIGHT}" stroke="{GRID}"/>')
        lines.append(
            words_at(
                LEFT - 8,
                y(extra) + 4,
                f"{extra:.0%}" if highest >= 0.1 else f"{extra:.1%}",
                anchor="end",
                fill=MUTED,
            )
        )
    for nbytes, shown in _marks(least, most, from_zero=not low):
        lines.append(f'<path d="M{x(nbytes):.1f} {BOTTOM}v5" stroke="{INK}"/>')
        anchor = "end" if low and nbytes == most else "middle"
        lines.append(words_at(x(nbytes), BOTTOM + 20, shown, anchor=anchor, fill=MUTED))
    path = f"M{RIGHT} {y(0):.1f}"
    for one in found.points:
        path += (
            f"V{y(one.extra):.1f}H{x(one.needed_nbytes):.1f}"
            if one.extra
            else (f"H{x(one.needed_nbytes):.1f}")
        )
    lines.append(f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="{INK}"/>')
    lines.append(f'<path d="{path}" fill="none" stroke="{FILL}" stroke-width="2"/>')
    for one in found.points:
        told = (
            f"{one.needed_nbytes:,} bytes, {one.extra:.1%} more time"
            f"{': ' + printable(', '.join(one.words)) if one.words else ''}"
        )
        lines.append(
            f'<circle cx="{x(one.needed_nbytes):.1f}" cy="{y(one.extra):.1f}" r="4" '
            f'fill="{MARK if one is found.points[-1] else FILL}"><title>{escape(told)}</title>'
            "</circle>"
        )
    if found.points[-1].extra > highest:  # it has no room
        last = found.points[-1]
        told, place = f"{last.extra:.0%} ↑", x(last.needed_nbytes)
        lines.append(words_at(place + 8, TOP + 4, told, fill=INK))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _marks(least: int, most: int, *, from_zero: bool) -> list[tuple[int, str]]:
    """Amounts along the axis, in words that differ."""
    if from_zero:
        return [(nbytes, in_bytes(nbytes) if nbytes else "0") for nbytes in ticks(most)]
    several = dict.fromkeys((least, (least + most) // 2, most))
    words = [in_bytes(nbytes) for nbytes in several]
    if len(set(words)) < len(words):
        words = [f"{nbytes:,}" for nbytes in several]
    return list(zip(several, words, strict=True))


def _description(found: Tradeoff) -> str:
    first, last = found.points[0], found.points[-1]
    return (
        f"{len(found.points)} plans: from {first.needed_nbytes:,} bytes without a value computed "
        f"again to {last.needed_nbytes:,} bytes for {last.extra:.1%} more time."
    )
