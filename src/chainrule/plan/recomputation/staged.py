"""Sequences of a program in stages for many budgets, from the table of their best schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.search import Found, found
from chainrule.plan.recomputation.sequence import fault, without_useless
from chainrule.plan.recomputation.stage_table import Backward, Dropped, Event, Forward, StageTable
from chainrule.plan.recomputation.stages import Stage, stages_of

FINER = 3  # times smaller is a budget for which there is a table with finer units
SPARE = 1.25  # of a budget, for which a table is made
TRIES = 3
CLOSE = 2  # units by which a schedule may need less than the budget


class StagedSchedules:
    """Schedules of one program for many budgets, each smaller than the one before."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.stages = stages_of(problem)
        again = {node for stage in self.stages for node in stage.values}
        self._reads = [[u for u in reads if u in again] for reads in problem.inputs]
        self._known: StageTable | None = None
        self._made: dict[tuple[Event, ...], Found | None] = {}
        self._more = 0  # bytes by which a schedule needed less than the table said

    def best(self, budget: int) -> Found | None:
        """The best schedule within a budget, perhaps one that needs a little more; None where
        none is known."""
        if not self.stages:
            return None
        table = self._known
        if table is None or table.budget > FINER * budget:
            table = self._known = StageTable(self.stages, int(SPARE * budget))
        best = None
        for _ in range(TRIES):
            asked = min(budget + self._more, table.budget)
            events = table.schedule(asked) if asked > 0 else None
            one = self._found(tuple(events)) if events is not None else None
            if one is None:
                break
            best = one if best is None or one.beats(best, budget) else best
            if 0 <= budget - one.peak_nbytes <= CLOSE * table.unit:
                break
            less = one.peak_nbytes - budget
            self._more = asked - budget - (max(less, table.step) if less > 0 else less)
        return best

    def _found(self, events: tuple[Event, ...]) -> Found | None:
        if events not in self._made:
            self._made[events] = self._counted(self._sequence(events))
        return self._made[events]

    def _counted(self, sequence: Sequence[int]) -> Found | None:
        if fault(self.problem, sequence):
            return None
        return found(self.problem, without_useless(self.problem, sequence), "stages run again")

    def _sequence(self, events: Iterable[Event]) -> list[int]:
        walk = _Walk(self.problem, self.stages, self._reads)
        for event in events:
            match event:
                case Forward(number, kept):
                    walk.forward(number, kept)
                case Dropped(number):
                    walk.there.difference_update(self.stages[number].values)
                case Backward(number):
                    walk.backward(number)
        return walk.found


class _Walk:
    """What was executed so far, and which values are there of those that can be computed again;
    `reads` are those that each node reads."""

    def __init__(
        self, problem: Problem, stages: Sequence[Stage], reads: Sequence[Sequence[int]]
    ) -> None:
        self.problem, self.stages, self.reads = problem, stages, reads
        self.there: set[int] = set()
        self.found: list[int] = []
        self.begun = 0  # how many stages ran forward

    def forward(self, number: int, kept: Set[int]) -> None:
        """All of a stage the first time, and then what is to be kept."""
        stage = self.stages[number]
        if number == self.begun:
            self.begun += 1
            for at in stage.forward:
                self.execute(self.problem.order[at])
        for node in stage.values:
            if node in kept and node not in self.there:
                self.execute(node)
        self.there.difference_update(set(stage.values) - kept)

    def backward(self, number: int) -> None:
        """The way back of a stage, behind its way forward if that has not been."""
        stage = self.stages[number]
        if number == self.begun:
            self.forward(number, set(stage.values))
        for at in stage.backward:
            self.execute(self.problem.order[at])

    def execute(self, node: int) -> None:
        """Execute a node behind all that it reads; what is not there is computed again."""
        if self.there.issuperset(self.reads[node]):
            self.found.append(node)
            self.there.add(node)
            return
        pending = [node]
        while pending:
            one = pending[-1]
            missing = [u for u in self.reads[one] if u not in self.there]
            pending += missing
            if not missing:
                pending.pop()
                if one == node or one not in self.there:
                    self.found.append(one)
                    self.there.add(one)
