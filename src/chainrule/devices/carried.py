"""State that an objective carries, over ranks: each micro-batch reads what the one before it left.

What follows an array is computed where its stage is, and has a value of its own for each
micro-batch, so that ranks give the bits of micro-batches that one process takes in turn.  With
replicas, too: each goes on from what the one before it left.  They need not wait for each other
where the two passes do not read the state, as with running statistics: it follows after the passes.
Nor where it does not follow from the batch, as with a key or a count: it is there before them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chainrule.dataclass import dataclass
from chainrule.devices.pieces import is_everywhere
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.rebuild import ordered
from chainrule.primitives.movement import reshape
from chainrule.primitives.sources import input_
from chainrule.train.step.micro_batches import MicroBatchedStep
from chainrule.train.step.random_inputs import key_inputs


@dataclass(frozen=True, eq=False)
class Carried:
    """`following` maps the arrays that are carried, inputs of a graph, to what follows them; `read`
    are those that the two passes need, `of_data` those that follow from the batch."""

    following: Mapping[Node, Node]
    read: frozenset[Node]
    of_data: frozenset[Node]

    @property
    def serial(self) -> list[Node]:
        """Those for which a replica would wait until the one before it has read its last rows."""
        return [one for one in self.following if one in self.read & self.of_data]

    def before(self) -> set[Node]:
        """What is computed for them before the passes, where there are replicas."""
        return set(topological([self.following[one] for one in self.read]))

    def after(self, passes: Collection[Node]) -> set[Node]:
        """What is computed for them after `passes`, where there are replicas: all that depends on
        them, and is not needed there."""
        depending, earlier = set(self.following), self.before()
        for node in topological([then for s, then in self.following.items() if s not in self.read]):
            if depending.intersection(node.inputs) or node in self.following.values():
                depending.add(node)
        return depending - self.following.keys() - earlier - set(passes)


def carried_of(
    following: Mapping[Node, Node], ends: Iterable[Node], data: Collection[Node]
) -> Carried:
    """What is carried, where the two passes give `ends`, and the inputs `data` are of the batch."""
    needs = {one: set(topological([then])) for one, then in following.items()}
    read = following.keys() & set(topological(ends))
    of_data = {one for one in following if not needs[one].isdisjoint(data)}
    while more := {other for one in read for other in following.keys() & needs[one]} - read:
        read |= more
    while more := {one for one in following if needs[one] & of_data} - of_data:
        of_data |= more
    return Carried(following, frozenset(read), frozenset(of_data))


def refuse_serial(step: MicroBatchedStep, replicas: int) -> None:
    """InputError for several replicas of which each would wait for the one before it."""
    graph = step.accumulating.graph
    found = carried_in(step).serial if replicas > 1 else []
    if found:
        one = graph.name_of[found[0]]
        raise InputError(
            f"{one} is state that the objective reads, and that follows from the batch: each of "
            f"{replicas} replicas would wait until the one before it has read its rows",
            where=graph[one].origin.describe(),
            hint="stages= or ways= instead of replicas=; state that the objective does not read, "
            "such as running statistics, or that does not follow from the batch, such as a key, "
            "takes replicas",
        )


def carried_in(step: MicroBatchedStep) -> Carried:
    """What a step carries, whatever the sizes."""
    graph, parts = step.accumulating.graph, step.accumulating.persistent
    following = {graph[one.name]: graph[one.next_name] for one in parts if one.is_carried}
    ends = [graph[one.next_name] for one in parts if not one.is_carried]
    return carried_of(following, ends, [graph[name] for name in varying_of(step)])


def varying_of(step: MicroBatchedStep) -> frozenset[str]:
    """The inputs that differ from part to part of a batch: its rows, and keys."""
    keys = key_inputs(step.whole.graph, (*step.split, *step.whole.carried))
    return frozenset({*step.split, *keys})


def with_own_values(graph: Graph, objective: str, following: Mapping[str, str]) -> Graph:
    """The graph in which what follows each array, as names say, is a value that is nothing else: a
    copy of what is an input, made of numbers alone, or computed for the objective, too."""
    names = dict(graph.names)
    carried = {names[name] for name in following}
    shared = {*topological([names[objective]]), *is_everywhere(graph.nodes, carried)}
    has_copies = False
    for then in following.values():
        node = names[then]
        if node in shared or node.primitive is input_:
            names[then] = reshape(node, shape=node.shape)
            stamp((names[then],), node.origin)
            has_copies = True
        shared.add(names[then])
    if not has_copies:
        return graph
    outputs = tuple((name, names[name]) for name, _ in graph.outputs)
    found = graph.replace(outputs=outputs, names=names)
    return found.replace(nodes=ordered(found))
