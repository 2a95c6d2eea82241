"""Prints a timeline: a line for each rank, and what it says in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    Operation,
    ParallelTimeline,
    Span,
)
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.columns import in_columns
from chainrule.graph.words import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = {
    FORWARD: "F",
    RECOMPUTE: "R",
    BACKWARD: "B",
    GRADIENTS: "W",
    PASSES: "P",
    UPDATE: "U",
    ADDING: "A",
    GATHERING: "G",
    WAITING: ".",
}
WIDTH, ROWS = 78, 16  # letters; ranks that are drawn
LONGEST = 8  # values that are told


def text(timeline: ParallelTimeline, width: int = WIDTH) -> str:
    """The lanes in letters, then seconds for each rank."""
    how = "measured" if timeline.is_measured else "predicted"
    bound = timeline.lower_bound
    least = "" if bound is None else f" (in no order of the pieces less than {duration(bound)})"
    shown = range(min(len(timeline.ranks), ROWS))
    rows = [("rank", "busy", "waiting", "most bytes")]
    for rank in shown:
        most = max((one.nbytes for one in timeline.ranks[rank]), default=0)
        times = duration(timeline.busy[rank]), duration(timeline.waiting[rank])
        rows.append((str(rank), *times, in_bytes(most)))
    lines = [
        f"{printable(timeline.title)}: {duration(timeline.seconds)} {how}{least}, "
        f"{100 * timeline.bubble:.1f} % bubble",
        *(f"{rank:3} {_lane(timeline.ranks[rank], timeline.seconds, width)}" for rank in shown),
        f"    {_legend(timeline)}",
        *hidden_words(timeline),
        "",
        *in_columns(rows, range(4)),
    ]
    if len(timeline.ranks) > ROWS:
        lines.append(f"and {len(timeline.ranks) - ROWS} ranks more")
    return "\n".join(lines)


def _legend(timeline: ParallelTimeline) -> str:
    """The letters that there are."""
    there = {WAITING} | {one.doing for spans in timeline.ranks for one in spans}
    words = {PASSES: "both passes"}
    return ", ".join(f"{LETTERS[one]} {words.get(one, one)}" for one in LETTERS if one in there)


def longest(operations: Sequence[Operation]) -> list[str]:
    """The values that take most time, as a table: seconds of all ranks together; none where no
    operations were seen."""
    seconds: dict[tuple[str, str], float] = {}
    for one in operations:
        if one.name:
            words = one.name, one.doing
            seconds[words] = seconds.get(words, 0.0) + one.seconds
    first = sorted(seconds.items(), key=lambda one: -one[1])[:LONGEST]
    rows = [("value", "for", "all ranks"), *((*words, duration(time)) for words, time in first)]
    return ["\n".join(in_columns(rows, (2,)))] if len(rows) > 1 else []


def hidden_words(timeline: ParallelTimeline) -> list[str]:
    """How much of adding up is hidden, in one line; none where nothing could be."""
    if timeline.hidden is None:
        return []
    each = sum(one.seconds for one in timeline.exchanges) / len(timeline.ranks)
    return [
        f"    helpers add gradients up for {duration(each)} a rank, "
        f"{100 * timeline.hidden:.0f} % of it behind other work"
    ]


def _lane(spans: Sequence[Span], seconds: float, width: int) -> str:
    """What a rank does most of in the time of each letter."""
    found, at = [], 0
    each = seconds / width
    for place in range(width):
        start, end = place * each, (place + 1) * each
        amounts = dict.fromkeys(LETTERS, 0.0)
        while at < len(spans) and spans[at].end <= start:
            at += 1
        for span in spans[at:]:
            if span.start >= end:
                break
            amounts[span.doing] += min(span.end, end) - max(span.start, start)
        most = max(amounts, key=amounts.__getitem__)
        found.append(LETTERS[most if amounts[most] else WAITING])
    return "".join(found)


def duration(seconds: float) -> str:
    """`1.23 s`, `4.5 ms`, `678 µs`: three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return (
                f"{seconds / size:,.0f} {unit}"
                if seconds >= 999.5 * size
                else f"{seconds / size:.3g} {unit}"
            )
    return f"{seconds * 1e6:.3g} µs"
