"""The reference executor's storage as a schedule: every value an array of its own, or a view.

Inputs and constants count as arrays in C order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from chainrule.graph.collector import without_collector
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.in_numpy import followed, outline_of, taken_nbytes
from chainrule.plan.schedule import (
    SCRATCH,
    Buffer,
    Compute,
    Free,
    Instruction,
    Schedule,
    View,
    aligned,
)
from chainrule.primitives.primitive import Gather, Library


@without_collector
def plain_schedule(graph: Graph, results: Sequence[Node]) -> Schedule:
    """What `run.reference.evaluate(graph, inputs, results)` does, for a concrete graph.

    One Compute for each needed node that gets an array, in the order of the graph; a result that
    is a view gets one, too, for its copy.  Every array is a place of its own: no two ever share
    bytes.  Workspaces are the scratch that primitives declare.  Results that are given are copied
    before the first instruction; the schedule does not show these copies.
    """
    return _Plain(graph, results).schedule()


class _Plain:
    """The needed nodes in order; their outlines; and whose bytes they are (uniform: nobody's)."""

    def __init__(self, graph: Graph, results: Sequence[Node]) -> None:
        needed = set(topological(results))
        self.graph, self.results = graph, dict.fromkeys(results)
        self.order = [node for node in graph.nodes if node in needed]
        self.given = dict.fromkeys(item.node for item in graph.inputs)
        self.outlines: dict[Node, np.ndarray] = {}
        self.owners: dict[Node, Node] = {}
        self.scratch_nbytes = 0
        self.numbers = count()
        for node in self.order:
            self.follow(node)

    def follow(self, node: Node) -> None:
        """The outline of a node, from those of its inputs."""
        if node.primitive.kernel == Library("argument"):
            self.given[node] = None
            self.outlines[node], own = outline_of(node), True
        else:
            operands = [self.outlines[one] for one in node.inputs]
            self.outlines[node], own = followed(node, operands)
        if own:
            self.owners[node] = node
        elif node.inputs and node.inputs[0] in self.owners:
            self.owners[node] = self.owners[node.inputs[0]]

    def schedule(self) -> Schedule:
        """The records for all nodes in order."""
        ends = {
            self.owners[one]: node
            for node in self.order
            for one in (node, *node.inputs)
            if one in self.owners
        }
        instructions: list[Instruction] = []
        for node in self.order:
            instructions += self.instructions(node)
            owners = dict.fromkeys(self.owners.get(one) for one in (*node.inputs, node))
            instructions += [
                Free(one)
                for one in owners
                if one and ends[one] is node and one not in self.given and one not in self.results
            ]
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
                operands = [self.outlines[one] for one in node.inputs]
                workspace = taken_nbytes(node, operands)
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
