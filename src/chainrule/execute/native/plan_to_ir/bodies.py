"""Bodies of loops as compiled code: each iteration is one call of a native function.

A loop's result is written where the plan puts it, and its iterations work in the workspace that the
plan has for them: nothing is allocated.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Container, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from chainrule.execute.native.program import NativeProgram
from chainrule.execute.native.runtime.arrays import is_plain, pointer_of
from chainrule.execute.native.runtime.machine import Context, Settings
from chainrule.execute.native.runtime.repeated import Copies, Copy, Move, Repeated
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.plan.foreign import numbers_of
from chainrule.plan.roles import WORTH_COMPILING
from chainrule.primitives.primitive import Places
from chainrule.schedule.records import ALIGNMENT, aligned

NOTHING = bytearray(ALIGNMENT)  # for arrays of no elements
SOON = 0.02  # seconds after which Python is back for a moment, to see Ctrl-C
SHORT = 32  # bytes that NumPy copies as quickly one by one


class Iterations:
    """Calls of a body, one after another, by one caller; the outputs of an iteration lie where
    those of the one before did."""

    def __init__(self, program: NativeProgram, room: Room, stacked: Container[Node] = ()) -> None:
        self.room = room
        self.program, self.given = program, [item.node for item in program.graph.inputs]
        launcher = self.launcher = program.launcher
        arena = launcher.machine.artifact.scratch_nbytes
        self.context = launcher.machine.new_context(room.empty((arena,), np.dtype(np.uint8)))
        self.slots = [launcher.slots[node] for node in self.given]
        self.seen: list[Any] = [None] * len(self.slots)
        self.made: dict[Node, np.ndarray] = {}
        for node in program.results:
            if node not in launcher.overwritten and node not in stacked:
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
        for node in self.program.results:
            if node not in launcher.overwritten and node not in self.made:
                self._make(node)
        if not launcher.machine.call(launcher.graph, self.context):
            self.program.raise_failure(dict(zip(self.given, inputs, strict=True)))
        for array, place in self.copied:
            array[...] = inputs[place]
        outputs = [node for _, node in self.program.graph.outputs]
        return [
            self.made[node] if node in self.made else inputs[self.places[node]] for node in outputs
        ]

    def scan(
        self,
        fixed: Sequence[np.ndarray],
        states: Sequence[np.ndarray],
        slices: Sequence[np.ndarray],
        stacks: Sequence[np.ndarray],
        length: int,
        reverse: bool,
    ) -> bool:
        """All `length` iterations, on `states`; rows go to `stacks`.  By machine code, but where
        Python takes part in the body, which is no one function then.

        False where an array does not lie as code reads it.
        """
        machine, function = self.launcher.machine, self.launcher.machine.function
        if not length:
            return False
        rows = [one[-1 if reverse else 0, ...] for one in slices]
        runs = [_runs(one) for one in rows]
        plain = all(map(is_plain, [*fixed, *states, *stacks]))
        if None in runs or not plain:
            return False
        loop = _Calls(self.context)
        for array, slot in zip([*fixed, *states], self.slots, strict=False):
            loop.at(slot, array)
        held = []
        for whole, row, run, slot in zip(
            slices, rows, runs, self.slots[len(fixed) + len(states) :], strict=True
        ):
            step = -whole.strides[0] if reverse else whole.strides[0]
            if run is None or is_plain(row):
                loop.at(slot, row, step)
                continue
            held.append(np.empty(row.shape, row.dtype))  # in C order, one after another
            loop.at(slot, held[-1])
            times, by, nbytes = run
            loop.before.append((loop.cell(row, step), loop.slot(slot), nbytes, times, by, nbytes))
        self._put_results(loop, states, stacks, reverse)
        done, some = 0, 1
        if function is None:
            repeated, some = partial(loop.called, self._run), length
        else:
            repeated = partial(machine.repeat, self.context, loop.repeated(function))
        while done < length:
            some = min(some, length - done)
            begun = time.perf_counter()
            ended = repeated(some)
            done += ended
            if ended < some:
                at = length - 1 - done if reverse else done
                inputs = [*fixed, *states, *(one[at, ...] for one in slices)]
                self.program.raise_failure(dict(zip(self.given, inputs, strict=True)))
            if time.perf_counter() - begun < SOON:
                some *= 2
        return True

    def _run(self) -> bool:
        return self.launcher.machine.call(self.launcher.graph, self.context)

    def _put_results(
        self,
        loop: _Calls,
        states: Sequence[np.ndarray],
        stacks: Sequence[np.ndarray],
        reverse: bool,
    ) -> None:
        """Each result goes where it belongs: rows are written where they stay, states copied."""
        results, slots = self.launcher.result_slots, self.launcher.slots
        taken = self.launcher.overwritten
        outputs = [node for _, node in self.program.graph.outputs]
        # where the pointer to a result is
        cells = {node: loop.slot(slots[one]) for node, one in taken.items()}
        for node, stack in zip(outputs[len(states) :], stacks, strict=True):
            step = -stack.strides[0] if reverse else stack.strides[0]
            row = stack[-1 if reverse else 0, ...]
            if node in results and node not in cells:
                loop.at(results[node], row, step)
                cells[node] = loop.slot(results[node])
            else:
                from_ = cells.get(node) or loop.slot(slots[node])
                loop.copied(from_, loop.cell(row, step), row.nbytes)
        for node in outputs[: len(states)]:
            if node in results:
                cells.setdefault(node, loop.slot(results[node]))
            elif node not in cells:  # given, and perhaps a state that changes before it is read
                cells[node] = loop.cell(self.made[node])
                loop.copied(loop.slot(slots[node]), cells[node], self.made[node].nbytes)
        for node, state in zip(outputs[: len(states)], states, strict=True):
            if node in taken:
                continue
            loop.copied(cells[node], loop.cell(state), state.nbytes)


class _Calls:
    """What machine code does between calls: copies, and pointers that move on.

    A cell is where a pointer is: a slot of the context, or one of its own.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.before: list[Copy] = []
        self.after: list[Copy] = []
        self.moves: list[Move] = []
        self.own: list[ctypes.c_void_p] = []

    def slot(self, number: int) -> int:
        """The cell of a slot of the context."""
        return self.context.address + number * ctypes.sizeof(ctypes.c_void_p)

    def at(self, number: int, array: np.ndarray, step: int = 0) -> None:
        """Lets a slot point at an array, and then at what lies a step further."""
        self.context.slots[number] = pointer_of(array)
        if step:
            self.moves.append((self.slot(number), step))

    def cell(self, array: np.ndarray, step: int = 0) -> int:
        """A cell that points at an array, and then at what lies a step further."""
        self.own.append(ctypes.c_void_p(pointer_of(array)))
        found = ctypes.addressof(self.own[-1])
        if step:
            self.moves.append((found, step))
        return found

    def copied(self, source: int, into: int, nbytes: int) -> None:
        """Copies after each call, from where one cell points to where another one does."""
        if nbytes:
            self.after.append((source, into, nbytes, 1, 0, 0))

    def called(self, call: Callable[[], bool], count: int) -> int:
        """Makes so many calls from Python; how many ended well."""
        before, after = Copies(self.before), Copies(self.after)
        for done in range(count):
            before()
            if not call():
                return done
            after()
            for cell, step in self.moves:
                pointer = ctypes.c_void_p.from_address(cell)
                pointer.value = (pointer.value or 0) + step
        return count

    def repeated(self, function: int) -> Repeated:
        """The calls of a function."""
        return Repeated(function, self.context.address, self.before, self.after, self.moves)


def _runs(array: np.ndarray) -> tuple[int, int, int] | None:
    """How an array lies in memory: so many runs, so many bytes apart, of so many bytes each, in
    order.  None where that cannot be said of it, or a run is short."""
    nbytes, times, by = array.itemsize, 1, 0
    for length, step in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if length == 1:
            continue
        if times == 1 and step == nbytes:
            nbytes *= length
        elif times == 1 and step > 0:
            times, by = length, step
        elif step == times * by:
            times *= length
        else:
            return None
    return None if times > 1 and nbytes < SHORT else (times, by, nbytes)


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

    def program_of(self, body: Body, iterations: int | None, places: Places) -> Iterations | None:
        """The body as compiled code, which writes outputs to these places; None where it is done
        too seldom for that (`iterations` is None where nobody knows how often)."""
        if iterations is not None and iterations < WORTH_COMPILING:
            return None
        key = (self.settings, *numbers_of(body, places.carried))
        made = body.made.get(key)
        if made is None:
            results = [node for _, node in body.graph.outputs]
            program = NativeProgram(body.graph, results, places.carried, settings=self.settings)
            made = body.made.setdefault(key, program)
        return Iterations(made, self, places.stacked)
