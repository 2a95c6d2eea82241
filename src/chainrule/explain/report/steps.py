"""The steps through a page: one for each circle, in the order in which the executor computes."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from chainrule.explain.memory.phase import Phase
from chainrule.explain.report.circles import Circle, circles_of
from chainrule.explain.report.plain import text
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def steps_of(
    graph: Graph, phase: Phase | None, ids: Mapping[str, int], given: Collection[str]
) -> list[dict[str, Any]]:
    """The `steps` of a page about `graph`; that of the phase is the same at known sizes.

    `ids` are the places of values by name; those in `given` are there before the first step.
    Without a phase the order is that of the graph.
    """
    circles = circles_of(graph)
    times = _times(circles, graph, phase)
    order = _order(circles, times)
    writes = _writes(order, ids, given, graph)
    # a circle may have to wait for one that is begun later: to a reader, numbers only rise
    instructions = list(accumulate((times[one.key] for one in order), max))
    frees = _frees(writes, instructions, phase, ids)
    live = _live(instructions, phase)
    return [
        {
            "title": text(one.title),
            "circle": text(one.key),
            "value": ids.get(one.unit.name),
            "pass": str(one.direction),
            "instruction": None if phase is None else instructions[at],
            "live_nbytes": live[at],
            "writes": writes[at],
            "frees": frees[at],
        }
        for at, one in enumerate(order)
    ]


def _times(circles: Sequence[Circle], graph: Graph, phase: Phase | None) -> dict[str, int]:
    """The instruction with which each circle's work begins.

    Where nothing is computed (the gradient 1 of the objective), that of the first circle that
    needs it, or of the last one that it needs.
    """
    begun: dict[str, int] = {}
    if phase is not None:
        pairs = zip(graph.nodes, phase.graph.nodes, strict=True)
        made_at = {node: phase.made_at(bound) for node, bound in pairs}
        for one in circles:
            nodes = (*one.nodes, *(graph.names[name] for name in one.gives))
            numbers = [number for node in nodes if (number := made_at.get(node))]
            if numbers:
                begun[one.key] = min(numbers)
    needed: dict[str, int] = {}
    for one in reversed(circles):
        if one.key in begun or one.key in needed:
            time = begun.get(one.key, needed.get(one.key, 0))
            needed |= {key: min(time, needed.get(key, time)) for key in one.needs}
    found: dict[str, int] = {}
    for one in circles:
        latest = max((found[key] for key in one.needs if key in found), default=0)
        found[one.key] = begun.get(one.key, needed.get(one.key, latest))
    return found


def _order(circles: Sequence[Circle], times: Mapping[str, int]) -> list[Circle]:
    """By time, then in the order of the graph, but none before one that it waits for."""
    place = {one.key: at for at, one in enumerate(circles)}
    waits = [len(one.needs) for one in circles]
    after: list[list[int]] = [[] for _ in circles]
    for at, one in enumerate(circles):
        for key in one.needs:
            after[place[key]].append(at)
    ready = [(times[circles[at].key], at) for at, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    found: list[Circle] = []
    while ready:
        _, at = heapq.heappop(ready)
        found.append(circles[at])
        for other in after[at]:
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, (times[circles[other].key], other))
    assert len(found) == len(circles), "circles wait for each other"
    return found


def _writes(
    order: Sequence[Circle], ids: Mapping[str, int], given: Collection[str], graph: Graph
) -> list[list[int]]:
    """The values that are there after each step: each once, where the last part of it is made.

    What no arrow leads to is there when what it is inside of is made, or, where it takes no
    computing, when the backward pass begins.
    """
    last: dict[str, int] = {}
    inside: dict[Node, int] = {}
    for at, one in enumerate(order):
        last |= dict.fromkeys(one.gives, at)
        for node in one.nodes:
            inside.setdefault(node, at)
    begins = next((at for at, one in enumerate(order) if one.is_mirrored), len(order) - 1)
    found: list[list[int]] = [[] for _ in order]
    for name, value in ids.items():
        if name not in given and order:
            at = last.get(name, inside.get(graph.names[name], begins))
            found[at].append(value)
    return found


def _frees(
    writes: Sequence[Sequence[int]],
    instructions: Sequence[int],
    phase: Phase | None,
    ids: Mapping[str, int],
) -> list[list[int]]:
    """The values whose bytes nothing needs after each step."""
    found: list[list[int]] = [[] for _ in writes]
    if phase is None:
        return found
    names = phase.graph.names
    written = {value: at for at, several in enumerate(writes) for value in several}
    for name, value in ids.items():
        if value not in written or names[name] not in phase.life_of:
            continue
        life = phase.life_of[names[name]]
        end = max(life.last, life.last_read)  # bytes that are taken over in place are read then
        if end < phase.usage.count:
            found[max(bisect_right(instructions, end) - 1, written[value])].append(value)
    return found


def _live(instructions: Sequence[int], phase: Phase | None) -> Sequence[int | None]:
    """The most bytes that are in use from the step before to the instruction of each step.

    The last step goes to the end.
    """
    if phase is None:
        return [None] * len(instructions)
    live = phase.usage.live_nbytes
    ends = [*instructions[:-1], len(live) - 1]
    starts = [0, *instructions][: len(ends)]
    return [
        max(live[min(start + 1, end) : end + 1]) for start, end in zip(starts, ends, strict=True)
    ]
