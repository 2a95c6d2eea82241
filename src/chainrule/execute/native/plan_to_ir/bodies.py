"""Bodies of loops as compiled code: each iteration is one call of a native function.

A loop's result is written where the plan puts it, and its iterations work in the workspace that the
plan has for them: nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.arrays import is_plain, pointer_of
from chainrule.execute.native.runtime.machine import Settings
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.plan.roles import WORTH_COMPILING
from chainrule.schedule.records import ALIGNMENT, aligned

NOTHING = bytearray(ALIGNMENT)  # for arrays of no elements


class Iterations:
    """Calls of a body, one after another, by one caller; the outputs of an iteration lie where
    those of the one before did."""

    def __init__(self, program: NativeProgram, room: Room) -> None:
        self.program, self.given = program, [item.node for item in program.graph.inputs]
        launcher = self.launcher = program.launcher
        arena = launcher.machine.artifact.scratch_nbytes
        self.context = launcher.machine.new_context(room.empty((arena,), np.dtype(np.uint8)))
        self.slots = [launcher.slots[node] for node in self.given]
        self.seen: list[Any] = [None] * len(self.slots)
        self.made: dict[Node, np.ndarray] = {}
        for node in program.results:
            self.made[node] = array = room.empty(node.shape, node.dtype)
            if node in launcher.result_slots:
                self.context.slots[launcher.result_slots[node]] = pointer_of(array)
        self.outputs = [self.made[node] for _, node in program.graph.outputs]
        given = {node: place for place, node in enumerate(self.given)}
        self.copied = [(self.made[n], given[n]) for n in self.made if n in given]

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, each in memory that is no input's.  The inputs are in C order."""
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
        return self.outputs


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

    def program_of(self, body: Body, iterations: int | None) -> Iterations | None:
        """The body as compiled code; None where it is done too seldom for that (`iterations` is
        None where nobody knows how often)."""
        if iterations is not None and iterations < WORTH_COMPILING:
            return None
        made = body.made.get(self.settings)
        if made is None:
            results = [node for _, node in body.graph.outputs]
            program = NativeProgram(body.graph, results, settings=self.settings)
            made = body.made.setdefault(self.settings, program)
        return Iterations(made, self)
