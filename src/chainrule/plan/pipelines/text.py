"""A timeline in letters."""

from __future__ import annotations

from chainrule.errors import InputError
from chainrule.plan.pipelines.timeline import Timeline

WAITING = "."


def text_of(times: Timeline, width: int) -> str:
    """A line for each stage: in each column the letter of the task in its middle."""
    if not isinstance(width, int) or width < 1:
        raise InputError(f"width is {width!r}", hint="the letters of a line, 1 or more")
    step = times.duration / width
    lines = []
    for stage, slots in enumerate(times.slots):
        letters, at = [], 0
        for column in range(width):
            now = (column + 0.5) * step
            while at < len(slots) - 1 and slots[at].end <= now:
                at += 1
            slot = slots[at]
            letters.append(slot.task.kind.value if slot.start <= now < slot.end else WAITING)
        lines.append(f"{stage:>3} {''.join(letters)}")
    return "\n".join(lines)
