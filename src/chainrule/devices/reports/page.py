"""What the report page of a split step shows of its ranks: when each does what, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chainrule.devices.reports.memory import memory_of
from chainrule.devices.reports.memory_text import called, together
from chainrule.devices.reports.timeline import timeline_of

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep

WIDE, NARROW = 960, 360  # pixels


def ranks_data(step: ParallelStep, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The `ranks` of a page (docs/report_schema.md), for a batch of these sizes."""
    split = step.split_at(sizes)
    timeline = timeline_of(step, split, sizes, None)
    alike = together(memory_of(step, split, sizes).ranks)
    parts = [ranks[0].parts for ranks in alike]
    kinds = [kind for kind in parts[0] if any(one[kind] for one in parts)]
    return {
        "timeline": timeline.svg(width=WIDE),
        "narrow_timeline": timeline.svg(width=NARROW),
        "text": str(timeline),
        "ranks": [called(ranks) for ranks in alike],
        "memory": [{"kind": kind, "nbytes": [one[kind] for one in parts]} for kind in kinds],
        "peak_nbytes": [ranks[0].peak_nbytes for ranks in alike],
        "most_nbytes": [ranks[0].most_nbytes for ranks in alike],
    }
