"""How long ago each array that an instruction touches was touched last, by the bytes touched since.

A cache keeps what was touched last: what comes again after fewer bytes than it holds is there.  The
last cache is one of several processors: what others bring there takes room, too.
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
    touched between each element's last turn and this one, `others` those that other processors
    bring into the last cache meanwhile.  It does not wait for those that it `writes`; those that it
    writes `overwriting` what it reads have the same lines.  Those from `outside` of scratch memory
    begin anywhere.  `code` and `code_others` are the bytes since its code ran."""

    since: Mapping[Node, float]
    others: Mapping[Node, float] = {}
    writes: Collection[Node] = ()
    overwriting: Collection[Node] = ()
    outside: Collection[Node] = ()
    code: float = 0.0
    code_others: float = 0.0


def lying_in(
    places: Sequence[Mapping[Node, Buffer]],
    writes: Sequence[Collection[Node]],
    codes: Sequence[Hashable],
    whole: float = 0.0,
    others: Sequence[float] = (),
) -> list[Lying]:
    """For each instruction of a plan that runs again and again, where the values in its `places`
    lie, of which it writes some; those with equal `codes` have the same code.

    Bytes since are an average of the elements, which all have their turns halfway through an
    instruction; at most all bytes of the plan, or `whole`, which are touched from one run to the
    next.  `others` are the bytes that other processors bring into the last cache during each.
    """
    ends: dict[str, int] = {}
    for buffer in (one for here in places for one in here.values()):
        ends[buffer.arena] = max(ends.get(buffer.arena, 0), buffer.end)
    block = {arena: max(BLOCK, -(-end // MOST_BLOCKS)) for arena, end in ends.items()}
    # of each block when it was touched last: the bytes touched until then, and those of others
    last = {arena: np.zeros((2, end // block[arena] + 1)) for arena, end in ends.items()}
    ran: dict[Hashable, np.ndarray] = {}
    most = np.array([max(float(sum(ends.values())), whole), np.inf])
    found: list[Lying] = []
    now = np.zeros(2)
    for _ in range(2):  # the first run tells when things were touched before the second
        found.clear()
        begun = now
        for number, (here, written, code) in enumerate(zip(places, writes, codes, strict=True)):
            distinct = {(one.arena, one.offset, one.nbytes) for one in here.values()}
            brought = others[number] if others else 0.0
            half = np.array([sum(nbytes for *_, nbytes in distinct), brought]) / 2
            now = now + half
            since: dict[Node, np.ndarray] = {}
            touched = []
            for node, buffer in here.items():
                size = block[buffer.arena]
                blocks = slice(buffer.offset // size, -(-buffer.end // size))
                touched.append(last[buffer.arena][:, blocks])
                mean = now - touched[-1].mean(axis=1) if buffer.nbytes else np.zeros(2)
                since[node] = np.minimum(mean, most)
            read = {(one.arena, one.offset) for node, one in here.items() if node not in written}
            over = {n for n in written if n in here and (here[n].arena, here[n].offset) in read}
            outside = {node for node, one in here.items() if one.arena != SCRATCH}
            own, brought = ({node: float(x[k]) for node, x in since.items()} for k in (0, 1))
            its_code = np.minimum(now - ran.get(code, now), most).tolist()
            found.append(Lying(own, brought, written, over, outside, *its_code))
            for one in touched:
                one[:] = now[:, np.newaxis]
            ran[code] = now
            now = now + half
        now = np.maximum(now, [begun[0] + whole, 0.0])
    return found
