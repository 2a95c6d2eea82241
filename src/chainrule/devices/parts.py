"""The two graphs of a training step on equal parts of a batch, for ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chainrule.dataclass import dataclass
from chainrule.devices.carried import varying_of, with_own_values
from chainrule.devices.instructions import Key
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.rebuild import ordered
from chainrule.primitives.movement import reshape
from chainrule.primitives.sources import input_
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.transforms.widen import widen


@dataclass(frozen=True, eq=False)
class Parts:
    """A training step on equal parts of a batch: `summing` adds what one part contributes to sums,
    `updating` moves the state by them.

    `sums` maps the name of a sum, in both graphs, to the name of what follows it, and `summed` to
    the parameter whose gradients it adds up, None for the objective's; `carried` maps an array of
    the objective's own state to what follows it, in both graphs; `following` are what follows the
    arrays of the state; `owned` maps an optimizer's array to its parameter; `varying` are the
    inputs that differ from part to part.
    """

    summing: Graph
    updating: Graph
    objective: str
    sums: Mapping[str, str]
    summed: Mapping[str, str | None]
    carried: Mapping[str, str]
    following: Mapping[str, str]
    owned: Mapping[str, str]
    varying: frozenset[str]

    def given(self, numbers: Mapping[str, int], count: int) -> set[Key]:
        """What a step with `count` parts can give to ranks: the inputs, by their `numbers`, but for
        sums and for what follows the objective's state, which ranks compute."""
        computed = {*self.sums, *self.carried.values()}

        def parts(name: str) -> Iterable[int | None]:
            if name in self.varying:
                return range(count)
            return (0,) if name in self.carried else (None,)  # the first part reads the state

        return {
            Key(number, part)
            for name, number in numbers.items()
            if name not in computed
            for part in parts(name)
        }

    def nbytes_of_parameters(self) -> dict[Node, int]:
        """The bytes that belong to each parameter: its own, its sum's, the optimizer's arrays."""
        inputs = {item.name: item.node for item in self.summing.inputs}
        found: dict[Node, int] = {}
        for item in self.updating.inputs:
            of = self.owned.get(item.name)
            if of is not None:
                sums = 2 if item.name == of else 1
                found[inputs[of]] = found.get(inputs[of], 0) + sums * int(item.type.nbytes)
        return found


def parts_at(step: MicroBatchedStep, sizes: Mapping[str, int]) -> Parts:
    """The two graphs of a step, for a part of a batch of these sizes."""
    summing, updating = step.accumulating, step.updating
    bound = widen(summing.graph.bind(**{n: sizes[n] for n in summing.graph.sizes}))
    update = widen(updating.graph.bind(**{n: sizes[n] for n in updating.graph.sizes}))
    update = _computed(update, {part.name: part.next_name for part in updating.persistent})
    sums = [part for part in summing.persistent if not part.is_carried]
    carried = {part.name: part.next_name for part in summing.persistent if part.is_carried}
    bound = with_own_values(bound, step.whole.objective, carried)
    moving = {
        part.name: part.next_name
        for part in updating.persistent
        if update.names[part.next_name] is not update.names[part.name]
    }
    return Parts(
        bound,
        update,
        step.whole.objective,
        {part.name: part.next_name for part in sums},
        {part.name: part.parameter for part in sums},
        carried,
        moving,
        {part.name: part.parameter for part in updating.persistent if part.parameter},
        varying_of(step) if step.count > 1 else frozenset(step.split),
    )


def _computed(graph: Graph, following: Mapping[str, str]) -> Graph:
    """The graph of an update in which what follows an array of the state is computed, or is that
    array: of another one it is a copy, for that changes, too.  `following` are their names."""
    of_name = dict(graph.names)
    copies: dict[Node, Node] = {}
    for name, then in following.items():
        node = of_name[then]
        if node.primitive is input_ and node is not of_name[name]:
            copies[node] = of_name[then] = copies.get(node) or reshape(node, shape=node.shape)
            stamp((copies[node],), node.origin)
    if not copies:
        return graph
    outputs = tuple([(name, of_name[name]) for name, _ in graph.outputs])
    made = graph.replace(outputs=outputs, names=of_name)
    return made.replace(nodes=ordered(made))
