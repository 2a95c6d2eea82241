"""A training step in machine code, bound to the memory of one state and to one set of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.run.native.evaluate import raise_failure
from chainrule.run.native.launch import Launcher, pointer_of
from chainrule.train.state import State

if TYPE_CHECKING:
    from chainrule.train.step import TrainingStep


class BoundStep:
    """One call of native code a step: pointers to parameters and scratch memory stay in place.

    Calling it with the batch takes a step if each array fits as it is, and returns the objective;
    None if it does not, and nothing has happened (`take` then has the arrays checked and copied).
    """

    def __init__(self, step: TrainingStep, state: State, concrete: Graph) -> None:
        self.step, self.concrete, self.state = step, concrete, state
        names = {part.name: part.next_name for part in step.persistent}
        inputs = {item.name: item.node for item in concrete.inputs}
        after = {name: concrete.names[later] for name, later in names.items()}
        objective = concrete.names[step.objective]
        moving = {name: node for name, node in after.items() if node is not inputs[name]}
        launcher = Launcher(
            concrete,
            [objective, *moving.values()],
            {inputs[name]: node for name, node in moving.items()},
        )
        self.launcher, self.context = launcher, launcher.new_context()
        self.slots = self.context.slots
        self.made = {node: np.empty(node.shape, node.dtype) for node in launcher.fresh}
        for node, array in self.made.items():
            self.slots[launcher.result_slots[node]] = pointer_of(array)
        for name in names:
            self.slots[launcher.slots[inputs[name]]] = pointer_of(state.memory[name])
        by_node = {node: name for name, node in inputs.items()}
        self.exchanges = [(n, by_node[node]) for n, node in moving.items() if node in by_node]
        self.copies = self._copies(moving, by_node)
        self.objective_node, self.objective = objective, self.made.get(objective)
        given = [item for item in concrete.inputs if item.name not in names]
        self.arrays = [
            (item.name, launcher.slots[item.node], item.type.dtype, item.type.shape)
            for item in given
            if item.default is None
        ]
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
        plain = all(name in step.graph.structures or name not in roots for name, *_ in self.arrays)
        self.plain = plain and not step.graph.guards and self.objective is not None
        self.plain = self.plain and len(self.arrays) + len(self.scalars) == len(given)

    def _copies(
        self, moving: Mapping[str, Node], names: Mapping[Node, str]
    ) -> list[tuple[str, np.ndarray | str]]:
        """The arrays that code could not update in place, and where their new values are."""
        found: list[tuple[str, np.ndarray | str]] = []
        for name, node in moving.items():
            taken = self.launcher.overwritten.get(node)
            if taken is not None and names[taken] != name:
                found.append((name, names[taken]))
            elif taken is None and node in self.made:
                found.append((name, self.made[node]))
        return found

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """The objective after a step on the batch; None if the batch has to be looked at."""
        if not self.plain:
            return None
        count, slots = 0, self.slots
        for name, slot, dtype, shape in self.arrays:
            array = batch.get(name)
            if (
                type(array) is not np.ndarray
                or array.dtype is not dtype
                or array.shape != shape
                or not array.flags.c_contiguous
            ):
                return None
            slots[slot] = pointer_of(array)
            count += 1
        if len(batch) != count:
            for name, value in batch.items():
                scalar = self.scalars.get(name)
                if scalar is not None and type(value) is float:
                    scalar[0][...] = value
                    self.changed.add(name)
                    count += 1
            if len(batch) != count:
                return None
        if self.changed:
            self._restore(batch)
        done = 0
        self.state.begin()
        try:
            done = self._run()
        finally:
            self.state.end(done)
        assert self.objective is not None
        return self.objective[()] if done else None

    def _restore(self, batch: Mapping[str, Any]) -> None:
        """Scalars of earlier calls that are not given now have their defaults again."""
        for name in [name for name in self.changed if name not in batch]:
            array, default = self.scalars[name]
            array[...] = default
            self.changed.discard(name)

    def take(self, inputs: Mapping[Node, np.ndarray]) -> Any:
        """A step on checked arrays, for every input of the graph; the caller holds the state."""
        kept = []
        for item in self.concrete.inputs:
            if item.name in self.state.arrays:
                continue
            if item.name in self.scalars:
                self.scalars[item.name][0][...] = inputs[item.node]
                self.changed.add(item.name)
                continue
            array = np.ascontiguousarray(inputs[item.node]).reshape(item.node.shape)
            self.slots[self.launcher.slots[item.node]] = pointer_of(array)
            kept.append(array)
        if not self._run():
            raise_failure(self.concrete, inputs, [self.objective_node])
        self.state.advance({})
        if self.objective is None:
            return np.array(inputs[self.objective_node])[()]
        return self.objective[()]

    def _run(self) -> int:
        """The number of steps taken: 0 if an index was out of range."""
        memory = self.state.memory
        early = [(name, memory[source].copy()) for name, source in self.exchanges]
        if not self.launcher.machine.call(self.concrete, self.context):
            return 0
        for name, source in self.copies:
            memory[name][...] = memory[source] if isinstance(source, str) else source
        for name, array in early:
            memory[name][...] = array
        return 1
