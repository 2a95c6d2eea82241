"""Compiled code called with arrays that stay in place: a training step is one such call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.executor import Then
from chainrule.execute.free_memory import refuse_beyond_free
from chainrule.execute.home import Home
from chainrule.execute.native.runtime.arrays import plain, pointer_of, usual
from chainrule.execute.native.runtime.context import Context
from chainrule.execute.native.runtime.entry import Enter, entry
from chainrule.execute.native.runtime.launch import given_value
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.native.program import NativeProgram


class HeldCall:
    """See `InPlace.hold`.  Scratch memory and results are allocated by the first `take`."""

    def __init__(
        self,
        program: NativeProgram,
        order: Sequence[Node],
        held: Mapping[Node, np.ndarray],
        then: Then,
        home: Home,
    ) -> None:
        self.program, self.held, self.then, self.home = program, dict(held), then, home
        self.graph, self.launcher = program.graph, program.launcher
        launcher = self.launcher
        self.overwritten = launcher.overwritten
        self.given = program.given_results
        self.results = [*launcher.fresh, *self.given]
        self.is_short = not self.given  # a given value is copied before it may be overwritten
        self.expected = [(launcher.slots[one], usual(one.dtype), one.shape) for one in order]
        taken = [held[node] for node in self.overwritten.values() if held[node].nbytes]
        self.begin = min(map(pointer_of, taken), default=0)
        self.end = max((pointer_of(one) + one.nbytes for one in taken), default=0)
        self.parts = len(launcher.machine.enters)
        self.made: list[np.ndarray] = []
        self.context: Context | None = None
        self.enter: Enter | None = None

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray] | None:
        """See `Call.__call__`; None for what shares memory with an array that is overwritten."""
        enter = self.enter
        if enter is None:
            enter = self._entered()
        if enter is None or self.home.is_away:
            return None
        return self.made if self._run(enter, arrays, self.made) else None

    def renew(self) -> None:
        """See `HeldCall.renew`: the code reads the arrays themselves."""

    def take(self, inputs: Mapping[Node, Any]) -> list[np.ndarray]:
        """See `Call.take`; the values of inputs that are held are those of their arrays."""
        self.home.moved_in()
        launcher = self.launcher
        given = {node: value for node, value in inputs.items() if node not in self.held}
        copies = self.program.copied_nbytes(given)
        self.program.refuse_copies(copies)
        copied = sum(copies.values())
        context = self.context
        if context is None:
            context = self._prepared(copied)
        refuse_beyond_free(copied + launcher.machine.artifact.allocated_nbytes)
        kept = []
        for node, value in given.items():
            array = plain(value, node.dtype)
            if self.begin <= pointer_of(array) < self.end:
                array = array.copy()
            context.slots[launcher.slots[node]] = pointer_of(array)
            kept.append(array)
        # before they may be overwritten
        values = [*self.made, *(given_value(node, inputs) for node in self.given)]
        if not self._run(launcher.machine.call, (self.graph, context), values):
            self.program.raise_failure(inputs)
        return values

    def _prepared(self, copied_nbytes: int) -> Context:
        """Memory for all calls, the arrays that stay in place."""
        launcher = self.launcher
        context = launcher.new_context(copied_nbytes)
        self.made = [np.empty(node.shape, node.dtype) for node in launcher.fresh]
        for node, array in zip(launcher.fresh, self.made, strict=True):
            context.slots[launcher.result_slots[node]] = pointer_of(array)
        for node, array in self.held.items():
            context.slots[launcher.slots[node]] = pointer_of(array)
        self.context, self.finished = context, context.finished
        return context

    def _entered(self) -> Enter | None:
        """What runs the code on arrays that fit; None before the first `take`."""
        if self.context is not None:
            machine, kept = self.launcher.machine, (self.begin, self.end)
            self.enter = entry(machine, self.graph, self.context, self.expected, kept)
        return self.enter

    def _run(self, run: Enter, arguments: Sequence[Any], values: list[np.ndarray]) -> bool:
        """Run the code; False if it did not come to its end, and nothing has changed.

        Python raises for a signal (Ctrl-C) anywhere between two calls, also when native code has
        just returned.  A run that has come to its end counts as one all the same.
        """
        finished = self.finished
        wanted = finished.value + self.parts
        try:
            done = run(*arguments)  # stored: `return` would be outside of `try`
        finally:
            if finished.value == wanted:
                try:
                    self.then(values)
                except BaseException:
                    self.then(values)
                    raise
        return done
