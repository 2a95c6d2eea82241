"""Bodies of loops that Python goes through: each iteration is one call of compiled code.

These are loops with an operation in them that has no kernel.  A loop's result is written where the
plan puts it, and its iterations work in the workspace that the plan has for them: nothing is
allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.arrays import is_plain, pointer_of
from chainrule.execute.native.runtime.machine import Settings
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.plan.foreign import numbers_of
from chainrule.plan.roles import WORTH_COMPILING
from chainrule.schedule.records import ALIGNMENT, aligned

NOTHING = bytearray(ALIGNMENT)  # for arrays of no elements


class Iterations:
    """Calls of a body, one after another, by one caller; the outputs of an iteration lie where
    those of the one before did."""

    def __init__(self, program: NativeProgram, room: Room) -> None:
        self.room = room
        self.program, self.given = program, [item.node for item in program.graph.inputs]
        launcher = self.launcher = program.launcher
        arena = launcher.machine.artifact.scratch_nbytes
        self.context = launcher.machine.new_context(room.empty((arena,), np.dtype(np.uint8)))
        self.slots = [launcher.slots[node] for node in self.given]
        self.seen: list[Any] = [None] * len(self.slots)
        self.made: dict[Node, np.ndarray] = {}
        for node in program.results:
            if node not in launcher.overwritten:
                self._make(node)
        given = {node: place for place, node in enumerate(self.given)}
        self.places = {node: given[one] for node, one in launcher.overwritten.items()}
        self.copied = [(self.made[n], given[n]) for n in self.made if n in given]

    def _make(self, node: Node) -> None:
        """The array of an output that has no other."""
        self.made[node] = array = self.room.empty(node.shape, node.dtype)
        if node in self.launcher.result_slots:
            self.context.slots[self.launcher.result_slots[node]] = pointer_of(array)

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, each in memory that is no input's but for those that may take a carried
        one's.  The inputs are in C order."""
        slots, seen = self.context.slots, self.seen
        for place, array in enumerate(inputs):
            if array is not seen[place]:
                seen[place] = array = array if is_plain(array) else array.copy()
                slots[self.slots[place]] = pointer_of(array)
        launcher = self.launcher
        if not launcher.machine.call(launcher.graph, self.context):
            self.program.raise_failure(dict(zip(self.given, inputs, strict=True)))
        for array, place in self.copied:
            array[...] = inputs[place]
        outputs = [node for _, node in self.program.graph.outputs]
        return [
            self.made[node] if node in self.made else inputs[self.places[node]] for node in outputs
        ]


class Room:
    """NumPy for one node that holds bodies, with its `result` and memory in which iterations work.

    Code for other settings than those of the plan may need more than there is: that is allocated.
    """

    def __init__(self, settings: Settings, result: np.ndarray, workspace: Any) -> None:
        self.settings, self.result = settings, result
        self.workspace, self.free = workspace, len(workspace)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of the workspace, which begins at a multiple of ALIGNMENT bytes."""
        nbytes = prod(shape) * dtype.itemsize
        if not nbytes:
            return np.ndarray(shape, dtype, NOTHING)
        if nbytes > self.free:
            return np.empty(shape, dtype)
        begin = len(self.workspace) - self.free
        self.free -= aligned(nbytes)
        return np.ndarray(shape, dtype, self.workspace, begin)

    def program_of(
        self, body: Body, iterations: int | None, over: Mapping[Node, Node]
    ) -> Iterations | None:
        """The body as compiled code, which writes these outputs over these inputs; None where it is
        done too seldom for that (`iterations` is None where nobody knows how often)."""
        if iterations is not None and iterations < WORTH_COMPILING:
            return None
        key = (self.settings, *numbers_of(body, over))
        made = body.made.get(key)
        if made is None:
            results = [node for _, node in body.graph.outputs]
            program = NativeProgram(body.graph, results, over, settings=self.settings)
            made = body.made.setdefault(key, program)
        return Iterations(made, self)
