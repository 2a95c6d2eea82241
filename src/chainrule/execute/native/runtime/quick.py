"""A compiled function called with arrays that fit as they are: the short way from call to code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.native.runtime.arrays import pointer_of, usual
from chainrule.execute.native.runtime.context import Context
from chainrule.execute.native.runtime.entry import Enter, entry
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.native.program import NativeProgram


class QuickCall:
    """See `InPlace.call`: `order` has a node for each argument, None where it is not read."""

    overwritten: Mapping[Node, Node] = {}

    def __init__(
        self,
        program: NativeProgram,
        order: Sequence[Node | None],
        fixed: Mapping[Node, Any],
    ) -> None:
        self.program, self.graph, self.results = program, program.graph, program.results
        launcher = self.launcher = program.launcher
        self.fixed = {node: np.array(fixed[node], node.dtype, order="C") for node in fixed}
        self.expected = [
            None if node is None else (launcher.slots[node], usual(node.dtype), node.shape)
            for node in order
        ]
        self.empty = [(launcher.result_slots[n], launcher.kinds[n].empty) for n in launcher.fresh]
        known = {*fixed, *order}
        self.is_short = (
            self.results == tuple(launcher.fresh)
            and all(item.node in known for item in self.graph.inputs)
            and not launcher.needs_checking
        )
        self.ready: list[tuple[Context, Enter]] = []

    def __call__(self, args: Sequence[Any]) -> list[np.ndarray] | None:
        """See `Call.__call__`."""
        try:
            one = self.ready.pop()
        except IndexError:
            one = self._made_ready()
        context, enter = one
        slots, made = context.slots, []
        for slot, empty in self.empty:
            array, slots[slot] = empty()
            made.append(array)
        done = enter(*args)
        self.ready.append(one)
        return made if done else None

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`."""
        found = self.program({**self.fixed, **inputs})
        return [found[node] for node in self.results]

    def _made_ready(self) -> tuple[Context, Enter]:
        context = self.launcher.new_context()
        for node, array in self.fixed.items():
            context.slots[self.launcher.slots[node]] = pointer_of(array)
        return context, entry(self.launcher.machine, self.graph, context, self.expected)
