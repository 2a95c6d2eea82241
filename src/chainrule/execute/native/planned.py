"""The plan that is compiled for a graph: as it is, or within a budget of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chainrule.execute.budget import Needs, refuse_beyond_budget
from chainrule.execute.native.native_overhead import code_nbytes, overhead_of
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.machine_code.target import Target
from chainrule.plan.planner import Plan, plan
from chainrule.schedule.usage import usage_of


@without_collector
def planned(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node] | None,
    threads: int,
    target: Target,
    plain: bool = False,
    placement_seconds: float = 0.0,
    memory_nbytes: int | None = None,
    nested: bool = False,
) -> Plan:
    """The plan of a concrete graph for a target, as `plan` makes it; values are computed again
    where a run would need more than `memory_nbytes`, all that a memory report counts included.

    MemoryLimitError where no plan was found that needs so little.
    """
    made = plan(
        graph,
        results,
        overwrites,
        threads=threads,
        vector_nbytes=target.vector_nbytes,
        multiplies_pairs=target.multiplies_pairs,
        blas_from=target.blas_from,
        plain=plain,
        placement_seconds=placement_seconds,
        nested=nested,
    )
    if memory_nbytes is None:
        return made
    # the search for other plans is a tenth of what a first call imports
    from chainrule.plan.budget import within

    others = needs_of(made, results).nbytes - made.schedule.scratch_nbytes
    found = within(made, memory_nbytes - others, code_nbytes)
    least = needs_of(found, results)
    if least.nbytes > memory_nbytes:
        refuse_beyond_budget(least, memory_nbytes)
    return found


def needs_of(made: Plan, results: Sequence[Node]) -> Needs:
    """What a run by the plan needs."""
    usage = usage_of(made.schedule, results)
    return Needs(usage, overhead_of(made, made.graph, usage.large_count))
