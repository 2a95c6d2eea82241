"""How long ago each array that an instruction touches was touched last, by the bytes touched since.

A cache keeps what was touched last: what comes again after fewer bytes than it holds is there.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.graph.node import Node
from chainrule.schedule.records import SCRATCH, Buffer

# Bytes of an arena that are taken to be touched together: more where there were more blocks than
# these else.
BLOCK, MOST_BLOCKS = 1 << 10, 1 << 16


class Lying(NamedTuple):
    """Where the arrays of an instruction lie when its turn comes: `since` are the bytes that are
    touched between each element's last turn and this one.  Those that it writes `overwriting` what
    it reads have the same lines.  Those from `outside` of scratch memory begin anywhere.  `code`
    are the bytes since its code ran."""

    since: Mapping[Node, float]
    overwriting: Collection[Node] = ()
    outside: Collection[Node] = ()
    code: float = 0.0


def lying_in(
    places: Sequence[Mapping[Node, Buffer]],
    writes: Sequence[Collection[Node]],
    codes: Sequence[Hashable],
    whole: float = 0.0,
) -> list[Lying]:
    """For each instruction of a plan that runs again and again, where the values in its `places`
    lie, of which it writes some; those with equal `codes` have the same code.

    Bytes since are an average of the elements, which all have their turns halfway through an
    instruction; at most all bytes of the plan, or `whole`, which are touched from one run to the
    next.
    """
    ends: dict[str, int] = {}
    for buffer in (one for here in places for one in here.values()):
        ends[buffer.arena] = max(ends.get(buffer.arena, 0), buffer.end)
    block = {arena: max(BLOCK, -(-end // MOST_BLOCKS)) for arena, end in ends.items()}
    last = {arena: np.zeros(end // block[arena] + 1) for arena, end in ends.items()}
    ran: dict[Hashable, float] = {}
    everything = max(float(sum(ends.values())), whole)
    found: list[Lying] = []
    now = 0.0
    for _ in range(2):  # the first run tells when things were touched before the second
        found.clear()
        begun = now
        for here, written, code in zip(places, writes, codes, strict=True):
            distinct = {(one.arena, one.offset, one.nbytes) for one in here.values()}
            half = sum(nbytes for *_, nbytes in distinct) / 2
            now += half
            since: dict[Node, float] = {}
            touched = []
            for node, buffer in here.items():
                size = block[buffer.arena]
                touched.append(last[buffer.arena][buffer.offset // size : -(-buffer.end // size)])
                mean = float(np.mean(now - touched[-1])) if buffer.nbytes else 0.0
                since[node] = min(mean, everything)
            read = {(one.arena, one.offset) for node, one in here.items() if node not in written}
            over = {n for n in written if n in here and (here[n].arena, here[n].offset) in read}
            outside = {node for node, one in here.items() if one.arena != SCRATCH}
            found.append(Lying(since, over, outside, min(now - ran.get(code, now), everything)))
            for one in touched:
                one[:] = now
            ran[code] = now
            now += half
        now = max(now, begun + whole)
    return found
