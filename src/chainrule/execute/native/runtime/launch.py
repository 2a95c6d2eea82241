"""A compiled graph bound to its arrays: inputs are given by position, constants stay in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.execute.executor import NOWHERE
from chainrule.execute.free_memory import WORTH_CHECKING, refuse_beyond_free
from chainrule.execute.native.runtime.arrays import copied_nbytes, plain, pointer_of, usual
from chainrule.execute.native.runtime.machine import (
    Context,
    Machine,
    Settings,
    machine_for,
)
from chainrule.execute.native.runtime.recycled import kind_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.roles import is_given
from chainrule.primitives.sources import constant


class Launcher:
    """The code for `results` of a concrete graph.

    `overwrites` maps inputs to the results that may take their arrays; for those of them that
    cannot, `overwritten` is False and the result is an array of its own, as for all others.
    `machine` is their code, where it is there already.
    """

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node] | None = None,
        *,
        threads: int | None = None,
        settings: Settings | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.graph = graph
        overwrites = overwrites or {}
        given = given_nodes(graph)
        outside = set(given)
        wanted = list(dict.fromkeys(results))
        self.results = [node for node in wanted if node not in outside]
        self.machine: Machine = machine or machine_for(
            graph, wanted, overwrites, threads=threads, settings=settings
        )
        pairs = zip(overwrites.items(), self.machine.artifact.overwritten, strict=True)
        self.overwritten = {result: node for (node, result), done in pairs if done}
        self.fresh = [node for node in self.results if node not in self.overwritten]
        self.kinds = {node: kind_of(node.shape, usual(node.dtype)) for node in self.fresh}
        self.fresh_nbytes = sum(kind.nbytes for kind in self.kinds.values())
        first = self.machine.first_array
        self.slots = {node: first + place for place, node in enumerate(given)}
        place = first + len(given)
        self.result_slots = {node: place + number for number, node in enumerate(self.fresh)}
        self.constants = {
            slot: plain(node.param("value").array, node.dtype)
            for node, slot in self.slots.items()
            if node.primitive is constant
        }

    @property
    def needs_checking(self) -> bool:
        """Whether a call allocates so much that the machine may not have it."""
        return self.most_nbytes >= WORTH_CHECKING

    @property
    def most_nbytes(self) -> int:
        """What the first call allocates beside its arguments, at its fullest."""
        artifact = self.machine.artifact
        return self.fresh_nbytes + artifact.scratch_nbytes + artifact.allocated_nbytes

    def new_context(self, copied_nbytes: int = 0) -> Context:
        """Memory for calls that nobody else uses, with the constants in place.

        MemoryLimitError if there is not enough for it, for the results and for what the first call
        copies of its arguments.
        """
        refuse_beyond_free(self.most_nbytes + copied_nbytes)
        return self._prepared(self.machine.new_context())

    def _prepared(self, context: Context) -> Context:
        for slot, array in self.constants.items():
            context.slots[slot] = pointer_of(array)
        return context

    def __call__(
        self,
        inputs: Mapping[Node, Any],
        later_nbytes: int = 0,
        into: Mapping[Node, np.ndarray] = NOWHERE,
    ) -> dict[Node, np.ndarray] | None:
        """The values of the results, in their arrays of `into` where they have one; None if an
        index was out of range.

        `inputs` are arrays or numbers of the inputs' types, for every input; what code cannot read
        as it is is copied.  MemoryLimitError if there is not enough memory, also for what the
        caller will allocate when it is done (`later_nbytes`); nothing is allocated then.
        """
        copies = sum([copied_nbytes(array, node.dtype) for node, array in inputs.items()])
        refuse_beyond_free(self.fresh_nbytes + self.machine.needs(copies, later_nbytes))
        arrays = {node: plain(array, node.dtype) for node, array in inputs.items()}
        context = self._prepared(self.machine.take())
        slots = context.slots
        for node, array in arrays.items():
            slots[self.slots[node]] = pointer_of(array)
        made: dict[Node, np.ndarray] = {}
        for node in self.fresh:
            if node in into:
                made[node] = into[node]
                slots[self.result_slots[node]] = pointer_of(into[node])
            else:
                made[node], slots[self.result_slots[node]] = self.kinds[node].empty()
        try:
            done = self.machine.call(self.graph, context)
        finally:
            self.machine.give_back(context)
        return made if done else None


def given_nodes(graph: Graph) -> list[Node]:
    """The nodes whose arrays come from outside, in the order of their arenas."""
    return [node for node in graph.nodes if is_given(node)]


def given_value(node: Node, inputs: Mapping[Node, Any]) -> np.ndarray:
    """The value of an input or of a constant, in memory of its own."""
    value = node.param("value").array if node.primitive is constant else inputs[node]
    return np.array(value, node.dtype, order="C")
