"""The executor `xla` within a budget: values are computed again, and XLA's own count obeys it.

The planner says what is computed again, and when; how much that needs, XLA's compiler says.  So
ways that need less and less are compiled until one is within the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chainrule.errors import MemoryLimitError, UnsupportedError
from chainrule.execute.overhead import AS_COMPILED
from chainrule.execute.xla.code import Code, code_of, is_given
from chainrule.execute.xla.jax_here import refusal
from chainrule.execute.xla.memory import ARGUMENTS, IN_PLACE, RESULTS, SCRATCH
from chainrule.execute.xla.parts import parts_of
from chainrule.execute.xla.xla_executor import XlaExecutor
from chainrule.execute.xla.xla_program import XlaProgram
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.cached import cached_property
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.budget import Shorter, shorter_ways, with_works
from chainrule.plan.planner import Plan, plan
from chainrule.plan.work import Work
from chainrule.schedule.records import Schedule
from chainrule.schedule.usage import usage_of

COMPILED, LEAST = 5, 3  # ways at most, and then so many of those that need least
LONG = 4  # times as many instructions as without a budget, at most: each takes time to compile


class XlaWithin:
    """As `xla`, on one device; a run needs at most `memory_nbytes`, as XLA counts them."""

    traits = XlaExecutor.traits

    def __init__(self, memory_nbytes: int) -> None:
        self.memory_nbytes = memory_nbytes
        self.name = f"xla (within {memory_nbytes:,} bytes)"

    def within(self, memory_nbytes: int) -> XlaWithin:
        """The same with another budget."""
        return XlaWithin(memory_nbytes)

    def refusal(self) -> str | None:
        """Why JAX cannot be used here."""
        return refusal()

    def prepare(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        *,
        traced: Graph | None = None,
    ) -> ProgramWithin:
        """See `Executor.prepare`."""
        return ProgramWithin(graph, results, overwrites, traced, self.memory_nbytes)


class Chosen(NamedTuple):
    """Code, the bytes that it needs, and the works of a plan in the order that it follows; no plan
    where nothing is computed again."""

    code: Code
    nbytes: int
    plan: Plan | None = None
    works: tuple[Work, ...] = ()


class ProgramWithin(XlaProgram):
    """A program that needs at most `memory_nbytes`, as XLA counts them; compiled to be counted."""

    sends_ahead = False

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        traced: Graph | None,
        memory_nbytes: int,
    ) -> None:
        super().__init__(graph, results, overwrites, traced)
        self.memory_nbytes = memory_nbytes
        self._chosen: dict[tuple[Node, ...], Chosen] = {}

    def code_for(
        self, results: Sequence[Node], overwritten: Mapping[Node, Node] | None = None
    ) -> Code:
        """See `XlaProgram.code_for`; MemoryLimitError where none is within the budget."""
        return self.chosen_for(results, overwritten or {}).code

    def chosen_for(self, results: Sequence[Node], overwritten: Mapping[Node, Node]) -> Chosen:
        """What is compiled for the budget."""
        key = (*results, *overwritten, *overwritten.values())
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._first_within(list(results), dict(overwritten))
        return found

    @without_collector
    def _first_within(self, results: list[Node], overwritten: dict[Node, Node]) -> Chosen:
        least = None
        for one in self._less_and_less(results, overwritten):
            if one.nbytes <= self.memory_nbytes:
                return one
            least = one if least is None or one.nbytes < least.nbytes else least
        assert least is not None
        raise self._refusal(least)

    def _less_and_less(
        self, results: list[Node], overwritten: dict[Node, Node]
    ) -> Iterator[Chosen]:
        """The graph as it is; ways that need less and less, the quickest first that may be within
        the budget by what XLA has counted before; then those that need least."""
        code = code_of(self.graph, results, overwritten)
        yield Chosen(code, nbytes := self._needed_nbytes(code, overwritten))
        everything = [*overwritten, *results]
        of_plan = plan(self.graph, everything, {one: x for x, one in overwritten.items()})
        longest = LONG * len(of_plan.works)
        ways = [one for one in shorter_ways(of_plan) if len(one.works) <= longest]

        def compiled(way: Shorter) -> Chosen:
            parts = parts_of(self.graph, way.works, everything)
            code = code_of(self.graph, results, overwritten, parts=parts)
            return Chosen(code, self._needed_nbytes(code, overwritten), of_plan, way.works)

        allowed = self.memory_nbytes - (nbytes - code.nbytes[SCRATCH])
        for _ in range(COMPILED):
            way = next((one for one in ways if one.nbytes <= allowed), None)
            if way is None:
                break
            ways.remove(way)
            yield (found := compiled(way))
            allowed = way.nbytes - max(found.nbytes - self.memory_nbytes, 1)
        yield from map(compiled, sorted(ways, key=lambda one: one.nbytes)[:LEAST])

    def _needed_nbytes(self, code: Code, overwritten: Mapping[Node, Node]) -> int:
        """Arguments, results and scratch; of a call that overwrites nothing, results are copied
        at its end."""
        found = code.nbytes
        if not found:
            raise UnsupportedError(
                "memory= is for devices whose compiler says what a program needs, and this one "
                "does not",
                hint='leave memory out, or executor="native"',
            )
        made, scratch = found[RESULTS] - found[IN_PLACE], found[SCRATCH]
        copied = sum(int(node.type.nbytes) for node in self.results if is_given(node))
        return found[ARGUMENTS] + copied + made + (scratch if overwritten else max(scratch, made))

    def _refusal(self, least: Chosen) -> MemoryLimitError:
        """A run needs more than the budget, also in the way that needs least."""
        needed, budget = least.nbytes, self.memory_nbytes
        found = least.code.nbytes
        lines = [
            f"a run of {self.graph.name} needs at least {needed:,} bytes ({in_bytes(needed)}) as "
            "XLA compiles it, also where values are computed again, and memory is "
            f"{budget:,} ({in_bytes(budget)})",
            f"  {ARGUMENTS} {found[ARGUMENTS]:,}, {RESULTS} beside them "
            f"{found[RESULTS] - found[IN_PLACE]:,}, {SCRATCH} {found[SCRATCH]:,}",
        ]
        error = MemoryLimitError("\n".join(lines), hint=f"memory={needed} is enough")
        error.needed_nbytes, error.budget_nbytes = needed, budget
        return error

    @cached_property
    def _of_calls(self) -> Chosen | None:
        """What is compiled for calls that may overwrite inputs; None where nothing is computed."""
        return self.chosen_for(*self.in_place) if self.computed else None

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """That of the plan that the code follows; MemoryLimitError where none is within the
        budget.  Compiles."""
        found = self._schedule
        return super().schedule(outlines) if found is None else found

    @cached_property
    def _schedule(self) -> Schedule | None:
        chosen = self._of_calls
        if chosen is None or chosen.plan is None:
            return None
        return with_works(chosen.plan, chosen.works).schedule

    def overhead(self, arrays: int) -> dict[str, int]:
        """By how much XLA's count is more than the schedule's, or less."""
        chosen = self._of_calls
        if chosen is None:
            return {}
        counted = usage_of(self.schedule({}), self.results, block=False).peak_nbytes
        return {AS_COMPILED: chosen.nbytes - counted}
