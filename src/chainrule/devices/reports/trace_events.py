"""Writes timelines as the trace events that Chrome and Perfetto (ui.perfetto.dev) read.

The format: "Trace Event Format", Google, 2016.  Times are in microseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from chainrule.devices.reports.spans import (
    ADDING,
    WAITING,
    Message,
    Operation,
    ParallelTimeline,
    Span,
)

COLOURS = {  # names that viewers know; Perfetto chooses its own
    "forward": "thread_state_running",
    "recompute": "thread_state_runnable",
    "backward": "thread_state_iowait",
    "gradients": "rail_animation",
    "passes": "thread_state_runnable",
    "update": "rail_load",
    "adding up": "rail_response",
    "gathering": "rail_idle",
    "waiting": "grey",
}


def events_of(
    timelines: Sequence[ParallelTimeline], operations: Sequence[Operation] = ()
) -> dict[str, Any]:
    """Each timeline as a process, each rank as a thread of it; messages as arrows, bytes as
    counters.  Operations are those of the first, on a further thread for each rank."""
    events = [
        event
        for process, timeline in enumerate(timelines, 1)
        for event in _process(process, timeline)
    ]
    if operations:
        events += _operations(len(timelines[0].ranks), operations)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _operations(ranks: int, operations: Sequence[Operation]) -> Iterator[dict[str, Any]]:
    for rank in range(ranks):
        yield _named(1, ranks + rank, "thread_name", name=f"operations of rank {rank}")
        yield _named(1, ranks + rank, "thread_sort_index", sort_index=rank)
    for one in operations:
        yield _slice(1, ranks + one.rank, one, one.name or one.doing, {})


def _process(process: int, timeline: ParallelTimeline) -> Iterator[dict[str, Any]]:
    kind = "measured" if timeline.is_measured else "predicted"
    yield _named(process, 0, "process_name", name=f"{kind}: {timeline.title}")
    yield _named(process, 0, "process_sort_index", sort_index=process)
    for rank, spans in enumerate(timeline.ranks):
        grid = timeline.grid
        words = f"rank {rank}: stage {grid.stage_of(rank)}, replica {grid.replica_of(rank)}"
        words += f", shard {grid.shard_of(rank)}" if grid.ways > 1 else ""
        yield _named(process, rank, "thread_name", name=words)
        yield _named(process, rank, "thread_sort_index", sort_index=rank)
        for span in spans:
            told = {"instruction": span.instruction, "bytes": span.nbytes}
            yield _slice(process, rank, span, span.doing, told)
        yield from _bytes(process, rank, spans)
    for number, one in enumerate(timeline.exchanges):
        thread = len(timeline.ranks) + one.rank
        if one.rank not in {other.rank for other in timeline.exchanges[:number]}:
            yield _named(process, thread, "thread_name", name=f"helper of rank {one.rank}")
            yield _named(process, thread, "thread_sort_index", sort_index=one.rank)
        yield {
            "ph": "X",
            "pid": process,
            "tid": thread,
            "name": ADDING,
            "cat": ADDING,
            "cname": COLOURS[ADDING],
            "ts": one.start * 1e6,
            "dur": one.seconds * 1e6,
            "args": {"bytes": one.nbytes, "waited": one.waited * 1e6},
        }
    for number, message in enumerate(timeline.messages):
        yield from _arrow(process, number, message, timeline)


def _named(process: int, rank: int, what: str, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": rank, "name": what, "args": arguments}


def _slice(
    process: int, thread: int, span: Span | Operation, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    part = "" if span.micro_batch is None else f" {span.micro_batch}"
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": f"{name}{part}",
        "cat": span.doing,
        "cname": COLOURS[span.doing],
        "ts": span.start * 1e6,
        "dur": span.seconds * 1e6,
        "args": arguments,
    }


def _bytes(process: int, rank: int, spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    last = None
    for span in spans:
        if span.nbytes != last:
            last = span.nbytes
            yield {
                "ph": "C",
                "pid": process,
                "name": f"bytes of rank {rank}",
                "ts": span.start * 1e6,
                "args": {"bytes": last},
            }


def _arrow(
    process: int, number: int, message: Message, timeline: ParallelTimeline
) -> Iterator[dict[str, Any]]:
    """From what a rank did before it sent to what the other one does with the value."""
    before = _last_before(timeline.ranks[message.sender], message.start)
    after = _first_after(timeline.ranks[message.to], message.end)
    if before is None or after is None:
        return
    same = {
        "pid": process,
        "name": message.name,
        "cat": "message",
        "id": f"{process}.{number}",
        "args": {"bytes": message.nbytes},
    }
    yield {**same, "ph": "s", "tid": message.sender, "ts": _inside(before, 0.999)}
    yield {**same, "ph": "f", "bp": "e", "tid": message.to, "ts": _inside(after, 0.001)}


def _last_before(spans: Sequence[Span], time: float) -> Span | None:
    working = [one for one in spans if one.doing != WAITING and one.seconds > 0]
    at = bisect_right(working, time + 1e-12, key=lambda one: one.end)
    return working[at - 1] if at else None


def _first_after(spans: Sequence[Span], time: float) -> Span | None:
    working = [one for one in spans if one.doing != WAITING and one.seconds > 0]
    at = bisect_left(working, time - 1e-12, key=lambda one: one.start)
    return working[at] if at < len(working) else None


def _inside(span: Span, part: float) -> float:
    return (span.start + part * span.seconds) * 1e6
