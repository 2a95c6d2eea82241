"""Bodies of loops as compiled code: each step is one call of a native function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.plan.roles import WORTH_COMPILING
from chainrule.run.native.arrays import is_plain, pointer_of
from chainrule.run.native.launch import Launcher
from chainrule.run.reference import evaluate


class NativeBody:
    """A body as a native function."""

    def __init__(self, body: Body) -> None:
        self.graph = body.graph
        self.given = [item.node for item in self.graph.inputs]
        self.results = [node for _, node in self.graph.outputs]
        self.launcher = Launcher(self.graph, self.results)


class Steps:
    """Calls of a body, one after another, by one caller."""

    def __init__(self, body: NativeBody) -> None:
        self.body = body
        launcher = body.launcher
        self.context = launcher.new_context()
        self.slots = [launcher.slots[node] for node in body.given]
        self.seen: list[Any] = [None] * len(self.slots)
        self.fresh = [
            (node, launcher.result_slots[node], node.shape, node.dtype) for node in launcher.fresh
        ]

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, each in memory that is no input's.  The inputs are in C order."""
        slots, seen = self.context.slots, self.seen
        for place, array in enumerate(inputs):
            if array is not seen[place]:
                seen[place] = array = array if is_plain(array) else array.copy()
                slots[self.slots[place]] = pointer_of(array)
        made: dict[Node, np.ndarray] = {}
        for node, slot, shape, dtype in self.fresh:
            made[node] = array = np.empty(shape, dtype)
            slots[slot] = pointer_of(array)
        body = self.body
        if not body.launcher.machine.call(body.graph, self.context):
            # an index was out of range: this says which, and where
            evaluate(body.graph, dict(zip(body.given, inputs, strict=True)), body.results)
        return [
            made[node] if node in made else inputs[body.given.index(node)].copy()
            for node in body.results
        ]


class _Native:
    """NumPy, for nodes that hold bodies: it compiles these."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def program_of(self, body: Body, steps: int | None) -> Steps | None:
        """The body as compiled code; None where it is done too seldom for that (`steps` is None
        where nobody knows how often)."""
        if steps is not None and steps < WORTH_COMPILING:
            return None
        made = body.made.get("native") or body.made.setdefault("native", NativeBody(body))
        return Steps(made)


NATIVE = _Native()
