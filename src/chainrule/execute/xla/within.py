"""The executor `xla` within a budget: values are computed again, and XLA's own count obeys it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.execute.overhead import AS_COMPILED
from chainrule.execute.xla.code import Code, code_of, is_given
from chainrule.execute.xla.jax_here import refusal
from chainrule.execute.xla.narrower import Chosen, Narrowing, too_large
from chainrule.execute.xla.parts import InParts
from chainrule.execute.xla.xla_executor import XlaExecutor
from chainrule.execute.xla.xla_program import XlaProgram
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.budget import with_works
from chainrule.schedule.records import Schedule
from chainrule.schedule.usage import usage_of


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

    def _first_within(self, results: list[Node], overwritten: dict[Node, Node]) -> Chosen:
        def compiled(parts: InParts | None) -> Code:
            return code_of(self.graph, results, overwritten, parts=parts)

        copied = sum(int(node.type.nbytes) for node in self.results if is_given(node))
        narrowing = Narrowing(self.graph, results, overwritten, compiled, copied)
        found = narrowing.within(self.memory_nbytes)
        if found.nbytes > self.memory_nbytes:
            what, hint = f"a run of {self.graph.name}", f"memory={found.nbytes} is enough"
            raise too_large(what, found, self.memory_nbytes, hint)
        return found

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
