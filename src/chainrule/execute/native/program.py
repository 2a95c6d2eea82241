"""A native program: the plan of a graph and its compiled code, each made when first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import EvaluationError
from chainrule.execute import reference
from chainrule.execute.budget import refuse_copies, with_copies
from chainrule.execute.executor import NOWHERE, Then
from chainrule.execute.free_memory import give_back, refuse_beyond_free
from chainrule.execute.home import Home
from chainrule.execute.native.planned import needs_of
from chainrule.execute.native.runtime.arrays import copied_nbytes
from chainrule.execute.native.runtime.held import HeldCall
from chainrule.execute.native.runtime.launch import Launcher, given_value
from chainrule.execute.native.runtime.machine import Settings, plan_for, settings_now
from chainrule.execute.native.runtime.quick import QuickCall
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.uses import uses
from chainrule.plan.duration import plan_nanoseconds
from chainrule.plan.planner import Plan
from chainrule.plan.roles import is_given
from chainrule.plan.speeds import Speeds
from chainrule.schedule.records import Schedule


class NativeProgram:
    """See `Program`, `InPlace` and `Overwriting`; `settings` of the code (default: those of now,
    with offsets searched for `placement_seconds`, within `memory_nbytes`, on `threads`)."""

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node] | None = None,
        *,
        traced: Graph | None = None,
        settings: Settings | None = None,
        placement_seconds: float = 0.0,
        memory_nbytes: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.placement_seconds, self.memory_nbytes = placement_seconds, memory_nbytes
        self.threads = threads
        self.graph, self.results = graph, tuple(dict.fromkeys(results))
        self.overwrites, self.traced = overwrites or {}, traced
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """What the code is made for."""
        if self._settings is not None:
            return self._settings
        return settings_now(self.threads)._replace(
            placement_seconds=self.placement_seconds, memory_nbytes=self.memory_nbytes
        )

    @cached_property
    def plan(self) -> Plan:
        """The plan that is compiled on this machine."""
        return plan_for(self.graph, self.results, self.overwrites, self.settings)

    def durations(self, speeds: Speeds | None = None, since: float = 0.0) -> tuple[float, ...]:
        """About how many nanoseconds each instruction takes on a machine with these speeds; by
        default on this one, which is calibrated when this is asked first.  From one run to the
        next, `since` bytes are touched, or what it touches itself."""
        return plan_nanoseconds(self.plan, self.speeds if speeds is None else speeds, since)

    @property
    def speeds(self) -> Speeds:
        """Those of this machine; of a known processor where it is not calibrated."""
        return uses.speeds_here(self.plan)

    @cached_property
    def launcher(self) -> Launcher:
        """The compiled code; UnsupportedError where none can be made."""
        found = Launcher(self.graph, self.results, self.overwrites, settings=self.settings)
        if self.memory_nbytes is not None:
            give_back()  # what planning and compiling have freed
        return found

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """That of its plan, however arguments lie: others than those in C order are copied."""
        return self.plan.schedule

    @property
    def refused(self) -> tuple[Node, ...]:
        """The nodes that run by their reference evaluation between native parts."""
        return tuple(self.plan.foreign)

    def overhead(self, arrays: int) -> dict[str, int]:
        """Compiled code, stacks of threads, alignment, and what libraries take."""
        from chainrule.execute.native.native_overhead import overhead_of

        return overhead_of(self.plan, self.graph, arrays)

    def __call__(self, inputs: Mapping[Node, Any]) -> dict[Node, np.ndarray]:
        """The values of the results for arrays or numbers of the inputs' types.

        What would be overwritten is copied first: nothing that is given changes.
        """
        if self.memory_nbytes is not None:
            self.refuse_copies(self.copied_nbytes(inputs))
        taken = self.launcher.overwritten.values()
        if taken:
            inputs = {**inputs, **{node: given_value(node, inputs) for node in taken}}
        return self.overwriting(inputs)

    def overwriting(
        self, inputs: Mapping[Node, Any], into: Mapping[Node, np.ndarray] = NOWHERE
    ) -> dict[Node, np.ndarray]:
        """See `Overwriting.overwriting`."""
        launcher, given = self.launcher, self.given_results
        copies = sum([int(node.type.nbytes) for node in given])
        if not launcher.results:
            refuse_beyond_free(copies)
            return {node: given_value(node, inputs) for node in given}
        taken = set(launcher.overwritten.values())
        before = {node: given_value(node, inputs) for node in given if node in taken}
        made = launcher(inputs, copies, into)
        if made is None:
            self.raise_failure(inputs)
        made.update((result, inputs[node]) for result, node in launcher.overwritten.items())
        made.update((node, given_value(node, inputs)) for node in given if node not in before)
        return made | before

    def make_ready(self) -> None:
        """See `Overwriting.make_ready`."""
        machine = self.launcher.machine
        machine.give_back(machine.take())

    def refuse_copies(self, copied: Mapping[Node, int]) -> None:
        """MemoryLimitError where the budget has no room for copies of inputs, of so many bytes."""
        if copied and self.memory_nbytes is not None:
            needed = with_copies(self._needed_nbytes, copied)
            refuse_copies(self.graph, copied, needed, self.memory_nbytes)

    def copied_nbytes(self, inputs: Mapping[Node, Any]) -> dict[Node, int]:
        """The bytes of the copies of what code cannot read as it is."""
        copied = {node: copied_nbytes(value, node.dtype) for node, value in inputs.items()}
        return {node: nbytes for node, nbytes in copied.items() if nbytes}

    @cached_property
    def _needed_nbytes(self) -> int:
        return needs_of(self.plan, self.results).nbytes

    @cached_property
    def given_results(self) -> list[Node]:
        """The results that nothing computes: inputs and constants."""
        return [node for node in self.results if is_given(node)]

    def call(self, order: Sequence[Node | None], fixed: Mapping[Node, Any]) -> QuickCall:
        """See `InPlace.call`."""
        return QuickCall(self, order, fixed)

    def hold(
        self, order: Sequence[Node], held: Mapping[Node, np.ndarray], then: Then, home: Home
    ) -> HeldCall:
        """See `InPlace.hold`."""
        return HeldCall(self, order, held, then, home)

    def raise_failure(self, inputs: Mapping[Node, Any]) -> NoReturn:
        """An index was out of range, or LAPACK refused a matrix: the reference executor says which,
        where, in what call."""
        arrays = {node: np.asarray(value, node.dtype) for node, value in inputs.items()}
        reference.evaluate(self.graph, arrays, self.results, self.traced)
        raise EvaluationError(
            "an index was out of range, or a matrix singular or not positive definite, but by so "
            "little that it was not for the reference executor",
            hint='run it with executor="reference", or add a little to the diagonal of the matrix',
        )
