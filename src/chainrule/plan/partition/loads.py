"""What a split costs each device, counted plainly: the referee."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.plan.partition.problem import Problem

Stages = tuple[tuple[int, ...], ...]


def loads(problem: Problem, stages: Stages) -> tuple[float, ...]:
    """The load of each device and host: the times of its nodes, and on a device those of values
    that enter or leave, each once in a direction."""
    found = []
    for place, nodes in enumerate(stages):
        here = set(nodes)
        if problem.is_host(place):
            found.append(sum(problem.host_seconds[v] for v in nodes))
            continue
        load = sum(problem.seconds[v] for v in nodes)
        for u, readers in enumerate(problem.readers):
            inside = sum(v in here for v in readers)
            if inside < len(readers) if u in here else inside:
                load += problem.transfer_seconds[u]
        found.append(load)
    return tuple(found)


def bytes_of(problem: Problem, stages: Stages) -> tuple[int, ...]:
    """The bytes that each device and host holds."""
    return tuple(sum(problem.nbytes[v] for v in nodes) for nodes in stages)


def fault(problem: Problem, stages: Stages, order: Sequence[int] | None) -> str | None:
    """What is wrong with a split, or None; if `order` names the places of a contiguous split in
    the order in which data flows, that is checked, too."""
    place = {v: one for one, nodes in enumerate(stages) for v in nodes}
    if len(stages) != problem.places:
        return f"{len(stages)} stages for {problem.places} places"
    if sorted(v for nodes in stages for v in nodes) != list(range(problem.size)):
        return "not each node once"
    for group in problem.together:
        if len({place[v] for v in group}) > 1:
            return f"{group} is parted"
    for one, used in enumerate(bytes_of(problem, stages)):
        if not problem.is_host(one) and used > problem.memory_nbytes[one]:
            return f"device {one} holds {used} bytes"
    if order is None:
        return None
    at = {one: number for number, one in enumerate(order)}
    for u, v in problem.edges:
        if u in problem.backward or v in problem.backward:
            continue
        if at[place[u]] > at[place[v]]:
            return f"node {v} lies before node {u}, which it reads"
    return None
