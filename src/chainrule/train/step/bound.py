"""Binds training steps to the memory of one state and to one set of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.executor import InPlace
from chainrule.execute.executors import held_call, in_memory, prepare
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.train.step.state import State

if TYPE_CHECKING:
    from chainrule.train.step.step import TrainingStep


def moved_by(step: TrainingStep, concrete: Graph) -> dict[str, Node]:
    """The new values of the arrays of the state, by their names, but for those that stay."""
    inputs = {item.name: item.node for item in concrete.inputs}
    after = {part.name: concrete.names[part.next_name] for part in step.persistent}
    return {name: node for name, node in after.items() if node is not inputs[name]}


def results_of(step: TrainingStep, concrete: Graph) -> tuple[list[Node], dict[Node, Node]]:
    """What a step computes, and which inputs' arrays take which of it.

    The objective is returned: an array that takes it, too, gets a copy.
    """
    moving = moved_by(step, concrete)
    inputs = {item.name: item.node for item in concrete.inputs}
    objective = concrete.names[step.objective]
    overwrites = {inputs[name]: node for name, node in moving.items() if node is not objective}
    return [objective, *moving.values()], overwrites


class BoundStep:
    """Takes steps: the arrays of the state stay in place from one to the next.

    Calling it takes a step on checked arrays, for every input of the graph; the caller holds the
    state.
    """

    def __init__(self, step: TrainingStep, state: State, concrete: Graph) -> None:
        self.step, self.state = step, state
        concrete = in_memory(step.executor, concrete, partial(results_of, step))
        given = [item for item in concrete.inputs if item.name not in state.home.memory]
        arrays = [item for item in given if item.default is None]
        self.arrays = tuple([item.name for item in arrays])
        program = prepare(step.executor, concrete, *results_of(step, concrete), traced=step.graph)
        defaults = [x for x in given if x.default is not None and not x.type.shape]
        self.scalars = {
            item.name: (np.array(item.default, item.type.dtype), item.default)
            for item in (defaults if isinstance(program, InPlace) else ())
        }
        self.changed: set[str] = set()
        self.refuse_copies = getattr(program, "refuse_copies", None)  # of one with a budget
        nodes = {item.name: item.node for item in concrete.inputs}
        self.scalar_nodes = {name: nodes[name] for name in self.scalars}
        held = {nodes[name]: array for name, array in state.home.memory.items()}
        held |= {nodes[name]: array for name, (array, _) in self.scalars.items()}
        order = [item.node for item in arrays]
        self.call = call = held_call(program, order, held, self._taken, state.home)
        self.short_call = call.__call__  # a method: Python enters it without a detour by C
        place = {node: number for number, node in enumerate(call.results)}
        self.objective = place[concrete.names[step.objective]]
        moving = moved_by(step, concrete)
        self.moved = [(name, place[node]) for name, node in moving.items() if node in place]
        self.copies = self._copies(concrete, moving)
        self.steps_taken = state.steps_taken
        plain = len(self.arrays) + len(self.scalars) == len(given)
        self.plain = plain and not step.graph.guards and call.is_short

    def _copies(self, concrete: Graph, moving: Mapping[str, Node]) -> list[tuple[str, np.ndarray]]:
        """The arrays whose new values are those of other arrays, which were updated in place."""
        names, taken = {item.node: item.name for item in concrete.inputs}, self.call.overwritten
        others = {name: names[taken[node]] for name, node in moving.items() if node in taken}
        memory = self.state.home.memory
        return [(name, memory[other]) for name, other in others.items() if other != name]

    def taken(self, step: TrainingStep, state: State, batch: Mapping[str, Any]) -> Any:
        """Take a step on a batch, which is looked at only where an array does not fit as it is;
        those of containers have their own names here.  Returns the objective.
        """
        if step is self.step and self.plain:
            if (len(batch) == len(self.arrays) and not self.changed) or self._sets_scalars(batch):
                self.steps_taken = state.steps_taken + 1
                arrays = []
                for name in self.arrays:  # with cold caches in half the time of any other way
                    arrays.append(batch.get(name))
                values = self.short_call(arrays)
                if values is not None:
                    return values[self.objective][()]
        return step.looked_at(state, batch)

    def __call__(self, inputs: Mapping[Node, Any]) -> Any:
        """The objective after a step on these inputs."""
        for name, node in self.scalar_nodes.items():
            self.changed.add(name)
            self.scalars[name][0][...] = inputs[node]
        self.state.latest = self
        self.steps_taken = self.state.steps_taken + 1
        return self.call.take(inputs)[self.objective][()]

    def _sets_scalars(self, batch: Mapping[str, Any]) -> bool:
        """Set the scalars of the batch; those of earlier calls have their defaults again.

        False if there is something in the batch beside arrays and floats.
        """
        count = len(self.arrays)
        self.call.renew()
        for name in [name for name in self.changed if name not in batch]:
            array, default = self.scalars[name]
            array[...] = default
            self.changed.discard(name)
        for name, value in batch.items() if len(batch) != count else ():
            scalar = self.scalars.get(name)
            if scalar is not None and type(value) is float:
                self.step.check_number(name, value)
                self.changed.add(name)
                scalar[0][...] = value
                count += 1
        return len(batch) == count

    def _taken(self, values: Sequence[np.ndarray]) -> None:
        """The step was taken: it counts, and what could not be updated in place is copied.

        Called again where a signal interrupts it.
        """
        self.state.steps_taken = self.steps_taken
        if self.moved or self.copies:
            moved = [(name, values[place]) for name, place in self.moved]
            self.state.put([*moved, *self.copies])
