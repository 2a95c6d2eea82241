"""A program that a grid of devices runs together: each computes a graph on its parts of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from chainrule.execute.across import Across, Operation
from chainrule.execute.executor import Then
from chainrule.execute.home import Home
from chainrule.execute.xla.calls import XlaHeldCall
from chainrule.execute.xla.code import Code, code_of, order_of
from chainrule.execute.xla.grid import Grid, own_part
from chainrule.execute.xla.jax_here import jax_here
from chainrule.execute.xla.parts import InParts
from chainrule.execute.xla.xla_program import XlaProgram
from chainrule.graph.body import inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


class GridProgram(XlaProgram):
    """See `chainrule.execute.across`."""

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        lying: Across,
    ) -> None:
        super().__init__(graph, results, overwrites, None)
        self.lying = lying
        self._within: dict[tuple[Node, ...], Code] = {}

    @cached_property
    def grid(self) -> Grid:
        """The devices."""
        return Grid(self.lying)

    @property
    def where(self) -> tuple[Any, ...]:
        """See `XlaProgram.where`."""
        return self._where

    @cached_property
    def _where(self) -> tuple[Any, ...]:
        inputs = [(item.name, self.lying.cuts_of(item.node)) for item in self.graph.inputs]
        cuts = tuple((name, found) for name, found in inputs if found)
        return (*self.grid.where, cuts), np.asarray if self.lying.rank is None else own_part

    def code_for(
        self, results: Sequence[Node], overwritten: Mapping[Node, Node] | None = None
    ) -> Code:
        """See `XlaProgram.code_for`; MemoryLimitError where none is within the budget."""
        overwritten = overwritten or {}
        if self.lying.memory_nbytes is None:
            return code_of(self.graph, results, overwritten, self.grid)
        key = (*results, *overwritten, *overwritten.values())
        if key not in self._within:
            self._within[key] = self._code_within(results, overwritten, self.lying.memory_nbytes)
        return self._within[key]

    def _code_within(
        self, results: Sequence[Node], overwritten: Mapping[Node, Node], memory_nbytes: int
    ) -> Code:
        from chainrule.execute.xla.narrower import Narrowing, too_large

        def compiled(parts: InParts | None) -> Code:
            return code_of(self.graph, results, overwritten, self.grid, parts)

        narrowing = Narrowing(self.graph, results, overwritten, compiled, in_loops=True)
        found = narrowing.within(memory_nbytes)
        if found.nbytes > memory_nbytes:
            what = f"a run of {self.graph.name} on each of {self.lying.count} devices"
            hint = f"devices with {found.nbytes} bytes each, or a smaller batch"
            raise too_large(what, found, memory_nbytes, hint)
        return found.code

    def shape_given(self, node: Node) -> tuple[int, ...]:
        """See `XlaProgram.shape_given`."""
        return self.lying.whole_shape(node)

    def sent(self, node: Node, array: np.ndarray) -> Any:
        """A copy of what this process has of an array on its devices."""
        return self.grid.sent([node], [array])[0]

    def ready(self, nodes: Sequence[Node], arrays: list[Any]) -> list[Any]:
        """The arguments on the devices, of which each process has whole arrays."""
        places = [at for at, one in enumerate(arrays) if isinstance(one, np.ndarray)]
        given = [nodes[at] for at in places]
        own = [self.lying.own(nodes[at], arrays[at]) for at in places]
        found = list(arrays)
        for at, one in zip(places, self.grid.sent(given, own), strict=True):
            found[at] = one
        return found

    def hold(
        self, order: Sequence[Node], held: Mapping[Node, np.ndarray], then: Then, home: Home
    ) -> GridCall:
        """See `Spreading.across`."""
        return GridCall(self, order, held, then, home)


class GridCall(XlaHeldCall):
    """A call whose arrays stay on the devices."""

    def __init__(
        self,
        program: GridProgram,
        order: Sequence[Node],
        held: Mapping[Node, np.ndarray],
        then: Then,
        home: Home,
    ) -> None:
        super().__init__(program, order, held, then, home)
        self.grid, self.is_spread = program.grid, True

    def __call__(
        self, arrays: Sequence[Any], given: list[Any] | None = None
    ) -> list[np.ndarray] | None:
        """See `Spreading.across`."""
        if given is None:
            given = self.arguments.of(arrays)
        values = None if given is None else super().__call__(arrays, given)
        self.raised = None  # threads say what is wrong
        return values

    def measured(self, arrays: Sequence[Any]) -> tuple[list[np.ndarray] | None, list[Operation]]:
        """See `Spreading.across`; InputError and UnsupportedError as `profile.profiled` has them,
        before or after a run."""
        from chainrule.execute.xla.profile import operations, profiled

        def run() -> list[np.ndarray] | None:
            values = self(arrays)
            jax_here().block_until_ready(list(self.home.away.values()))
            return values

        text = self.code.text
        values, data, late = profiled(run)
        if values is None:
            return None, []
        nodes = [*order_of(self.computed, self.overwritten), *inner_nodes(self.graph)]
        return values, operations(data, late, text, nodes, self.grid.own_devices)
