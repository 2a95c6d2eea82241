"""The steps through a page: one for each circle, in the order in which the executor computes."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.explain.memory.why import Timing, last_read, outliving, seen_in
from chainrule.explain.report.circles import Circle, circles_of
from chainrule.explain.report.loops import first_results
from chainrule.explain.report.plain import text
from chainrule.explain.report.spans import fullest_of, step_at
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.schedule.virtual import shows_its_input


@dataclass(frozen=True, eq=False)
class Steps:
    """`data` is the `steps` of a page.

    `adding` gives the place of the step in which a gradient gets what comes through a statement, by
    the names of the two, for gradients that are drawn below the forward pass.  `making` gives that
    in which a node is computed, `lives` the lives of values by their places.
    """

    data: list[dict[str, Any]]
    adding: Mapping[tuple[str, str], int]
    making: Mapping[Node, int]
    lives: Mapping[int, Mapping[str, int | None]]
    timing: Timing


def steps_of(
    graph: Graph,
    run: RunMemory | None,
    ids: Mapping[str, int],
    given: Collection[str],
    read_by: Sequence[Sequence[int]],
) -> Steps:
    """The steps of a page about `graph`; that of the run is the same at known sizes.

    `ids` are the places of values by name; those in `given` are there before the first step.
    `read_by` are the places of what is made from each.  Without a run the order is that of the
    graph.
    """
    circles = circles_of(graph)
    times = _times(circles, graph, run)
    order = _order(circles, times)
    making: dict[Node, int] = {}
    for at, one in enumerate(order):
        for node in one.nodes:
            making.setdefault(node, at)
    # a circle may have to wait for one that is begun later: to a reader, numbers only rise
    instructions = list(accumulate((times[one.key] for one in order), max))
    drawn = _drawn(order, making, ids, given, graph)
    places = drawn if run is None else _done(drawn, run, instructions, ids, read_by)
    making |= {graph.names[name]: at for name, at in places.items() if graph.names[name] in making}
    writes: list[list[int]] = [[] for _ in order]
    for name, at in sorted(places.items(), key=lambda pair: pair[1] > drawn[pair[0]]):
        writes[at].append(ids[name])  # first what the step is drawn to make
    adds = [
        [ids[name] for name in one.gives if name in drawn and at < drawn[name]]
        for at, one in enumerate(order)
    ]
    lives = {} if run is None else _lives(graph, run, ids, making)
    frees = _frees(writes, instructions, run, lives)
    loops = first_results(graph, ids)
    fullest, live = [None] * len(order), [None] * len(order)
    if run is not None:
        fullest = fullest_of(instructions, run.usage)
        live = [run.usage.live_nbytes[number] for number in fullest]
    data = [
        {
            "title": text(one.title),
            "circle": text(one.key),
            "value": ids.get(one.unit.name),
            "pass": str(one.direction),
            "loop": next((loops[node] for node in one.nodes if node in loops), None),
            "instruction": None if run is None else instructions[at],
            "fullest_instruction": fullest[at],
            "live_nbytes": live[at],
            "writes": writes[at],
            "adds": adds[at],
            **_part(one, ids, graph, makes_none=not writes[at] and not adds[at]),
            "frees": frees[at],
        }
        for at, one in enumerate(order)
    ]
    adding = {
        (name, one.unit.statement.name): places[name] if at == drawn.get(name) else at
        for at, one in enumerate(order)
        if one.is_mirrored
        for name in one.gives
    }
    return Steps(data, adding, making, lives, _timing(graph, run, instructions, making))


def _part(one: Circle, ids: Mapping[str, int], graph: Graph, *, makes_none: bool) -> dict[str, Any]:
    """Of a step that makes no named value: what it `reads`, and what it is `part_of`."""
    if not makes_none or one.is_mirrored:
        return {"reads": [], "part_of": None}
    found = dict.fromkeys(graph.name_of.get(node, "") for node in one.unit.reads)
    reads = [ids[name] for name in found if name in ids]
    return {"reads": reads, "part_of": ids.get(one.unit.statement.name)}


def _timing(
    graph: Graph, run: RunMemory | None, instructions: Sequence[int], making: Mapping[Node, int]
) -> Timing:
    """Steps by the instructions of a run: that which makes a value, else the last that begins."""
    pairs = () if run is None else zip(run.graph.nodes, graph.nodes, strict=True)
    made = {bound: making[node] + 1 for bound, node in pairs if node in making}

    def step(number: int, makes: Node | None) -> int:
        found = None if makes is None else made.get(makes)
        return step_at(instructions, number) + 1 if found is None else found

    return Timing("step", step)


def _times(circles: Sequence[Circle], graph: Graph, run: RunMemory | None) -> dict[str, int]:
    """The instruction with which each circle's work begins.

    Where nothing is computed (the gradient 1 of the objective), that of the first circle that
    needs it, or of the last one that it needs.
    """
    begun: dict[str, int] = {}
    if run is not None:
        pairs = zip(graph.nodes, run.graph.nodes, strict=True)
        made_at = {node: run.made_at(bound) for node, bound in pairs}
        for one in circles:
            nodes = [*one.nodes, *(graph.names[name] for name in one.gives)]
            nodes += [whole for node in nodes if holds_bodies(whole := _shown_by(node))]
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


def _shown_by(node: Node) -> Node:
    """What a view shows: of a result of a loop, the loop."""
    while shows_its_input(node.primitive):
        node = node.inputs[0]
    return node


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


def _drawn(
    order: Sequence[Circle],
    making: Mapping[Node, int],
    ids: Mapping[str, int],
    given: Collection[str],
    graph: Graph,
) -> dict[str, int]:
    """The step of the last arrow that leads to each computed value.

    What no arrow leads to is there when what it is inside of is made, or, where it takes no
    computing, when the backward pass begins.
    """
    last: dict[str, int] = {}
    for at, one in enumerate(order):
        last |= dict.fromkeys(one.gives, at)
    begins = next((at for at, one in enumerate(order) if one.is_mirrored), len(order) - 1)
    return {
        name: last.get(name, making.get(graph.names[name], begins))
        for name in ids
        if name not in given and order
    }


def _done(
    drawn: Mapping[str, int],
    run: RunMemory,
    instructions: Sequence[int],
    ids: Mapping[str, int],
    read_by: Sequence[Sequence[int]],
) -> dict[str, int]:
    """The step after which each value is there: of one that is never stored a later one than
    `drawn`, where the instruction that uses it is done during that (a gradient, in its update).
    """
    places: dict[int, int] = {}
    for name, value in sorted(ids.items(), key=lambda pair: -pair[1]):  # first what reads others
        if name in drawn:
            at, node = drawn[name], run.graph.names[name]
            during = step_at(instructions, run.made_at(node))
            is_stored = node in run.life_of or seen_in(run, node) is not None
            if not is_stored and instructions[during] > instructions[at]:
                readers = [places[one] for one in read_by[value] if one in places]
                at = max(at, min([during, *readers]))
            places[value] = at
    return {name: places[ids[name]] for name in drawn}


def _frees(
    writes: Sequence[Sequence[int]],
    instructions: Sequence[int],
    run: RunMemory | None,
    lives: Mapping[int, Mapping[str, int | None]],
) -> list[list[int]]:
    """The values whose bytes nothing needs after each step."""
    found: list[list[int]] = [[] for _ in writes]
    written = {value: at for at, several in enumerate(writes) for value in several}
    for value, life in lives.items():
        end = life["last"]
        if value in written and end is not None and run is not None and end < run.usage.count:
            found[max(step_at(instructions, end), written[value])].append(value)
    return found


def _lives(
    graph: Graph, run: RunMemory, ids: Mapping[str, int], making: Mapping[Node, int]
) -> dict[int, Mapping[str, int | None]]:
    """The `first` and the `last` instruction of each value, the place of the step that is its last
    `reader`, where known, whether the value needs its memory `to_end`, and otherwise the
    view that keeps it `longer`, where that has a name."""
    pairs = list(zip(run.graph.nodes, graph.nodes, strict=True))
    computed: dict[int, list[tuple[Node, Node]]] = {}
    for bound, node in pairs:
        if (number := run.made_at(bound)) is not None:
            computed.setdefault(number, []).append((bound, node))
    found: dict[int, Mapping[str, int | None]] = {}
    for name, value in ids.items():
        node = run.graph.names[name]
        whole = seen_in(run, node) or node  # a view is there with what it shows
        life = run.life_of.get(whole)
        if life is None:
            continue
        end = max(life.last, life.last_read)  # bytes that are taken over in place are read then
        other = outliving(run, node, life)
        own = end if other is None else last_read(run, node, life)
        drawn = [(bound, step) for bound, step in computed.get(own, ()) if step in making]
        direct = [pair for pair in drawn if {node, whole}.intersection(pair[0].inputs)]
        reader = max((making[step] for _, step in direct or drawn), default=None)
        longer = None if other is None else ids.get(run.graph.name_of.get(other[1], ""))
        found[value] = {
            "first": life.first,
            "last": end,
            "reader": reader,
            "to_end": other is None,
            "longer": longer,
        }
    return found
