"""A program of the executor `xla`: a graph, its results, and the code that JAX compiles of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute import reference
from chainrule.execute.executor import Then
from chainrule.execute.home import Home
from chainrule.execute.plain import PlainPlan
from chainrule.execute.xla.calls import XlaCall, XlaHeldCall
from chainrule.execute.xla.code import Code, code_of, given_of, given_value, is_given, order_of
from chainrule.execute.xla.foreign import is_foreign
from chainrule.execute.xla.jax_here import failures, refusal, wide
from chainrule.execute.xla.landing import Landing, copied_by_jax, leave
from chainrule.execute.xla.memory import beside_arguments, device_failed
from chainrule.graph.body import inner_nodes
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.sources import constant
from chainrule.schedule.records import Compute, Schedule

if TYPE_CHECKING:
    from chainrule.plan.speeds import Speeds


class XlaProgram:
    """See `Program` and `InPlace`.  `sends_ahead`: the device has room for the next batch, too."""

    sends_ahead = True

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        traced: Graph | None,
    ) -> None:
        self.graph, self.results = graph, tuple(dict.fromkeys(results))
        self.overwrites, self.traced = overwrites, traced
        self.computed = [one for one in self.results if not is_given(one)]
        self.given = given_of(self.computed)

    @cached_property
    def code(self) -> Code:
        """What computes the results that are not given; compiled by its first call."""
        return self.code_for(self.computed)

    @cached_property
    def constants(self) -> dict[Node, Any]:
        """The constants that the code reads, on the device."""
        found = [one for one in self.given if one.primitive is constant]
        return {one: self.sent(one, one.param("value").array) for one in found}

    @cached_property
    def landing(self) -> Landing:
        """Which arguments of the code are copied."""
        return Landing(self.given)

    @property
    def where(self) -> tuple[Any, ...]:
        """Where its arrays are, and how they are read; see `Home.move_to`."""
        return (None,)

    def code_for(
        self, results: Sequence[Node], overwritten: Mapping[Node, Node] | None = None
    ) -> Code:
        """The code that computes these; see `code_of`."""
        return code_of(self.graph, results, overwritten)

    def shape_given(self, node: Node) -> tuple[int, ...]:
        """The shape of the array that is given for an input."""
        return node.shape

    def sent(self, node: Node, array: np.ndarray) -> Any:
        """A copy of an array on the device."""
        with wide():
            return copied_by_jax(array)

    def ready(self, nodes: Sequence[Node], arrays: list[Any]) -> list[Any]:
        """The arguments as code takes them, once indices among them were looked at."""
        return arrays

    def __call__(self, inputs: Mapping[Node, np.ndarray]) -> dict[Node, np.ndarray]:
        """See `Program.__call__`."""
        if not self.computed:
            return {node: given_value(node, inputs) for node in self.results}
        arrays = [
            self.constants[one] if one in self.constants else np.asarray(inputs[one], one.dtype)
            for one in self.given
        ]
        if self.code.is_out_of_range(arrays):
            return self.as_reference(inputs)
        self.code.refuse_too_much(arrays)
        landed = self.landing.land(arrays)
        try:
            with wide():
                found, failed = self.code.jitted(*arrays)
            failed = any(map(bool, failed))
        except failures() as error:
            raised = self.code.foreign.take()
            if raised is None and not isinstance(error, FloatingPointError):
                raise device_failed(error) from error
            return self.as_reference(inputs, raised)
        if failed:
            return self.as_reference(inputs)
        made = map(np.array, found)
        values = dict(zip(self.computed, made, strict=True))
        leave(landed)
        return {
            node: values[node] if node in values else given_value(node, inputs)
            for node in self.results
        }

    def as_reference(
        self, inputs: Mapping[Node, np.ndarray], raised: Exception | None = None
    ) -> dict[Node, np.ndarray]:
        """The values as NumPy gives them, where code has failed: it says which index was out of
        range, where, in what call.  `raised` if it says nothing."""
        arrays = {node: np.asarray(value, node.dtype) for node, value in inputs.items()}
        found = reference.evaluate(self.graph, arrays, self.results, self.traced)
        if raised is not None:
            raise raised
        return found

    def call(self, order: Sequence[Node | None], fixed: Mapping[Node, Any]) -> XlaCall:
        """See `InPlace.call`."""
        return XlaCall(self, order, fixed)

    def hold(
        self, order: Sequence[Node], held: Mapping[Node, np.ndarray], then: Then, home: Home
    ) -> XlaHeldCall:
        """See `InPlace.hold`."""
        return XlaHeldCall(self, order, held, then, home)

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        """Every value an array of its own, in the order of the graph: XLA takes no more."""
        from chainrule.schedule.plain import plain_schedule

        return plain_schedule(self.graph, self.results, outlines)

    def nanoseconds(self, speeds: Speeds | None = None) -> float:
        """About how long a run takes on a CPU with these speeds, by default on that of AVX-512: as
        compiled code takes for each node.  What XLA fuses, and what a call takes, is not known, so
        no instruction has times of its own."""
        from chainrule.plan.compiled_duration import stored_nanoseconds
        from chainrule.plan.speeds import SPEEDS

        known = SPEEDS[64] if speeds is None else speeds
        instructions = self.schedule({}).instructions
        done = [(*one.inner, *one.nodes) for one in instructions if isinstance(one, Compute)]
        return fsum(stored_nanoseconds(node, known) for nodes in done for node in nodes)

    @property
    def plan(self) -> PlainPlan:
        """Its schedule for arguments in C order."""
        return PlainPlan(self.schedule({}))

    @property
    def refused(self) -> tuple[Node, ...]:
        """The nodes that compiled code calls NumPy for."""
        nodes = (*topological(self.results), *inner_nodes(self.graph))
        return tuple(dict.fromkeys(node for node in nodes if is_foreign(node)))

    def compiled_nbytes(self) -> Mapping[str, int]:
        """See `Analysed.compiled_nbytes`."""
        if not self.computed or refusal() is not None:
            return {}
        return self.code_for(*self.in_place).nbytes

    def allocated_nbytes(self) -> int:
        """See `Analysed.allocated_nbytes`."""
        return beside_arguments(self.compiled_nbytes())

    def compiled_values(self) -> Mapping[Node | None, int]:
        """See `Analysed.compiled_values`."""
        if not self.computed or refusal() is not None:
            return {}
        order = order_of(*self.in_place)
        found = self.code_for(*self.in_place).fullest
        return {None if n is None else order[n]: nbytes for n, nbytes in found.items()}

    @cached_property
    def in_place(self) -> tuple[list[Node], dict[Node, Node]]:
        """What a call that may overwrite inputs computes: results, and those that take the arrays
        of inputs."""
        taken: dict[Node, Node] = {}
        for node, result in self.overwrites.items():
            if not is_given(result):
                taken.setdefault(result, node)
        return [one for one in self.computed if one not in taken], taken

    def overhead(self, arrays: int) -> dict[str, int]:
        """Nothing is known before it is compiled."""
        return {}
