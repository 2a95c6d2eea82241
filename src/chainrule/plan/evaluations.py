"""Evaluates a graph node by node within fewer bytes: some nodes are evaluated again.

What has an array of its own is a task; views follow what they show.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.checks import Check
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.roles import nbytes_of
from chainrule.plan.speeds import SPEEDS
from chainrule.plan.tasks import may_repeat, tasks_of
from chainrule.plan.ways import ways
from chainrule.primitives.primitive import Given
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.records import Compute, Schedule
from chainrule.schedule.turns import order_of

PATIENT = 900  # as `ladder` counts effort: nodes one by one are free to run in many orders


class Evaluation(NamedTuple):
    """One node that gets an array, and the arrays that it is evaluated from."""

    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    workspace_nbytes: int
    fails: bool = False  # nothing is overwritten, whatever fails
    checks: tuple[Check, ...] = ()


def plain_schedule_within(
    graph: Graph,
    results: Sequence[Node],
    outlines: Mapping[Node, np.ndarray],
    measured: Callable[[Schedule], int],
    nbytes: int,
) -> Schedule:
    """The plain schedule with the least work done again for which `measured` gives at most so many
    bytes; where none is found, that with the least bytes."""
    plain = plain_schedule(graph, results, outlines)
    best, least = plain, measured(plain)
    if least <= nbytes:
        return plain
    evaluations, numpy = list(_evaluations(plain)), SPEEDS[64].numpy
    tasks = tasks_of(
        evaluations,
        nbytes_of,
        [one.workspace_nbytes for one in evaluations],
        (node_nanoseconds(one.writes[0], numpy) for one in evaluations),
        kept={n for n, one in enumerate(evaluations) if one.writes[0] in results},
        once=_once(plain, evaluations),
        overwrites={},
    )
    nodes = [one.writes[0] for one in evaluations]
    own = set(nodes)
    for way in ways(tasks, PATIENT):
        sequence = [nodes[number] for number in way.sequence]
        order = _with_views(graph, results, sequence, own)
        made = plain_schedule(graph, results, outlines, order)
        if (need := measured(made)) < least:
            best, least = made, need
        if least <= nbytes:
            break
    return best


def _evaluations(schedule: Schedule) -> Iterator[Evaluation]:
    for one in schedule.instructions:
        if isinstance(one, Compute):
            workspace = one.workspace.nbytes if one.workspace is not None else 0
            yield Evaluation(one.reads, one.nodes, workspace)


def _once(schedule: Schedule, evaluations: Sequence[Evaluation]) -> list[int]:
    """What is evaluated once: results, what views that are results show, and users' functions."""
    results = set(schedule.results)
    shown = {node for one in evaluations if results.intersection(one.writes) for node in one.reads}
    return [
        number
        for number, one in enumerate(evaluations)
        if one.writes[0] in results or one.writes[0] in shown or not may_repeat(one.writes[0])
    ]


def _with_views(
    graph: Graph, results: Sequence[Node], sequence: Sequence[Node], own: Container[Node]
) -> list[Node]:
    """The nodes as they are evaluated: what is given, and then each of the sequence after the views
    that it reads, which are made anew where what they show was; those of `own` have arrays."""
    found = [node for node in order_of(graph, results) if isinstance(node.primitive.kernel, Given)]
    made = dict.fromkeys(found, 0)  # when each was evaluated last
    for node in sequence:
        for view in node.inputs:
            path: list[Node] = []
            while view not in own and made.get(view) != 0:
                path.append(view)
                if not view.inputs:
                    break
                (view,) = view.inputs
            since = made.get(view, 0)
            for one in reversed(path):
                if made.get(one, -1) < since or one not in made:
                    found.append(one)
                    made[one] = len(found)
                since = made[one]
        found.append(node)
        made[node] = len(found)
    return found
