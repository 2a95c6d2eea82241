"""Which arrays lie far away when an instruction comes to them: those that nobody touched for long.

A cache that other programs use, too, does not keep what is touched again only after milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

from chainrule.graph.node import Node
from chainrule.schedule.records import Buffer

BLOCK = 1 << 16  # bytes of an arena that are taken to be touched together

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
    last: dict[Place, float] = {}
    found: list[Collection[Node]] = []
    now = 0.0
    for _ in range(2):  # the first run tells when things were touched before the second
        found.clear()
        for here, taken in zip(places, nanoseconds, strict=True):
            blocks = {node: _blocks(buffer) for node, buffer in here.items()}
            found.append([node for node, own in blocks.items() if _is_old(own, last, now - kept)])
            now += taken
            for own in blocks.values():
                last.update(dict.fromkeys(own, now))
    return found


def _blocks(buffer: Buffer) -> list[Place]:
    return [(buffer.arena, k) for k in range(buffer.offset // BLOCK, -(-buffer.end // BLOCK))]


def _is_old(blocks: Sequence[Place], last: Mapping[Place, float], time: float) -> bool:
    return 2 * sum(last.get(one, -inf) < time for one in blocks) > len(blocks)
