"""Which arrays lie far away when an instruction comes to them: those that nobody touched for long.

A cache that other programs use, too, does not keep what is touched again only after milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

from chainrule.graph.node import Node
from chainrule.schedule.records import Buffer

# Bytes of an arena that are taken to be touched together: more where there were more blocks than
# these else.
BLOCK, MOST_BLOCKS = 1 << 16, 1 << 12

Place = tuple[str, int]


def untouched(
    places: Sequence[Mapping[Node, Buffer]], nanoseconds: Sequence[float], kept: float
) -> list[Collection[Node]]:
    """For each instruction of a plan, those of the values that lie in its `places` of which most
    was not touched for more than `kept` nanoseconds.

    The instructions take so many nanoseconds, and the plan runs again and again.
    """
    if kept == inf:
        return [()] * len(places)
    ends: dict[str, int] = {}
    for buffer in (one for here in places for one in here.values()):
        ends[buffer.arena] = max(ends.get(buffer.arena, 0), buffer.end)
    sizes = {arena: max(BLOCK, -(-end // MOST_BLOCKS)) for arena, end in ends.items()}
    last: dict[Place, float] = {}
    found: list[Collection[Node]] = []
    now = 0.0
    for _ in range(2):  # the first run tells when things were touched before the second
        found.clear()
        for here, taken in zip(places, nanoseconds, strict=True):
            blocks = {node: _blocks(buffer, sizes[buffer.arena]) for node, buffer in here.items()}
            found.append([node for node, own in blocks.items() if _is_old(own, last, now - kept)])
            now += taken
            for own in blocks.values():
                last.update(dict.fromkeys(own, now))
    return found


def _blocks(buffer: Buffer, nbytes: int) -> list[Place]:
    return [(buffer.arena, k) for k in range(buffer.offset // nbytes, -(-buffer.end // nbytes))]


def _is_old(blocks: Sequence[Place], last: Mapping[Place, float], time: float) -> bool:
    return 2 * sum(last.get(one, -inf) < time for one in blocks) > len(blocks)
