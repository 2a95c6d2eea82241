"""A compiled function called with arrays that fit as they are: the short way from call to code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.run.native.arrays import binder, pointer_of, usual
from chainrule.run.native.launch import Launcher
from chainrule.run.native.machine import Context


class QuickCall:
    """`launcher` for arguments that are the arrays of `places` (a node for each, None where it is
    not read), with the other inputs `fixed`; the results are those of `outputs`."""

    def __init__(
        self,
        launcher: Launcher,
        places: Sequence[Node | None],
        fixed: Mapping[Node, np.ndarray],
        outputs: Sequence[Node],
    ) -> None:
        self.launcher, self.fixed = launcher, dict(fixed)
        self.bind = binder(
            [
                None if node is None else (launcher.slots[node], usual(node.dtype), node.shape)
                for node in places
            ]
        )
        self.results = [(launcher.result_slots[n], launcher.kinds[n].empty) for n in launcher.fresh]
        self.order = [launcher.fresh.index(node) for node in outputs]
        self.contexts: list[Context] = []

    def __call__(self, args: tuple[Any, ...]) -> list[np.ndarray] | None:
        """The results; None if an argument must be looked at, or an index is out of range."""
        try:
            context = self.contexts.pop()
        except IndexError:
            context = self._context()
        slots, made = context.slots, []
        if not self.bind(args, slots):
            self.contexts.append(context)
            return None
        for slot, empty in self.results:
            array, slots[slot] = empty()
            made.append(array)
        launcher = self.launcher
        done = launcher.machine.call(launcher.graph, context)
        self.contexts.append(context)
        return [made[place] for place in self.order] if done else None

    def _context(self) -> Context:
        context = self.launcher.new_context()
        for node, array in self.fixed.items():
            context.slots[self.launcher.slots[node]] = pointer_of(array)
        return context
