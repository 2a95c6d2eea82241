"""How long ago each array that an instruction touches was touched last, by the bytes touched since.

A cache keeps what was touched last: what comes again after fewer bytes than it holds is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.graph.node import Node
from chainrule.schedule.records import Buffer

# Bytes of an arena that are taken to be touched together: more where there were more blocks than
# these else.
BLOCK, MOST_BLOCKS = 1 << 10, 1 << 16


class Lying(NamedTuple):
    """Where the arrays of an instruction lie when it begins: `since` are the bytes that were
    touched since each was.  Those in `fresh` are written where it reads nothing: the processor
    fetches their lines before it writes them."""

    since: Mapping[Node, float]
    fresh: Collection[Node] = ()


def lying_in(
    places: Sequence[Mapping[Node, Buffer]],
    writes: Sequence[Collection[Node]],
    whole: float = 0.0,
) -> list[Lying]:
    """For each instruction of a plan that runs again and again, where the values in its `places`
    lie, of which it writes some.  Bytes since are an average of the elements; at most all bytes of
    the plan, or `whole`, which are touched from one run to the next."""
    ends: dict[str, int] = {}
    for buffer in (one for here in places for one in here.values()):
        ends[buffer.arena] = max(ends.get(buffer.arena, 0), buffer.end)
    block = {arena: max(BLOCK, -(-end // MOST_BLOCKS)) for arena, end in ends.items()}
    last = {arena: np.zeros(end // block[arena] + 1) for arena, end in ends.items()}
    everything = max(float(sum(ends.values())), whole)
    found: list[Lying] = []
    now = 0.0
    for _ in range(2):  # the first run tells when things were touched before the second
        found.clear()
        begun = now
        for here, written in zip(places, writes, strict=True):
            since: dict[Node, float] = {}
            touched = []
            for node, buffer in here.items():
                size = block[buffer.arena]
                touched.append(last[buffer.arena][buffer.offset // size : -(-buffer.end // size)])
                mean = float(np.mean(now - touched[-1])) if buffer.nbytes else 0.0
                since[node] = min(mean, everything)
            read = {(one.arena, one.offset) for node, one in here.items() if node not in written}
            fresh = {
                n for n in written if n in here and (here[n].arena, here[n].offset) not in read
            }
            found.append(Lying(since, fresh))
            for one in touched:
                one[:] = now
            distinct = {(one.arena, one.offset, one.nbytes) for one in here.values()}
            now += float(sum(nbytes for *_, nbytes in distinct))
        now = max(now, begun + whole)
    return found
