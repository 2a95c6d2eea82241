"""Plans within a budget: the works of a plan, some of them run again, in fewer bytes of scratch
memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from chainrule.graph.node import Node
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.planner import Plan
from chainrule.plan.roles import nbytes_of
from chainrule.plan.speeds import Speeds
from chainrule.plan.storage import Storage
from chainrule.plan.tasks import Tasks, may_repeat, tasks_of
from chainrule.plan.ways import ways
from chainrule.plan.work import ForeignWork
from chainrule.schedule.records import aligned

PLACED = 4  # ways of which offsets are looked for, where none is within the budget


def within(plan: Plan, nbytes: int, repetition_nbytes: int = 0) -> Plan:
    """The plan with the least work done again whose scratch memory has at most `nbytes`; where none
    is found, that which has the least.

    For each repetition, `repetition_nbytes` count as well.  Works and values are those of `plan`,
    so results have the same bits.
    """
    if plan.schedule.scratch_nbytes <= nbytes:
        return plan
    plain = _stored(plan, range(len(plan.works)))
    known = _sources(plan, range(len(plan.works)))
    found = [
        way for way in ways(_tasks(plain, plan.speeds)) if _sources(plan, way.sequence) <= known
    ]
    beside = [(len(one.sequence) - len(plan.works)) * repetition_nbytes for one in found]
    loads: list[tuple[int, int]] = []
    best = None
    for number, way in enumerate(found):
        stored = _stored(plan, way.sequence, nbytes - beside[number])
        if not stored.exceeds and stored.scratch_nbytes + beside[number] <= nbytes:
            best = stored
            break
        loads.append((stored.load_nbytes + beside[number], number))
    if best is None:
        least = [number for _, number in sorted(loads)[:PLACED]]
        made = [(_stored(plan, found[number].sequence), beside[number]) for number in least]
        best, _ = min(made, key=lambda one: one[0].scratch_nbytes + one[1])
    schedule = best.schedule(plan.graph)
    return replace(plan, schedule=schedule, works=tuple(best.works), load_nbytes=best.load_nbytes)


def _sources(plan: Plan, sequence: Iterable[int]) -> set[tuple[int, Node, int]]:
    """Which work reads which value of which work: two that write the same value need not round it
    alike."""
    writer: dict[Node, int] = {}
    found: set[tuple[int, Node, int]] = set()
    for number in sequence:
        work = plan.works[number]
        found.update((number, node, writer[node]) for node in work.reads if node in writer)
        writer |= dict.fromkeys(work.writes, number)
    return found


def _stored(plan: Plan, sequence: Iterable[int], capacity: int | None = None) -> Storage:
    """The storage of these works of the plan, by their numbers."""
    schedule, overwrites = plan.schedule, plan.overwrites
    works = [plan.works[number] for number in sequence]
    return Storage(works, list(schedule.given), schedule.results, overwrites, capacity=capacity)


def _tasks(storage: Storage, speeds: Speeds) -> Tasks:
    """The works as tasks; results take nothing, as their arrays come from outside."""
    works = storage.works
    results = {*storage.results, *storage.overwrites.values()}

    def nbytes(node: Node) -> int:
        return 0 if node in results else aligned(nbytes_of(node))

    once = [
        number
        for number, work in enumerate(works)
        if not results.isdisjoint(work.writes)
        or (isinstance(work, ForeignWork) and not may_repeat(work.node))
    ]
    spaces = [aligned(work.workspace_nbytes) for work in works]
    readers = Counter(node for work in works for node in work.reads)
    for life, source in storage.in_place.items():
        if readers[source.node] == 1 and nbytes(source.node) == nbytes(life.node):
            spaces[storage.lives.first[life]] -= nbytes(life.node)
    costs = (work_nanoseconds(work, speeds) for work in works)
    return tasks_of(works, nbytes, spaces, costs, once=once, overwrites=storage.overwrites)
