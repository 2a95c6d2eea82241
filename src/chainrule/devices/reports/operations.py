"""The timeline of a step that was taken as one program: from what each device was seen to do.

Operations are known by the nodes that they are made for, so what they are for follows from the
graph of a rank: what the objective needs is the forward pass, what else the sums of gradients need
is the backward pass, and what is left the update.  A device counts as busy with an operation until
its next one begins, and waits in an exchange until all others have begun it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass, replace
from chainrule.devices.grid import Grid
from chainrule.devices.one_program import Recording
from chainrule.devices.reports.spans import (
    ADDING,
    BACKWARD,
    FORWARD,
    GATHERING,
    UPDATE,
    WAITING,
    Operation,
    ParallelTimeline,
    Span,
    StepTrace,
)
from chainrule.devices.reports.timeline import timeline_of, title
from chainrule.devices.tensor.collectives import all_gather, is_collective
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split
    from chainrule.plan.speeds import Speeds


@dataclass(frozen=True)
class Seen:
    """An operation that a rank has `begun` at a time, and among the ranks of which group it is an
    exchange; "" where it is none.  `compiled` is what the compiler calls it.
    """

    operation: Operation
    begun: float
    compiled: str
    among: str


EVERYWHERE = "all"  # the group of an exchange that no node stands for


def trace_of_program(
    step: ParallelStep, split: Split, recording: Recording, objective: Any, speeds: Speeds | None
) -> StepTrace:
    """What was recorded in a step, which has ended now, beside what is predicted for it."""
    ended, job = perf_counter(), step.job
    own = seen_by(step.grid, split.micro_batches, recording)
    told = [(recording.begun, ended, own)]
    if job.count > 1:
        rows = [[vars(one.operation), one.begun, one.compiled, one.among] for one in own]
        told = [
            (begun, end, [Seen(Operation(**row), *rest) for row, *rest in rows])
            for begun, end, rows in job.exchange("traces a step", [recording.begun, ended, rows])
        ]
    begun, ended = min(one for one, *_ in told), max(one for _, one, _ in told)
    seen = [one for _, _, found in told for one in found]
    seen = from_zero(without_waiting(step.grid, seen))
    ranks = spans_of(step.grid, seen, recording.nbytes)
    inside = max(spans[-1].end for spans in ranks)
    real = ParallelTimeline(
        title(step, split.sizes),
        step.stages,
        True,
        ranks,
        (),
        ways=step.ways,
        starting=max(ended - begun - inside, 0.0),
    )
    predicted = timeline_of(step, split, split.sizes, speeds)
    return StepTrace(objective, real, predicted, tuple(one.operation for one in seen))


def seen_by(grid: Grid, micro_batches: int, recording: Recording) -> list[Seen]:
    """What the devices of this process did, one after the other, each in the order of time."""
    assert recording.graph is not None
    doing, loop = purposes(recording.graph, recording.sums)
    names = {node: name for x in (recording.graph, *loop) for node, name in x.name_of.items()}
    each = micro_batches // grid.replicas
    inside = {node for one in loop for node in one.nodes}
    inside |= {node for node in recording.graph.nodes if holds(node, loop)}
    counts = Counter((one.device, one.name) for one in recording.operations)
    found: list[Seen] = []
    done, rank, now, turn = Counter[str](), -1, FORWARD, None
    for one in recording.operations:
        if one.device != rank:
            done, rank, now, turn = Counter(), one.device, FORWARD, None
        for node in one.nodes:
            now = doing.get(node, now)
        is_inside = inside.intersection(one.nodes)
        if each > 1 and (one.nodes or turn is None):
            # What a turn does once says which one it is; other operations belong to the latest.
            if is_inside and counts[rank, one.name] == each:
                turn = grid.replica_of(rank) * each + done[one.name]
            elif not is_inside:
                turn = None
        done[one.name] += 1
        part = turn
        if each == 1 and now in (FORWARD, BACKWARD):
            part = grid.replica_of(rank)
        what, among = now, ""
        if one.is_together:
            exchanges = [node for node in one.nodes if is_collective(node)]
            what = GATHERING if exchanges and exchanges[-1].primitive is all_gather else ADDING
            among = exchanges[-1].param("among") if exchanges else EVERYWHERE
        name = next((names[node] for node in reversed(one.nodes) if node in names), "")
        operation = Operation(rank, name, what, part, one.start, one.end)
        found.append(Seen(operation, one.start, one.name, among))
    return found


def purposes(graph: Graph, sums: Mapping[str, str | None]) -> tuple[dict[Node, str], list[Graph]]:
    """What the nodes of the graph of a rank are for, and the body of its loop over micro-batches,
    if there is one.

    `sums` maps the name of what the passes leave of each sum to its parameter, None for the
    objective's.
    """
    bodies = [body.graph for node in graph.nodes for body in bodies_of(node)]
    loop = [one for one in bodies if all(name in one.names for name in sums)][:1]
    passes = loop[0] if loop else graph
    doing: dict[Node, str] = {}
    for name in sorted(sums, key=lambda one: sums[one] is not None):
        what = FORWARD if sums[name] is None else BACKWARD
        for node in topological([passes.names[name]]):
            doing.setdefault(node, what)
    for node in graph.nodes:
        if holds(node, loop):
            for before in topological(node.inputs):  # what replicas hand on
                doing.setdefault(before, FORWARD)
        else:
            doing.setdefault(node, UPDATE)
    return doing, loop


def holds(node: Node, loop: Sequence[Graph]) -> bool:
    """Whether a node is the loop over micro-batches, if there is one."""
    return any(body.graph in loop for body in bodies_of(node))


def without_waiting(grid: Grid, seen: Sequence[Seen]) -> list[Seen]:
    """The same with exchanges that start when all ranks of their group have begun them."""
    begun: dict[tuple[int, str], list[float]] = {}
    for one in seen:
        if one.among:
            begun.setdefault((one.operation.rank, one.compiled), []).append(one.begun)
    done = Counter[tuple[int, str]]()
    found = []
    for one in seen:
        rank, end = one.operation.rank, one.operation.end
        if one.among:
            group = range(grid.count) if one.among == EVERYWHERE else grid.group(rank, one.among)
            number = done[rank, one.compiled]
            done[rank, one.compiled] += 1
            start = max(begun[other, one.compiled][number] for other in group)
            one = replace(one, operation=replace(one.operation, start=min(start, end)))
        found.append(one)
    return found


def from_zero(seen: Sequence[Seen]) -> list[Seen]:
    """The same in seconds since the first rank began."""
    zero = min(one.begun for one in seen)
    found = []
    for one in seen:
        start, end = one.operation.start - zero, one.operation.end - zero
        operation = replace(one.operation, start=start, end=end)
        found.append(replace(one, operation=operation, begun=one.begun - zero))
    return found


def spans_of(grid: Grid, seen: Sequence[Seen], nbytes: int) -> tuple[tuple[Span, ...], ...]:
    """What each rank does when: operations for the same, one after the other, are one span."""
    by_rank: list[list[Seen]] = [[] for _ in range(grid.count)]
    for one in seen:
        by_rank[one.operation.rank].append(one)
    ranks = []
    for own in by_rank:
        spans: list[Span] = []
        _add(spans, WAITING, None, 0.0, own[0].begun, 0, nbytes)
        ends = [*(one.begun for one in own[1:]), max(one.operation.end for one in own)]
        for at, (one, end) in enumerate(zip(own, ends, strict=True)):
            doing, part = one.operation.doing, one.operation.micro_batch
            start = min(one.operation.start, end)
            _add(spans, WAITING, part, one.begun, start, at, nbytes)
            _add(spans, doing, part, start, end, at, nbytes)
        ranks.append(tuple(spans))
    return tuple(ranks)


def _add(
    spans: list[Span], doing: str, part: int | None, start: float, end: float, at: int, nbytes: int
) -> None:
    """One more span, or the last one goes on."""
    if end <= start:
        return
    if spans and (spans[-1].doing, spans[-1].micro_batch) == (doing, part):
        spans[-1] = replace(spans[-1], end=end)
    else:
        spans.append(Span(doing, part, start, end, at, nbytes))
