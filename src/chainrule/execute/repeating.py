"""The reference executor within a budget: nodes are evaluated again where their arrays would not
fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.execute import reference
from chainrule.execute.budget import Needs, refuse_beyond_budget, refuse_copies, with_copies
from chainrule.execute.executor import Traits
from chainrule.execute.free_memory import refuse_beyond_free
from chainrule.execute.given_back import TurnsWithin
from chainrule.execute.overhead import KEPT_NBYTES
from chainrule.execute.plain import PlainProgram
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.schedule.records import Schedule
from chainrule.schedule.usage import usage_of


class RepeatingExecutor:
    """As `reference`; a run needs at most `memory_nbytes`."""

    traits = Traits()

    def __init__(self, memory_nbytes: int) -> None:
        self.memory_nbytes = memory_nbytes
        self.name = f"reference (within {memory_nbytes:,} bytes)"

    def within(self, memory_nbytes: int) -> RepeatingExecutor:
        """The same with another budget."""
        return RepeatingExecutor(memory_nbytes)

    def refusal(self) -> str | None:
        """None: NumPy runs everywhere."""
        return None

    def prepare(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        *,
        traced: Graph | None = None,
    ) -> RepeatingProgram:
        """See `Executor.prepare`; nothing is overwritten."""
        return RepeatingProgram(graph, tuple(dict.fromkeys(results)), traced, self.memory_nbytes)


class RepeatingProgram(PlainProgram):
    """A graph with its results, evaluated node by node, some of them several times."""

    def __init__(
        self, graph: Graph, results: tuple[Node, ...], traced: Graph | None, memory_nbytes: int
    ) -> None:
        super().__init__(graph, results, traced, reference.evaluate)
        self.memory_nbytes = memory_nbytes
        self._schedules: dict[tuple[object, ...], tuple[TurnsWithin, int, int]] = {}

    def __call__(self, inputs: Mapping[Node, np.ndarray]) -> Mapping[Node, np.ndarray]:
        """See `Program.__call__`."""
        lying = {node: one for node, one in inputs.items() if not one.flags.c_contiguous}
        turns, allocated_nbytes, _ = self._known(lying)
        refuse_beyond_free(allocated_nbytes)
        return reference.evaluate(self.graph, inputs, self.results, self.traced, turns=turns)

    def refuse_copies(self, copied: Mapping[Node, int]) -> None:
        """MemoryLimitError where the budget has no room for copies of inputs, of so many bytes."""
        if copied:
            needed = with_copies(self._known({})[2], copied)
            refuse_copies(self.graph, copied, needed, self.memory_nbytes)

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """See `Program.schedule`; MemoryLimitError where no schedule is within the budget."""
        return self._known(outlines)[0].schedule

    def _known(self, outlines: Mapping[Node, np.ndarray]) -> tuple[TurnsWithin, int, int]:
        """The evaluations in turn, the bytes that they allocate, and all that a run needs."""
        key = tuple([(node, one.strides) for node, one in outlines.items()])
        found = self._schedules.get(key)
        if found is None:
            needs = self._planned(outlines)
            usage = needs.usage
            others = sum(needs.overhead.values()) - KEPT_NBYTES
            turns = TurnsWithin(usage, self.memory_nbytes - others)
            found = turns, usage.peak_nbytes - usage.given_nbytes, needs.nbytes
            self._schedules[key] = found
        return found

    def _planned(self, outlines: Mapping[Node, np.ndarray]) -> Needs:
        """What a run by the schedule needs that does least again; MemoryLimitError for none."""
        from chainrule.plan.evaluations import plain_schedule_within  # where a budget is given

        def needs(schedule: Schedule) -> Needs:
            usage = usage_of(schedule, self.results, block=False)
            return Needs(usage, self.overhead(usage.large_count))

        found = plain_schedule_within(
            self.graph,
            self.results,
            outlines,
            lambda schedule: needs(schedule).nbytes,
            self.memory_nbytes,
        )
        if (least := needs(found)).nbytes > self.memory_nbytes:
            refuse_beyond_budget(least, self.memory_nbytes)
        return least
