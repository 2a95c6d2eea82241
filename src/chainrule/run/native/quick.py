"""A compiled function called with arrays that fit as they are: the short way from call to code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.run.native import recycled
from chainrule.run.native.launch import Launcher, is_plain, pointer_of, usual
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
        self.arguments = [
            None if node is None else (launcher.slots[node], usual(node.dtype), node.shape)
            for node in places
        ]
        self.results = [(launcher.result_slots[n], n.shape, usual(n.dtype)) for n in launcher.fresh]
        self.order = [launcher.fresh.index(node) for node in outputs]
        self.contexts: list[Context] = []

    def __call__(self, args: Sequence[Any]) -> list[np.ndarray] | None:
        """The results; None if an argument must be looked at, or an index is out of range."""
        if len(args) != len(self.arguments):
            return None
        try:
            context = self.contexts.pop()
        except IndexError:
            context = self._context()
        slots = context.slots
        for array, expected in zip(args, self.arguments, strict=True):
            if expected is None:
                continue
            slot, dtype, shape = expected
            if (
                type(array) is not np.ndarray
                or array.dtype is not dtype
                or array.shape != shape
                or not is_plain(array)
            ):
                self.contexts.append(context)
                return None
            slots[slot] = pointer_of(array)
        made = []
        for slot, shape, dtype in self.results:
            array = recycled.empty(shape, dtype)
            slots[slot] = pointer_of(array)
            made.append(array)
        machine = self.launcher.machine
        done = machine.call(self.launcher.graph, context)
        self.contexts.append(context)
        return [made[place] for place in self.order] if done else None

    def _context(self) -> Context:
        context = self.launcher.new_context()
        for node, array in self.fixed.items():
            context.slots[self.launcher.slots[node]] = pointer_of(array)
        return context
