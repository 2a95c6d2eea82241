"""The reference executor's storage as a schedule: every value an array of its own, or a view.

Constants count as arrays in C order, and inputs where nothing else is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from chainrule.graph.body import Body
from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Gather, Given, no_bytes
from chainrule.schedule.in_numpy import followed, outline_in_c_order, taken_nbytes
from chainrule.schedule.lifetimes import lifetimes_of, live_nbytes
from chainrule.schedule.lives import BEFORE
from chainrule.schedule.records import (
    SCRATCH,
    Buffer,
    Compute,
    Free,
    Instruction,
    Schedule,
    View,
    aligned,
)
from chainrule.schedule.turns import order_of, turns_of


@without_collector
def plain_schedule(
    graph: Graph,
    results: Sequence[Node],
    outlines: Mapping[Node, np.ndarray] | None = None,
    order: Sequence[Node] | None = None,
) -> Schedule:
    """What `execute.reference.evaluate(graph, inputs, results)` does, for a concrete graph.

    One Compute for each evaluation of a node that gets an array, in the order of the graph, or in
    another `order`, in which a node that is no result may come several times; a result that is a
    view gets one, too, for its copy.  Every array is a place of its own: no two ever share
    bytes.  Workspaces are the scratch that primitives declare.  Results that are given are copied
    before the first instruction; the schedule does not show these copies.  `outlines` say how
    inputs lie that are not in C order.
    """
    return _Plain(graph, results, outlines or {}, order).schedule()


def most_nbytes(graph: Graph) -> int:
    """No less than any run of a concrete graph allocates beside its arguments; quick to find.

    Every value is there at once, and again as a copy that an operation or the caller makes, with
    all that evaluations take besides.
    """
    total = 0
    for node in graph.nodes:
        total += 2 * int(node.type.nbytes)
        primitive = node.primitive
        if primitive.scratch is not no_bytes or primitive.library_bytes is not no_bytes:
            total += taken_nbytes(node, [outline_in_c_order(one) for one in node.inputs])
    return total


def iteration_nbytes(body: Body) -> int:
    """The most bytes that one evaluation of a concrete body takes, its outputs among them."""
    found = body.made.get("iteration_nbytes")
    if found is None:
        found = body.made["iteration_nbytes"] = _iteration_nbytes(body)
    return found


def _iteration_nbytes(body: Body) -> int:
    outputs = list(dict.fromkeys(node for _, node in body.graph.outputs))
    schedule = plain_schedule(body.graph, outputs)
    given = [node for node in outputs if isinstance(node.primitive.kernel, Given)]
    copied = sum(int(node.type.nbytes) for node in given)
    computed = [one for one in lifetimes_of(schedule) if one.born != BEFORE]
    return copied + max(live_nbytes(schedule, computed), default=0)


class Outlines(dict[Node, np.ndarray]):
    """The outlines of nodes, and whose bytes each shows (`owners`; uniform: nobody's)."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[Node, Node] = {}

    def give(self, node: Node, outline: np.ndarray) -> None:
        """An array that is there."""
        self.owners[node], self[node] = node, outline

    def of_inputs(self, node: Node) -> list[np.ndarray]:
        """Those of a node's operands."""
        return [self[one] for one in node.inputs]

    def follow(self, node: Node) -> None:
        """The outline of a node, from those of its inputs."""
        self[node], own = followed(node, self.of_inputs(node))
        if own:
            self.owners[node] = node
        elif node.inputs and node.inputs[0] in self.owners:
            self.owners[node] = self.owners[node.inputs[0]]


class _Plain:
    """The evaluations in turn, and the outlines of all nodes."""

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        outlines: Mapping[Node, np.ndarray],
        order: Sequence[Node] | None = None,
    ) -> None:
        self.graph, self.results = graph, dict.fromkeys(results)
        self.turns = turns_of(order_of(graph, results) if order is None else order)
        self.given = dict.fromkeys(item.node for item in graph.inputs)
        self.outlines = Outlines()
        self.owners = self.outlines.owners
        self.scratch_nbytes = 0
        self.numbers = count()
        for node in dict.fromkeys(one.into.node for one in self.turns):
            if isinstance(node.primitive.kernel, Given):
                self.given[node] = None
                lies = outlines.get(node)
                self.outlines.give(node, outline_in_c_order(node) if lies is None else lies)
            else:
                self.outlines.follow(node)

    def schedule(self) -> Schedule:
        """The records for all evaluations; bytes are freed when the last value that shows them
        ends."""
        kept = {*self.given, *self.results}
        held: Counter[Node] = Counter()
        instructions: list[Instruction] = []
        for into, _, ended in self.turns:
            instructions += self.instructions(into.node)
            held[self.owners.get(into.node, into.node)] += 1
            for node, _ in ended:
                owner = self.owners.get(node, node)
                held[owner] -= 1
                if not held[owner] and owner in self.owners and owner not in kept:
                    instructions.append(Free(owner))
        given = {
            node: Buffer(f"given {place}", 0, int(node.type.nbytes))
            for place, node in enumerate(self.given)
        }
        results, scratch = tuple(self.results), self.scratch_nbytes
        return Schedule(self.graph, tuple(instructions), given, results, scratch_nbytes=scratch)

    def instructions(self, node: Node) -> Iterator[Instruction]:
        """The Compute or the View of a node; nothing for one that is given or uniform."""
        owner = self.owners.get(node)
        if node in self.given or (owner is None and node not in self.results):
            return
        if owner is node or node in self.results:
            read = (node,) if owner is not node else node.inputs
            workspace = 0
            if owner is node:
                workspace = taken_nbytes(node, self.outlines.of_inputs(node))
            yield Compute(
                nodes=(node,),
                into=(self.buffer(node),),
                reads=tuple(dict.fromkeys(self.owners[one] for one in read if one in self.owners)),
                workspace=self.scratch(workspace) if workspace else None,
                fails=isinstance(node.primitive.kernel, Gather),
                label=node.primitive.name,
            )
        elif owner is not None and node.type.size and self.outlines[owner].flags.c_contiguous:
            # of another order the simulator knows nothing; it sees through the view by itself
            view, base = self.outlines[node], self.outlines[owner]
            yield View(node, owner, _address(view) - _address(base), view.strides)

    def buffer(self, node: Node) -> Buffer:
        """A new place for a value: the array of a result, or in scratch."""
        nbytes = int(node.type.nbytes)
        if node in self.results:
            return Buffer(f"result {next(self.numbers)}", 0, nbytes)
        return self.scratch(nbytes)

    def scratch(self, nbytes: int) -> Buffer:
        """New bytes of scratch."""
        offset = self.scratch_nbytes
        self.scratch_nbytes += aligned(nbytes)
        return Buffer(SCRATCH, offset, nbytes)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
