"""Makes an executor of a function that evaluates a graph; `reference` is one.

And calls any program that has no way of its own to be bound to arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.execute import reference
from chainrule.execute.arguments import swapped_nbytes
from chainrule.execute.executor import Executor, Program, Then, Traits
from chainrule.execute.refusal import refuse_reference
from chainrule.graph.body import inner_nodes
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node
from chainrule.schedule.records import Compute, Schedule, View

if TYPE_CHECKING:
    from chainrule.execute.home import Home
    from chainrule.plan.speeds import Speeds

Evaluate = Callable[
    [Graph, Mapping[Node, np.ndarray], Iterable[Node], Graph | None], Mapping[Node, np.ndarray]
]


@dataclass(frozen=True)
class PlainExecutor:
    """The executor whose programs are `evaluate(graph, inputs, results, traced)`.

    That gives the value of every result by its node, in memory of its own, and allocates an array
    for each value when it is computed, as `reference.evaluate` does: memory reports, and the
    refusal of runs that would not fit, count so.
    """

    name: str
    evaluate: Evaluate
    traits = Traits()

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
    ) -> PlainProgram:
        """See `Executor.prepare`; nothing is overwritten."""
        return PlainProgram(graph, tuple(dict.fromkeys(results)), traced, self.evaluate)


@dataclass(frozen=True, eq=False)
class PlainProgram:
    """A graph with its results, evaluated node by node."""

    graph: Graph
    results: tuple[Node, ...]
    traced: Graph | None
    evaluate: Evaluate
    refused = ()

    def __call__(self, inputs: Mapping[Node, np.ndarray]) -> Mapping[Node, np.ndarray]:
        """See `Program.__call__`."""
        refuse_reference(self.graph, self.results, inputs)
        return self.evaluate(self.graph, inputs, self.results, self.traced)

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """Every value an array of its own, or a view, in the order of the graph."""
        from chainrule.schedule.plain import plain_schedule

        return plain_schedule(self.graph, self.results, outlines)

    def durations(self, speeds: Speeds | None = None, since: float = 0.0) -> tuple[float, ...]:
        """About how many nanoseconds NumPy takes for each instruction and the views before it, on a
        machine with these speeds; by default on the one of AVX-512.  What else is touched between
        two runs is not counted."""
        from chainrule.plan.numpy_duration import node_nanoseconds  # loaded where it is asked for
        from chainrule.plan.speeds import SPEEDS

        known = (SPEEDS[64] if speeds is None else speeds).numpy
        found, views = [], 0.0
        for one in self.schedule({}).instructions:
            if isinstance(one, Compute):
                found.append(views + fsum(node_nanoseconds(node, known) for node in one.nodes))
                views = 0.0
            elif isinstance(one, View):
                views += node_nanoseconds(one.node, known)
        return tuple(found)

    @property
    def plan(self) -> PlainPlan:
        """Its schedule for arguments in C order."""
        return PlainPlan(self.schedule({}))

    def overhead(self, arrays: int) -> dict[str, int]:
        """What arrays take beyond their elements, what malloc keeps of them, and what BLAS and
        NumPy take for themselves."""
        from chainrule.execute.overhead import KEPT_NBYTES, arrays_nbytes

        ends = {"ends of arrays": arrays_nbytes(arrays)}
        return {**self._buffers, **ends, "freed arrays": KEPT_NBYTES}

    @cached_property
    def _buffers(self) -> dict[str, int]:
        from chainrule.execute.overhead import blas_nbytes, numpy_nbytes

        packed = blas_nbytes([*self.graph.nodes, *inner_nodes(self.graph)])
        found = {"buffers of BLAS": packed} if packed else {}
        return {**found, "buffers of NumPy": numpy_nbytes()}


@dataclass(frozen=True, eq=False)
class PlainPlan(NotPickled, ShownByText):
    """The schedule of a plain program; `print` shows it."""

    _called = "a plan"
    _instead = "str(plan) is its text"

    schedule: Schedule

    @property
    def graph(self) -> Graph:
        """The concrete graph."""
        return self.schedule.graph

    def __str__(self) -> str:
        """One line for each instruction that computes, and a summary."""
        from chainrule.schedule.listing import text

        return text(self.schedule)

    def _repr_html_(self) -> str:
        from chainrule.schedule.listing import html

        return html(self.schedule)


class PlainCall:
    """Calls a program with all its inputs, each time.  Nothing is written into an array that is
    held: `then` is given every result."""

    is_short = False
    overwritten: Mapping[Node, Node] = {}

    def __init__(
        self,
        program: Program,
        fixed: Mapping[Node, Any],
        then: Then | None = None,
        home: Home | None = None,
    ) -> None:
        self.program, self.fixed, self.then, self.home = program, fixed, then, home
        self.graph, self.results = program.graph, program.results
        self.refuse_copies = getattr(program, "refuse_copies", None)  # of one with a budget

    def __call__(self, arrays: Sequence[Any]) -> None:
        """None: there is no short way."""

    def renew(self) -> None:
        """See `HeldCall.renew`: arrays are looked at in each call."""

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`."""
        given = {**self.fixed, **inputs}
        if self.home is not None:
            self.home.moved_in()
        if self.refuse_copies is not None:
            self.refuse_copies(swapped_nbytes(given))
        arrays = {node: _array(value, node) for node, value in given.items()}
        found = self.program(arrays)
        values = [found[node] for node in self.results]
        if self.then is not None:
            try:
                self.then(values)
            except BaseException:
                self.then(values)
                raise
        return values


def _array(value: Any, node: Node) -> np.ndarray:
    """The value as an array of the node's dtype, in this machine's byte order."""
    if type(value) is np.ndarray and value.dtype == node.dtype:
        return value
    return np.asarray(value, node.dtype)


def _evaluated(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
) -> dict[Node, np.ndarray]:
    return reference.evaluate(graph, inputs, keep, traced)  # found when called: tests measure it


class ReferenceExecutor(PlainExecutor):
    """See `reference.evaluate`, which obeys schedules, too: so it can compute values again."""

    def within(self, memory_nbytes: int) -> Executor:
        """The executor whose runs need at most so many bytes."""
        from chainrule.execute.repeating import RepeatingExecutor  # where a budget is given

        return RepeatingExecutor(memory_nbytes)


REFERENCE = ReferenceExecutor("reference", _evaluated)
