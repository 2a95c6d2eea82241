"""Sequences of a program in stages for many budgets, from the table of their best schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chainrule.graph.cached import cached_property
from chainrule.plan.recomputation.keepings import keepings
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.search import Found
from chainrule.plan.recomputation.sequence import useful_part
from chainrule.plan.recomputation.stage_table import Backward, Event, Kept, StageTable, Walked
from chainrule.plan.recomputation.stages import Stage, stages_of

FINER = 3  # times smaller is a budget for which there is a table with finer units
SPARE = 1.25  # of a budget, for which a table is made
TRIES = 3
CLOSE = 2  # units by which a schedule may need less than the budget


class _Part(NamedTuple):
    """Values of a stage that stay, in the order in which they are made, and the others."""

    staying: tuple[int, ...]
    others: frozenset[int]


class StagedSchedules:
    """Schedules of one program for many budgets, each smaller than the one before."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.stages = stages_of(problem)
        again = {node for stage in self.stages for node in stage.values}
        self._reads = [[u for u in reads if u in again] for reads in problem.inputs]
        self._handed = [_part(stage, stage.inside.handed) for stage in self.stages]
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
        useful = useful_part(self.problem, sequence)
        if useful is None:
            return None
        rest, seen = useful
        return Found(rest, seen.cost, seen.peak_nbytes, "stages run again")

    @cached_property
    def _keepings(self) -> list[list[_Part]]:
        """For each stage, what stays in each of its keepings."""
        found = ((one, keepings(one.inside)) for one in self.stages)
        return [[_part(stage, one.values) for one in each] for stage, each in found]

    def _sequence(self, events: Iterable[Event]) -> list[int]:
        walk = _Walk(self.problem, self.stages, self._reads)
        for event in events:
            match event:
                case Kept(number, keeping):
                    walk.forward(number, self._keepings[number][keeping])
                case Walked(first, last):
                    walk.forward(first, self._handed[first])
                    for number in range(first + 1, last + 1):
                        walk.forward(number, self._handed[number])
                        walk.there.difference_update(self.stages[number - 1].values)
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

    def forward(self, number: int, part: _Part) -> None:
        """All of a stage the first time, and then what is to stay of it."""
        if number == self.begun:
            self.begun += 1
            places = self.stages[number].forward
            self.execute(self.problem.order[places.start : places.stop])
        if not self.there.issuperset(part.staying):
            self.execute([node for node in part.staying if node not in self.there])
        self.there -= part.others

    def backward(self, number: int) -> None:
        """The way back of a stage, behind its way forward if that has not been."""
        stage = self.stages[number]
        if number == self.begun:
            self.forward(number, _part(stage, range(len(stage.values))))
        self.execute(self.problem.order[stage.backward.start : stage.backward.stop])

    def execute(self, nodes: Iterable[int]) -> None:
        """Execute nodes, each behind all that it reads."""
        there, reads, found = self.there, self.reads, self.found
        for node in nodes:
            if not there.issuperset(reads[node]):
                self._execute_inputs(node)
            found.append(node)
            there.add(node)

    def _execute_inputs(self, node: int) -> None:
        """What the node reads and is not there is computed again."""
        pending = [u for u in self.reads[node] if u not in self.there]
        while pending:
            missing = [u for u in self.reads[pending[-1]] if u not in self.there]
            pending += missing
            if not missing:
                one = pending.pop()
                if one not in self.there:
                    self.found.append(one)
                    self.there.add(one)


def _part(stage: Stage, numbers: Iterable[int]) -> _Part:
    """The values with these numbers within the stage, and the others."""
    staying = [stage.values[number] for number in sorted(numbers)]
    return _Part(tuple(staying), frozenset(stage.values).difference(staying))
