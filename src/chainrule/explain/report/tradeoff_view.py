"""The tradeoff between memory and time as a page shows it: what each plan computes again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from chainrule.explain.memory.repeats import Repeat
from chainrule.explain.memory.run_memory import WORKSPACE, RunMemory
from chainrule.explain.memory.tradeoff import Point, Tradeoff
from chainrule.explain.reading.statements import Reading
from chainrule.explain.report.memory_view import part_of
from chainrule.explain.report.plain import number, text
from chainrule.graph.node import Node

COLUMNS = 100  # of the bytes in use during a run


def tradeoff_data(
    found: Tradeoff, reading: Reading, ids: Mapping[Node, int], making: Mapping[Node, int]
) -> dict[str, Any]:
    """The `tradeoff` of a page; `reading` is of the graph that it shows, `ids` are the places of
    its values, `making` those of the steps that compute nodes."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    points = []
    before: set[tuple[Any, ...]] = set()
    for point in found:
        now = dict(_rows(point, reading, ids, making))
        rows |= now
        points.append((point, now.keys() - before, before - now.keys()))
        before = set(now)
    order = sorted(rows, key=lambda key: (-rows[key]["nbytes"], key))
    places = {key: place for place, key in enumerate(order)}
    return {
        "rows": [rows[key] for key in order],
        "points": [
            {
                **_numbers(point),
                "adds": sorted(places[key] for key in adds),
                "drops": sorted(places[key] for key in drops),
                **_profile(point.report.main),
            }
            for point, adds, drops in points
        ],
        "highest": number(found.highest),
    }


def _numbers(point: Point) -> dict[str, Any]:
    return {
        "needed_nbytes": point.needed_nbytes,
        "peak_nbytes": point.report.main.peak_nbytes,
        "nanoseconds": number(point.nanoseconds),
        "extra": number(point.extra),
        "extra_flops": point.extra_flops,
        "in_loops": point.in_loops,
    }


@dataclass
class _Row:
    """What is computed again of some named values: themselves, or parts of them."""

    values: dict[int, None] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)
    sources: dict[int, None] = field(default_factory=dict)
    reads: dict[Node, None] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    times: dict[Node, int] = field(default_factory=dict)
    nanoseconds: float = 0.0
    freed: dict[tuple[Node, ...], int] = field(default_factory=dict)


def _rows(
    point: Point, reading: Reading, ids: Mapping[Node, int], making: Mapping[Node, int]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The rows of a point, each with a key that is its own."""
    shown = _shown(point, reading)
    found: dict[tuple[Any, ...], _Row] = {}
    for repeat in point.repeats:
        wholes = [_whole(reading, ids, shown.get(node)) for node in repeat.nodes]
        group = tuple(dict.fromkeys(wholes))
        _add(found.setdefault(group, _Row()), repeat, shown, reading, ids, making)
    for group, row in found.items():
        made = {
            "values": list(row.values),
            "parts_of": [] if row.values else [one for one in group if one is not None],
            "label": text(", ".join(row.labels)),
            "sources": [one for one in row.sources if one not in group],
            "from_parts": _reads_parts(row, group, reading, ids, shown),
            "steps": sorted(row.steps),
            "times": max(row.times.values()),
            "nanoseconds": number(row.nanoseconds),
            "nbytes": sum(row.freed.values()),
        }
        yield tuple(tuple(v) if isinstance(v, list) else v for v in made.values()), made


def _add(
    row: _Row,
    repeat: Repeat,
    shown: Mapping[Node, Node],
    reading: Reading,
    ids: Mapping[Node, int],
    making: Mapping[Node, int],
) -> None:
    row.nanoseconds += repeat.nanoseconds
    row.freed[repeat.nodes] = repeat.nbytes
    for own in repeat.nodes:
        node = shown.get(own)
        row.times[own] = row.times.get(own, 0) + 1
        if node is None:  # in a loop that the graph does not show
            row.labels.update(dict.fromkeys(repeat.values))
            continue
        if node in ids:
            row.values[ids[node]] = None
        elif _whole(reading, ids, node) is None:
            row.labels[part_of(reading, node)] = None
        if node in making:
            row.steps.add(making[node])
    for own in repeat.reads:
        row.reads[own] = None
        whole = _whole(reading, ids, shown.get(own))
        if whole is not None:
            row.sources[whole] = None


def _reads_parts(
    row: _Row,
    group: tuple[int | None, ...],
    reading: Reading,
    ids: Mapping[Node, int],
    shown: Mapping[Node, Node],
) -> bool:
    """Whether a row reads parts of its values that are there still."""
    kept = (shown.get(node) for node in row.reads if node not in row.times)
    return any(node not in ids and _whole(reading, ids, node) in group for node in kept if node)


def _shown(point: Point, reading: Reading) -> Mapping[Node, Node]:
    """The nodes of the graph that is shown by those of the plan's: other loops have others."""
    graph, own = reading.graph, point.report.main.graph
    if len(graph.nodes) == len(own.nodes):
        return dict(zip(own.nodes, graph.nodes, strict=True))
    return {node: graph.names[name] for name, node in own.names.items() if name in graph.names}


def _whole(reading: Reading, ids: Mapping[Node, int], node: Node | None) -> int | None:
    """The id of a value, or of the named one that it is a part of."""
    if node is None or node in ids:
        return None if node is None else ids[node]
    statement = reading.statement_of.get(node)
    return None if statement is None else ids.get(statement.value)


def _profile(run: RunMemory) -> dict[str, Any]:
    """The bytes in use during a run by kind, in as many columns as a chart has room for: of each
    span of instructions those of the one with the most."""
    usage = run.usage
    live = usage.live_nbytes
    columns = list(_fullest(live))
    changes: dict[str, list[int]] = {}
    for life in usage.lives:
        if not life.in_place and life.nbytes:
            change = changes.setdefault(str(run.kinds[life.node]), [0] * (usage.count + 2))
            change[life.first] += life.nbytes
            change[life.last + 1] -= life.nbytes
    kinds = {str(kind): list(accumulate(change)) for kind, change in changes.items()}
    if any(usage.workspaces):
        kinds[WORKSPACE] = list(usage.workspaces)
    order = [kind for kind in run.parts if kind in kinds]
    return {
        "count": usage.count,
        "kinds": {kind: [kinds[kind][at] for at in columns] for kind in order},
    }


def _fullest(live: Sequence[int]) -> Iterator[int]:
    count = min(len(live), COLUMNS)
    for place in range(count):
        span = range(place * len(live) // count, (place + 1) * len(live) // count)
        yield max(span, key=live.__getitem__)
