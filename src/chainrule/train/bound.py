"""Binds compiled training steps to the memory of one state and to one set of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.run.free_memory import refuse_beyond_free
from chainrule.run.native.arrays import binder, copied_nbytes, plain, pointer_of, usual
from chainrule.run.native.evaluate import given_value, raise_failure
from chainrule.run.native.launch import Launcher
from chainrule.train.state import State

if TYPE_CHECKING:
    from chainrule.train.step import TrainingStep


def moved_by(step: TrainingStep, concrete: Graph) -> dict[str, Node]:
    """The new values of the arrays of the state, by their names, but for those that stay."""
    inputs = {item.name: item.node for item in concrete.inputs}
    after = {part.name: concrete.names[part.next_name] for part in step.persistent}
    return {name: node for name, node in after.items() if node is not inputs[name]}


def results_of(step: TrainingStep, concrete: Graph) -> tuple[list[Node], dict[Node, Node]]:
    """What a step computes, and which inputs' arrays take which of it."""
    moving = moved_by(step, concrete)
    inputs = {item.name: item.node for item in concrete.inputs}
    overwrites = {inputs[name]: node for name, node in moving.items()}
    return [concrete.names[step.objective], *moving.values()], overwrites


class BoundStep:
    """One call of native code a step: pointers to parameters and scratch memory stay in place.

    Calling it with the batch takes a step if each array fits as it is, and returns the objective;
    None if it does not, and nothing has happened (`take` then has the arrays checked and copied).
    It is made for a first step on `inputs`.
    """

    def __init__(
        self,
        step: TrainingStep,
        state: State,
        concrete: Graph,
        inputs: Mapping[Node, np.ndarray],
    ) -> None:
        self.step, self.concrete, self.state = step, concrete, state
        names = [part.name for part in step.persistent]
        nodes = {item.name: item.node for item in concrete.inputs}
        objective, moving = concrete.names[step.objective], moved_by(step, concrete)
        launcher = Launcher(concrete, *results_of(step, concrete))
        self.launcher = launcher
        self.context = launcher.new_context(self._copied_nbytes(inputs))
        self.slots = self.context.slots
        self.made = {node: np.empty(node.shape, node.dtype) for node in launcher.fresh}
        for node, array in self.made.items():
            self.slots[launcher.result_slots[node]] = pointer_of(array)
        for name in names:
            self.slots[launcher.slots[nodes[name]]] = pointer_of(state.memory[name])
        self.copies = self._copies(moving)
        self.unmoved = [(n, node) for n, node in moving.items() if self._is_given(node)]
        self.objective_node, self.objective = objective, self.made.get(objective)
        given = [item for item in concrete.inputs if item.name not in names]
        arrays = [item for item in given if item.default is None]
        self.arrays = {item.name: launcher.slots[item.node] for item in arrays}
        self.bind = binder(
            [(self.arrays[x.name], usual(x.type.dtype), x.node.shape) for x in arrays]
        )
        self.scalars = {
            item.name: (np.array(item.default, item.type.dtype), item.default)
            for item in given
            if item.default is not None and not item.type.shape
        }
        for item in given:
            if item.name in self.scalars:
                self.slots[launcher.slots[item.node]] = pointer_of(self.scalars[item.name][0])
        self.changed: set[str] = set()
        roots = {name for s in step.graph.structures.values() for name in s.leaf_names[:1]}
        known = step.graph.structures
        plain = all(name in known or name not in roots for name in self.arrays)
        plain = plain and not step.graph.guards and not self.unmoved
        plain = plain and len(self.arrays) + len(self.scalars) == len(given)
        self.plain = plain and self.objective is not None

    def _is_given(self, node: Node) -> bool:
        return node not in self.made and node not in self.launcher.overwritten

    def _copies(self, moving: Mapping[str, Node]) -> list[tuple[str, np.ndarray]]:
        """The arrays that code could not update in place, and where their new values are."""
        names = {item.node: item.name for item in self.concrete.inputs}
        found: list[tuple[str, np.ndarray]] = []
        for name, node in moving.items():
            taken = self.launcher.overwritten.get(node)
            if taken is not None and names[taken] != name:
                found.append((name, self.state.memory[names[taken]]))
            elif node in self.made:
                found.append((name, self.made[node]))
        return found

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """The objective after a step on the batch; None if the batch has to be looked at."""
        if not self.plain:
            return None
        state = self.state
        state.refuse_second_step()
        with state.stepping, state.updating:
            if self._takes(batch) and self._run({}):
                assert self.objective is not None
                return self.objective[()]
        return None

    def _takes(self, batch: Mapping[str, Any]) -> bool:
        """Point at the arrays of the batch and set its scalars, if all fit as they are."""
        if not self.bind([*map(batch.get, self.arrays)], self.slots):
            return False
        begin, end = self.state.begin, self.state.end
        for slot in self.arrays.values():
            # a view of the state: it would change under the step
            if begin <= (self.slots[slot] or 0) < end:
                return False
        count = len(self.arrays)
        if len(batch) != count:
            for name, value in batch.items():
                scalar = self.scalars.get(name)
                if scalar is not None and type(value) is float:
                    self.step.check_number(name, value)
                    self.changed.add(name)
                    scalar[0][...] = value
                    count += 1
            if len(batch) != count:
                return False
        if self.changed:
            self._restore(batch)
        return True

    def _restore(self, batch: Mapping[str, Any]) -> None:
        """Scalars of earlier calls that are not given now have their defaults again."""
        for name in [name for name in self.changed if name not in batch]:
            array, default = self.scalars[name]
            array[...] = default
            self.changed.discard(name)

    def _batch(self) -> list[Input]:
        """The inputs that are not of the state."""
        return [x for x in self.concrete.inputs if x.name not in self.state.arrays]

    def _copied_nbytes(self, inputs: Mapping[Node, np.ndarray]) -> int:
        """What a step copies of a batch."""
        batch = [item.node for item in self._batch()]
        return sum([copied_nbytes(inputs[node], node.dtype) for node in batch])

    def take(self, inputs: Mapping[Node, np.ndarray]) -> Any:
        """A step on checked arrays, for every input of the graph; the caller holds the state."""
        kept = []
        allocated = self.launcher.machine.artifact.allocated_nbytes
        refuse_beyond_free(self._copied_nbytes(inputs) + allocated)
        for item in self._batch():
            value = inputs[item.node]
            if item.name in self.scalars:
                self.changed.add(item.name)
                self.scalars[item.name][0][...] = value
                continue
            array = plain(value, item.node.dtype)
            if self.state.begin <= pointer_of(array) < self.state.end:
                array = array.copy()
            self.slots[self.launcher.slots[item.node]] = pointer_of(array)
            kept.append(array)
        objective = self.objective
        if objective is None:  # an input or a constant: as it was before the step
            objective = given_value(self.objective_node, inputs)
        if not self._run(inputs):
            outputs = [node for _, node in self.concrete.outputs]
            raise_failure(self.concrete, inputs, outputs, self.step.graph)
        return objective[()]

    def _run(self, inputs: Mapping[Node, np.ndarray]) -> bool:
        """Take a step; False if an index was out of range, and nothing has changed.

        Python raises for a signal (Ctrl-C) anywhere between two calls, also when native code has
        just returned.  A step that was taken is then taken to its end, and counts.
        """
        unmoved = [(name, given_value(node, inputs)) for name, node in self.unmoved]
        machine, finished = self.launcher.machine, self.context.finished
        wanted = finished.value + len(machine.enters)
        try:
            done = machine.call(self.concrete, self.context)
        finally:
            if finished.value == wanted:
                self.state.steps_taken += 1
                changes = [*self.copies, *unmoved]
                if changes:
                    try:
                        self.state.put(changes)
                    except BaseException:
                        self.state.put(changes)
                        raise
        return done
